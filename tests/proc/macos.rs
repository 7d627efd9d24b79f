//! macOS: what is ours by descent, session and token. No Mac has run them.

use ci_ledger::core::moment::Secs;
use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::{Exit, OursBy};
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::{Owner, OwnerSettings, Report, SpawnSpec};
use ci_ledger::host::{clock, identity};

use super::driver::{LIMIT, exited, gone, identify, next, read_pid, run, settings, sh, started, swept};

/// Perl comes with the system, and is the only program of it that can call setsid.
fn perl(script: &str) -> SpawnSpec {
    SpawnSpec { program: "perl".into(), args: vec!["-MPOSIX".into(), "-e".into(), script.into()], cwd: None, env: Vec::new() }
}

#[tokio::test]
async fn the_record_names_what_is_in_force() {
    let mut owner = Owner::launch(&settings()).unwrap();
    owner.start(sh("exit 0"));
    match next(&mut owner).await {
        Report::Started { containment, .. } => assert_eq!(containment, "descendant+session+token"),
        other => panic!("{other:?}"),
    }
    assert_eq!(exited(&mut owner).await, Exit::Code(0));
    let (swept, used) = swept(&mut owner, StopOrder::at_once()).await;
    assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Clean, 0), "{swept:?}");
    assert_eq!(used.source.as_deref(), Some("sampled"));
    owner.close().await;
}

#[tokio::test]
async fn statuses_and_signals_are_two_things() {
    for (script, exit) in [("exit 3", Exit::Code(3)), ("exit 137", Exit::Code(137)), ("kill -9 $$", Exit::Signal(9))] {
        assert_eq!(run(sh(script)).await.0, exit, "{script}");
    }
}

#[tokio::test]
async fn a_leftover_that_ignores_term_is_killed_and_named() {
    let (exit, swept, _) = run(sh("trap '' TERM; sleep 1000 & exit 0")).await;
    assert_eq!((exit, swept.cleanup, swept.leftovers.len()), (Exit::Code(0), Cleanup::Clean, 1), "{swept:?}");
    assert!(swept.escalated, "{swept:?}");
}

/// Its own session, no parent that lives, and no environment that may be seen.
#[tokio::test]
async fn a_daemon_is_ours_by_descent() {
    let (_, swept, _) = run(perl("fork and exit; POSIX::setsid(); %ENV = (); exec qw(/bin/sleep 1000)")).await;
    assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Clean, 1), "{swept:?}");
    assert_eq!(swept.leftovers[0].ours_by, OursBy::Descendant, "{swept:?}");
}

#[tokio::test]
async fn the_session_is_enough() {
    use ci_ledger::host::tree::Mechanism::{Descendant, Token};
    let settings = OwnerSettings { disabled: vec![Descendant, Token], ..settings() };
    let mut owner = Owner::launch(&settings).unwrap();
    started(&mut owner, sh("sleep 1000 & exit 0")).await;
    exited(&mut owner).await;
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_millis(200))).await;
    assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Clean, 1), "{swept:?}");
    assert_eq!(swept.leftovers[0].ours_by, OursBy::Session, "{swept:?}");
    owner.close().await;
}

#[tokio::test]
async fn an_owner_takes_its_tree_along() {
    let mut owner = Owner::launch(&settings()).unwrap();
    let leader = started(&mut owner, sh("trap '' TERM; sleep 1000 & echo $!; wait")).await;
    let child = identify(read_pid(owner.stdout.as_mut().unwrap()).await);
    drop(owner);
    assert!(gone(leader, LIMIT).await && gone(child, LIMIT).await);
}

#[tokio::test]
async fn evidence_holds_the_stack_of_the_leader() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, perl("1 while 1")).await;
    owner.evidence();
    let Report::Evidence(evidence) = next(&mut owner).await else { panic!("expected evidence") };
    assert!(evidence.stack.is_some() || evidence.missing.iter().any(|why| why.starts_with("sample")), "{evidence:?}");
    assert!(evidence.tree.iter().any(|row| row.cpu_pct > Some(10.0)), "{evidence:?}");
    swept(&mut owner, StopOrder::at_once()).await;
    owner.close().await;
}

#[test]
fn the_clocks_agree_while_nobody_sleeps() {
    let before = clock::now();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(clock::now().slept_since(before), Secs::ZERO);
    assert!(identity::host_info().boot_id.is_some());
}
