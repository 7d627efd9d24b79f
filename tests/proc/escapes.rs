//! Ways out of a process group, and all of them are still ours (cases 2-9, 13).

use std::time::Duration;

use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::{Exit, Fate};
use ci_ledger::host::owner::{OwnerSettings, SpawnSpec};
use ci_ledger::host::process;
use ci_ledger::host::tree::Mechanism;

use super::driver::{child, run_with, settings, sh};

/// Once with everything, once without a cgroup, once with neither a cgroup nor the kernel's lists of children.
fn each_way() -> Vec<OwnerSettings> {
    let ways: [&[Mechanism]; 3] = [&[], &[Mechanism::Cgroup], &[Mechanism::Cgroup, Mechanism::Children]];
    ways.iter().map(|disabled| OwnerSettings { disabled: disabled.to_vec(), ..settings() }).collect()
}

async fn ends_clean(spec: SpawnSpec, named: &str) {
    for settings in each_way() {
        let (exit, swept, _) = run_with(&settings, spec.clone()).await;
        let how = format!("without {:?}: {swept:?}", settings.disabled);
        assert_eq!(exit, Exit::Code(0), "{how}");
        assert_eq!(swept.cleanup, Cleanup::Clean, "{how}");
        let found = swept.leftovers.iter().find(|left| left.argv.as_deref().is_some_and(|argv| argv.contains(named)));
        let found = found.unwrap_or_else(|| panic!("no {named}: {how}"));
        assert!(matches!(found.fate, Fate::Killed | Fate::Terminated), "{how}");
    }
}

#[tokio::test]
async fn a_double_fork_into_a_session_of_its_own() {
    // The leader ends when the second fork is there, however busy the machine is.
    let script =
        "f=$(mktemp); (setsid sh -c \"sleep 119 & echo there > $f; exit 0\" &); until [ -s $f ]; do sleep 0.02; done; rm $f";
    ends_clean(sh(script), "sleep 119").await;
}

#[tokio::test]
async fn without_token_and_session_and_stopped() {
    let script = "env -i setsid sh -c 'kill -STOP $$; sleep 118' & \
                  until grep -q '^State:.T' /proc/$!/status; do sleep 0.02; done";
    ends_clean(sh(script), "kill -STOP").await;
}

#[tokio::test]
async fn the_leader_ends_first() {
    ends_clean(sh("sleep 117 & exit 0"), "sleep 117").await;
}

#[tokio::test]
async fn a_process_that_closes_every_descriptor() {
    ends_clean(child("closer.py", &[]), "closer.py").await;
}

#[tokio::test]
async fn a_process_whose_first_thread_has_ended() {
    for settings in each_way() {
        let (_, swept, _) = run_with(&settings, child("main_thread_gone.py", &[])).await;
        // Its command line went with its first thread.
        let found: Vec<(&str, Fate)> = swept.leftovers.iter().map(|left| (left.comm.as_str(), left.fate)).collect();
        assert_eq!((swept.cleanup, &found[..]), (Cleanup::Clean, &[("python3", Fate::Killed)][..]), "{swept:?}");
    }
}

/// Whoever carries the token, in many looks, because one hardly meets a process that forks and ends all the time; its session ends by this.
fn end_carriers(token: &str) -> Vec<process::Stat> {
    let carries = |stat: &process::Stat| stat.comm.starts_with("python") && process::carries_token(stat.id.pid, token) == Ok(true);
    let look = || process::all().unwrap().into_iter().filter_map(|pid| process::stat(pid).ok()).filter(carries);
    let left: Vec<process::Stat> = (0..30).flat_map(|_| look()).collect();
    for session in left.iter().filter_map(|stat| rustix::process::Pid::from_raw(stat.session)) {
        let _ = rustix::process::kill_process_group(session, rustix::process::Signal::KILL);
    }
    left
}

#[tokio::test]
async fn a_process_that_is_never_there() {
    for settings in each_way() {
        let (_, swept, _) = run_with(&settings, child("hopper.py", &[])).await;
        let left = end_carriers(settings.token.as_str());
        assert!(left.is_empty(), "without {:?}: {left:?} {swept:?}", settings.disabled);
        assert_eq!(swept.cleanup, Cleanup::Clean, "without {:?}: {swept:?}", settings.disabled);
    }
}

#[tokio::test]
async fn zombies_are_no_leftovers() {
    for settings in each_way() {
        let (_, swept, _) = run_with(&settings, child("zombies.py", &[])).await;
        assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Clean, 0), "{swept:?}");
    }
}

#[tokio::test]
async fn a_port_is_free_after_the_sweep() {
    use super::driver::{exited, read_pid, started, swept};
    use ci_ledger::core::moment::Secs;
    use ci_ledger::core::stop::StopOrder;
    let mut owner = ci_ledger::host::owner::Owner::launch(&settings()).unwrap();
    started(&mut owner, child("listener.py", &[])).await;
    let port = read_pid(owner.stdout.as_mut().unwrap()).await;
    exited(&mut owner).await;
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_millis(100))).await;
    assert_eq!(swept.cleanup, Cleanup::Clean);
    std::net::TcpListener::bind(("127.0.0.1", u16::try_from(port).unwrap())).expect("the port is free at once");
    owner.close().await;
}

#[tokio::test]
async fn a_held_pipe_ends_with_the_sweep() {
    use super::driver::{LIMIT, exited, started, swept};
    use ci_ledger::core::moment::Secs;
    use ci_ledger::core::stop::StopOrder;
    use tokio::io::AsyncReadExt as _;
    let mut owner = ci_ledger::host::owner::Owner::launch(&settings()).unwrap();
    started(&mut owner, sh("echo kept; trap '' TERM; setsid sleep 116 & exit 1")).await;
    assert_eq!(exited(&mut owner).await, Exit::Code(1));
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_millis(100))).await;
    assert_eq!(swept.leftovers.len(), 1, "{swept:?}");
    let mut text = String::new();
    let mut stdout = owner.stdout.take().unwrap();
    tokio::time::timeout(LIMIT, stdout.read_to_string(&mut text)).await.expect("the pipe ends").unwrap();
    assert_eq!(text, "kept\n");
    owner.close().await;
}

#[tokio::test]
async fn timeouts_inside_timeouts() {
    use super::driver::{read_until, started, swept};
    use ci_ledger::core::moment::Secs;
    use ci_ledger::core::stop::StopOrder;
    for settings in each_way() {
        let mut owner = ci_ledger::host::owner::Owner::launch(&settings).unwrap();
        started(&mut owner, child("nested_timeout.sh", &["25"])).await;
        read_until(owner.stdout.as_mut().unwrap(), |text| text.contains("ready")).await;
        let began = ci_ledger::host::clock::now();
        let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_millis(400))).await;
        let took = ci_ledger::host::clock::now().since(began);
        assert_eq!(swept.cleanup, Cleanup::Clean, "{swept:?}");
        assert!(swept.escalated && took.duration() < Duration::from_secs(10), "{took} {swept:?}");
        owner.close().await;
    }
}
