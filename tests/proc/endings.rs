//! How a leader ends, as it is told (cases 1, 20-23).

use ci_ledger::core::moment::Secs;
use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::Exit;
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::{Owner, Report, SpawnSpec};

use super::driver::{child, next, read_until, run, settings, sh, started, swept};

#[tokio::test]
async fn a_status_and_a_signal_are_two_things() {
    for (script, wanted) in [
        ("exit 0", Exit::Code(0)),
        ("exit 124", Exit::Code(124)),
        ("exit 137", Exit::Code(137)),
        ("kill -9 $$", Exit::Signal(9)),
        ("kill -SEGV $$", Exit::Signal(11)),
        ("kill -TERM $$", Exit::Signal(15)),
    ] {
        assert_eq!(run(sh(script)).await.0, wanted, "{script}");
    }
}

#[tokio::test]
async fn a_thousand_starts_give_a_thousand_true_statuses() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = None;
    for round in 0..1000 {
        let mut owner = Owner::launch(&settings()).unwrap();
        let spec = SpawnSpec {
            program: "sh".into(),
            args: vec!["-c".into(), format!("exit {}", round % 256).into()],
            cwd: None,
            env: vec![],
        };
        started(&mut owner, spec).await;
        assert_eq!(super::driver::exited(&mut owner).await, Exit::Code(round % 256));
        let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_secs(1))).await;
        assert_eq!(swept.cleanup, Cleanup::Clean);
        owner.close().await;
        if round == 20 {
            before = Some(descriptors());
        }
    }
    // Other tests of this binary run beside this one and have some open; a leak would be a thousand.
    assert!(descriptors() < before.unwrap() + 200, "{before:?} then {}", descriptors());
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let cases = [("/nowhere/at/all", libc::ENOENT), ("no-such-program-anywhere", libc::ENOENT), ("/etc/shells", libc::EACCES)];
    for (program, errno) in cases {
        let mut owner = Owner::launch(&settings()).unwrap();
        owner.start(SpawnSpec { program: program.into(), args: vec![], cwd: None, env: vec![] });
        match next(&mut owner).await {
            Report::SpawnFailed { errno: Some(got), .. } => assert_eq!(got, errno, "{program}"),
            other => panic!("{program}: {other:?}"),
        }
        let (swept, _) = swept(&mut owner, StopOrder::at_once()).await;
        assert_eq!(swept.cleanup, Cleanup::Clean);
        owner.close().await;
    }
}

#[tokio::test]
async fn a_leader_that_ended_before_our_signal_keeps_its_status() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, sh("exit 5")).await;
    match next(&mut owner).await {
        Report::LeaderExited { exit, signalled, oom, .. } => assert_eq!((exit, signalled, oom), (Exit::Code(5), false, false)),
        other => panic!("{other:?}"),
    }
    swept(&mut owner, StopOrder::at_once()).await;
    owner.close().await;
}

#[tokio::test]
async fn a_leader_that_ended_by_our_signal_says_so() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, sh("trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done")).await;
    read_until(owner.stdout.as_mut().unwrap(), |text| text.contains("ready")).await;
    owner.sweep(StopOrder::ask(Secs::from_secs(5)));
    match next(&mut owner).await {
        Report::LeaderExited { exit, signalled, .. } => assert_eq!((exit, signalled), (Exit::Code(0), true)),
        other => panic!("{other:?}"),
    }
    match next(&mut owner).await {
        Report::Swept(swept, _) => assert_eq!((swept.cleanup, swept.escalated), (Cleanup::Clean, false), "{swept:?}"),
        other => panic!("{other:?}"),
    }
    owner.close().await;
}

#[tokio::test]
async fn a_second_signal_gives_no_more_grace() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, sh("trap '' TERM; echo ready; while :; do sleep 0.02; done")).await;
    read_until(owner.stdout.as_mut().unwrap(), |text| text.contains("ready")).await;
    let began = ci_ledger::host::clock::now();
    owner.sweep(StopOrder::ask(Secs::from_secs(60)));
    owner.kill_now();
    loop {
        if let Report::Swept(swept, _) = next(&mut owner).await {
            assert!(swept.escalated);
            break;
        }
    }
    assert!(ci_ledger::host::clock::now().since(began) < Secs::from_secs(5));
    owner.close().await;
}

#[tokio::test]
async fn a_thousand_that_ignore_term_are_gone_soon_after_the_grace() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, child("family.py", &["1000"])).await;
    read_until(owner.stdout.as_mut().unwrap(), |text| text.contains("ready")).await;
    let (swept, used) = swept(&mut owner, StopOrder::ask(Secs::from_millis(500))).await;
    eprintln!("1,000 that ignore TERM: {} in all, {} of it grace; {used:?}", swept.took, Secs::from_millis(500));
    assert_eq!(swept.cleanup, Cleanup::Clean, "{:?}", swept.notes);
    assert!(swept.escalated && swept.notes.iter().any(|note| note.contains("1000 leftovers")), "{:?}", swept.notes);
    owner.close().await;
}

/// Killed by the kernel for memory, in a cgroup that the test limits by itself: needs root and the v1 memory controller.
#[tokio::test]
async fn killed_for_memory_is_told_apart() {
    let group = std::path::PathBuf::from(format!("/sys/fs/cgroup/memory/ledger-test-{}", std::process::id()));
    if std::fs::create_dir(&group).is_err() || std::fs::write(group.join("memory.limit_in_bytes"), "33554432").is_err() {
        eprintln!("SKIPPED: no memory controller that this user may limit");
        let _ = std::fs::remove_dir(&group);
        return;
    }
    let script = format!("echo $$ > {}/cgroup.procs; exec python3 -c 'x = bytearray(1 << 28)'", group.display());
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, sh(&script)).await;
    match next(&mut owner).await {
        Report::LeaderExited { exit, signalled, oom, .. } => assert_eq!((exit, signalled, oom), (Exit::Signal(9), false, true)),
        other => panic!("{other:?}"),
    }
    swept(&mut owner, StopOrder::at_once()).await;
    owner.close().await;
    std::fs::remove_dir(&group).unwrap();
}
