//! What is not ours, and what is spared (cases 10, 12, 19, 24).

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use ci_ledger::core::moment::Secs;
use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::pattern::Patterns;
use ci_ledger::core::process::{Fate, ProcessId};
use ci_ledger::core::stop::{Role, StopOrder};
use ci_ledger::host::clock;
use ci_ledger::host::deliver::{Delivery, Signal, deliver};
use ci_ledger::host::identity::is_alive;
use ci_ledger::host::owner::{Owner, OwnerSettings, SpawnSpec};
use ci_ledger::host::reap::ReapScope;
use ci_ledger::host::table::{Depth, ProcessTable, SharedTable};
use ci_ledger::host::tree::{Children, OurTree, Root};

use super::driver::{ENVIRONMENTS, gone, identify, read_pid, run_with, settings, sh, started, swept};
use crate::support::{World, until};

/// Ended and waited for, however the test goes.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of this name that sleeps: a copy, so that its executable has the name.
fn stranger(folder: &std::path::Path, name: &str) -> (Stranger, ProcessId) {
    let program = folder.join(name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let child = Command::new(&program).arg("113").spawn().unwrap();
    let id = identify(i32::try_from(child.id()).unwrap());
    (Stranger(child), id)
}

fn looking_for(pattern: &str, scope: ReapScope) -> OwnerSettings {
    let table = SharedTable::new(ProcessTable::new(Patterns::new([pattern]).unwrap()));
    OwnerSettings { table, reap_scope: scope, ..settings() }
}

#[tokio::test]
async fn somebody_elses_machine_is_shown_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (_vm, id) = stranger(folder.path(), "own-test-vm");
    // An editor with the name among its arguments is no virtual machine.
    let _editor = Stranger(Command::new("sleep").arg0("vim own-test-vm").arg("113").spawn().unwrap());
    let (_, swept, _) = run_with(&looking_for("own-test-*", ReapScope::Owned), sh("exit 0")).await;
    assert_eq!(swept.cleanup, Cleanup::Clean);
    assert!(swept.leftovers.is_empty(), "{swept:?}");
    let pids: Vec<i32> = swept.foreign.iter().map(|foreign| foreign.pid).collect();
    assert_eq!(pids, [id.pid], "{swept:?}");
    assert_eq!(swept.foreign[0].exe.as_deref(), Some("own-test-vm"));
    assert!(swept.foreign[0].argv.as_deref().unwrap().ends_with("own-test-vm 113"));
    assert!(is_alive(id));
}

#[tokio::test]
async fn under_scope_host_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut vm, id) = stranger(folder.path(), "host-test-vm");
    let (_, swept, _) = run_with(&looking_for("host-test-*", ReapScope::Host), sh("exit 0")).await;
    assert_eq!((swept.foreign.len(), swept.foreign[0].fate), (1, Some(Fate::Terminated)), "{swept:?}");
    assert_eq!(swept.cleanup, Cleanup::Clean, "{swept:?}");
    assert!(gone(id, Duration::from_secs(5)).await);
    vm.0.wait().unwrap();
}

/// A pattern may match ledger and its owners. They end nobody who has to end others.
#[test]
fn under_scope_host_ledger_itself_is_no_match() {
    let world = World::with(&[("a.sh", "exit 0"), ("b.sh", "exit 0")]);
    let ledger = world.join("own-test-ledger");
    std::fs::copy(env!("CARGO_BIN_EXE_ledger"), &ledger).unwrap();
    let args = ["run", "--cap", "30", "--reap-match", "own-test-led*", "--reap-scope", "host", "a.sh", "b.sh", "--", "sh"];
    world.finish(world.program(ledger.to_str().unwrap(), args)).expect(0);
    assert_eq!(world.leg()["terminal"], "complete");
}

/// The two may name the same program, and then it may stay.
#[tokio::test]
async fn under_scope_host_who_may_stay_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (_kept, stays) = stranger(folder.path(), "mixed-test-kept");
    let (mut vm, goes) = stranger(folder.path(), "mixed-test-vm");
    let mut settings = looking_for("mixed-test-*", ReapScope::Host);
    settings.allow_leftover = Patterns::new(["mixed-test-kept"]).unwrap();
    let (_, swept, _) = run_with(&settings, sh("exit 0")).await;
    assert!(is_alive(stays) && gone(goes, Duration::from_secs(5)).await, "{swept:?}");
    vm.0.wait().unwrap();
    let mut fates: Vec<_> = swept.foreign.iter().map(|foreign| (foreign.pid, foreign.fate)).collect();
    fates.sort_by_key(|(pid, _)| *pid);
    let mut wanted = vec![(stays.pid, Some(Fate::Allowed)), (goes.pid, Some(Fate::Terminated))];
    wanted.sort_by_key(|(pid, _)| *pid);
    assert_eq!((fates, swept.cleanup), (wanted, Cleanup::Clean), "{swept:?}");
}

#[tokio::test]
async fn two_owners_leave_each_other_alone() {
    let mut one = Owner::launch(&settings()).unwrap();
    let mut other = Owner::launch(&settings()).unwrap();
    started(&mut one, sh("sleep 112 & echo $!; exit 0")).await;
    // It has started what it is to leave behind.
    read_pid(one.stdout.as_mut().unwrap()).await;
    started(&mut other, sh("sleep 112 & echo $!; wait")).await;
    let kept = identify(read_pid(other.stdout.as_mut().unwrap()).await);
    let (first, _) = swept(&mut one, StopOrder::at_once()).await;
    assert_eq!((first.cleanup, first.leftovers.len()), (Cleanup::Clean, 1), "{first:?}");
    assert!(is_alive(kept));
    swept(&mut other, StopOrder::at_once()).await;
    assert!(!is_alive(kept));
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_daemon_that_is_meant_to_live_is_spared_with_its_workers() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = folder.path().join("build-server.sh");
    // Its worker has a name of its own before the leader may end.
    std::fs::write(&daemon, "sleep 111 & until grep -q sleep /proc/$!/cmdline; do sleep 0.02; done; : > \"$0.there\"; wait")
        .unwrap();
    let allow_leftover = Patterns::new(["*build-server*"]).unwrap();
    for order in [StopOrder::ask(Secs::from_millis(200)), StopOrder::at_once()] {
        let mut owner = Owner::launch(&OwnerSettings { allow_leftover: allow_leftover.clone(), ..settings() }).unwrap();
        // The name is not on the shell's own command line, which a child shows until it has become another program.
        let script = "setsid sh \"$DAEMON\" & echo $!; until [ -e \"$DAEMON.there\" ]; do sleep 0.02; done; rm \"$DAEMON.there\"; \
                      sleep 110 & exit 0";
        let env = vec![("DAEMON".into(), daemon.clone().into())];
        started(&mut owner, SpawnSpec { env, ..sh(script) }).await;
        let daemon = identify(read_pid(owner.stdout.as_mut().unwrap()).await);
        super::driver::exited(&mut owner).await;
        let (swept, _) = swept(&mut owner, order).await;
        assert_eq!(swept.cleanup, Cleanup::Clean, "{swept:?}");
        let fate = |words: &str| swept.leftovers.iter().find(|left| left.argv.as_deref().is_some_and(|argv| argv.contains(words)));
        assert_eq!(fate("build-server").unwrap().fate, Fate::Allowed, "{swept:?}");
        assert_eq!(fate("sleep 111").unwrap().fate, Fate::Allowed, "{swept:?}");
        assert_ne!(fate("sleep 110").unwrap().fate, Fate::Allowed, "{swept:?}");
        owner.close().await;
        assert!(is_alive(daemon), "it outlives its owner");
        for left in swept.leftovers.iter().filter(|left| left.fate == Fate::Allowed) {
            let _ = deliver(identify(left.pid), Signal::Kill);
        }
        assert!(gone(daemon, Duration::from_secs(5)).await);
    }
}

/// A process that sleeps so that nothing but KILL interrupts it, when it is told to, and wakes.
struct Sleeper {
    _process: Stranger,
    id: ProcessId,
    folder: tempfile::TempDir,
}

impl Sleeper {
    fn start(token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/children/uninterruptible.py");
        let mut command = Command::new("python3");
        command.arg(script).current_dir(folder.path()).env("LEDGER_TOKEN", token);
        let process = Stranger(command.spawn().unwrap());
        let id = identify(i32::try_from(process.0.id()).unwrap());
        Self { _process: process, id, folder }
    }

    fn sleep(&self) {
        std::fs::write(self.folder.path().join("sleep"), "").unwrap();
        // A page on its way as the program starts is a sleep as well, and not this one.
        until("it is about to sleep", || self.folder.path().join("asleep").exists());
        until("it sleeps", || std::fs::read_to_string(format!("/proc/{}/stat", self.id.pid)).unwrap().contains(") D "));
    }

    fn wake(&self) {
        std::fs::write(self.folder.path().join("wake"), "").unwrap();
        until("it is awake", || self.folder.path().join("awake").exists());
    }
}

/// Whoever waits for its disk shows no command line; a daemon that is meant to live is not killed for that.
#[tokio::test]
async fn who_may_stay_may_stay_while_it_sleeps() {
    let _asleep = ENVIRONMENTS.lock().await;
    let sleeper = Sleeper::start("nobody's");
    let tree = || {
        let mut tree = OurTree::new(Root::Nobody);
        tree.spare = Patterns::new(["*uninterruptible.py*"]).unwrap().into();
        tree.noted.insert(sleeper.id);
        tree
    };
    let role = |tree: &mut OurTree| {
        let scan = tree.scan(Children::Some, clock::now());
        scan.seen.iter().find(|seen| seen.id == sleeper.id).unwrap().role
    };
    let (mut noted, mut looked_at) = (tree(), tree());
    until("it has become its program", || role(&mut looked_at) == Role::Spared);
    noted.note(Children::Some);
    sleeper.sleep();
    let roles = (role(&mut noted), role(&mut looked_at));
    // Before anything may fail: the child that it waits for ends by this.
    sleeper.wake();
    assert_eq!(roles, (Role::Spared, Role::Spared));
}

/// Asked in the middle of a sleep that nothing interrupts, a process gives no answer; that is told, and not kept for one.
#[tokio::test]
async fn who_sleeps_when_it_is_asked_is_asked_again() {
    let _asleep = ENVIRONMENTS.lock().await;
    let token = uuid::Uuid::new_v4().simple().to_string();
    let sleeper = Sleeper::start(&token);
    let id = sleeper.id;
    // Everybody else has answered before it sleeps: it sleeps for no longer than it takes to ask it.
    let table = SharedTable::default();
    table.refresh(Depth::Usual).unwrap();
    table.lock().carriers("no such token", id.start + 1);
    sleeper.sleep();
    let asleep = table.lock().carriers(&token, id.start);
    sleeper.wake();
    let awake = table.lock().carriers(&token, id.start);
    // Its child, which it waits for, carries the token too.
    assert!(asleep.asleep.contains(&id) && !asleep.found.contains(&id), "{asleep:?}");
    assert!(awake.found.contains(&id) && !awake.asleep.contains(&id), "{awake:?}");
}

#[test]
fn a_number_that_is_somebody_elses_by_now_gets_no_signal() {
    let child = Stranger(Command::new("sleep").arg("109").spawn().unwrap());
    let id = identify(i32::try_from(child.0.id()).unwrap());
    let earlier = ProcessId { start: id.start - 1, ..id };
    assert_eq!(deliver(earlier, Signal::Kill), Delivery::Vanished);
    assert!(is_alive(id));
    assert_eq!(deliver(ProcessId { pid: 0, start: 0 }, Signal::Kill), Delivery::Vanished);
    assert_eq!(deliver(ProcessId { pid: -1, start: 0 }, Signal::Kill), Delivery::Vanished);
}
