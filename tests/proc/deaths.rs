//! Death of ledger, of the owner, and of both (case 18).

use std::collections::BTreeSet;
use std::time::Duration;

use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::pattern::Patterns;
use ci_ledger::core::process::{Fate, ProcessId, Swept};
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::deliver::{Signal, deliver};
use ci_ledger::host::identity::is_alive;
use ci_ledger::host::owner::{Owner, OwnerSettings, Report};
use ci_ledger::host::reap::{Hurry, dead};
use ci_ledger::host::tree::Mechanism;

use super::driver::{ENVIRONMENTS, gone, identify, next, read_pid, settings, sh, started, swept};

const ESCAPED: &str = "trap '' TERM; env -i setsid sleep 108 & echo $!; wait";

/// For the owner the end of ledger is the end of the link, and dropping ledger's side is just that.
#[tokio::test]
async fn when_ledger_dies_the_tree_is_gone_without_a_grace_and_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let obituary = folder.path().join("obituary.ndjson");
    std::fs::write(&obituary, "").unwrap();
    let mut owner = Owner::launch(&OwnerSettings { obituary: Some(obituary.clone()), ..settings() }).unwrap();
    let owner_id = owner.id();
    let leader = started(&mut owner, sh(ESCAPED)).await;
    let escaped = identify(read_pid(owner.stdout.as_mut().unwrap()).await);
    let began = ci_ledger::host::clock::now();
    drop(owner);
    for id in [leader, escaped, owner_id] {
        assert!(gone(id, Duration::from_secs(10)).await, "{id:?}");
    }
    let took = ci_ledger::host::clock::now().since(began);
    eprintln!("gone {took} after the link closed");
    let swept: Swept = serde_json::from_str(std::fs::read_to_string(&obituary).unwrap().trim()).unwrap();
    assert_eq!(swept.cleanup, Cleanup::Clean);
    // The sleeper ends at TERM, so that one which was killed shows that nothing was asked and no grace was waited for.
    let left = swept.leftovers.iter().find(|left| left.pid == escaped.pid);
    assert!(left.is_some_and(|left| left.fate == Fate::Killed), "{swept:?}");
}

/// ledger takes over what is orphaned onto it. Every child of the process counts as an orphan then, so this needs a process of its
/// own: the test starts itself again.
#[tokio::test]
async fn when_the_owner_dies_ledger_sweeps() {
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "proc::deaths::in_a_process_of_its_own", "--ignored", "--nocapture"])
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
#[ignore = "started by when_the_owner_dies_ledger_sweeps"]
async fn in_a_process_of_its_own() {
    for disabled in [vec![], vec![Mechanism::Cgroup]] {
        let mut owner = Owner::launch(&OwnerSettings { disabled, ..settings() }).unwrap();
        let next_owner = Owner::launch(&settings()).unwrap();
        let leader = started(&mut owner, sh(ESCAPED)).await;
        let escaped = identify(read_pid(owner.stdout.as_mut().unwrap()).await);
        let _ = deliver(owner.id(), Signal::Kill);
        assert!(matches!(next(&mut owner).await, Report::OwnerLost));
        let (swept, _) = swept(&mut owner, StopOrder::at_once()).await;
        assert_eq!(swept.cleanup, Cleanup::Clean, "{swept:?}");
        assert!(!is_alive(leader) && !is_alive(escaped), "{swept:?}");
        assert!(is_alive(next_owner.id()), "the next file's owner is no orphan");
        owner.close().await;
        next_owner.close().await;
    }
}

/// Both are gone: what is recorded, and the token, find the tree again. Whoever has shed both is found through the leaf.
#[tokio::test]
async fn when_both_die_the_next_start_finds_the_tree() {
    let _readable = ENVIRONMENTS.lock().await;
    for disabled in [vec![], vec![Mechanism::Cgroup]] {
        let has_leaf = disabled.is_empty();
        let settings = OwnerSettings { disabled, ..settings() };
        let mut owner = Owner::launch(&settings).unwrap();
        owner.start(sh("setsid sleep 107 & (env -i setsid sleep 106 & echo $!); wait"));
        let has_leaf = match next(&mut owner).await {
            Report::Started { containment, .. } => has_leaf && containment.contains("cgroup"),
            other => panic!("{other:?}"),
        };
        let bare = identify(read_pid(owner.stdout.as_mut().unwrap()).await);
        let run = dead::DeadRun {
            token: settings.token.clone(),
            owner: Some(owner.id()),
            leader: None,
            descendants: BTreeSet::new(),
            allow_leftover: Patterns::default(),
            spared: BTreeSet::new(),
        };
        let _ = deliver(owner.id(), Signal::Kill);
        assert!(matches!(next(&mut owner).await, Report::OwnerLost));
        owner.close().await;
        let found = dead::find(&run);
        assert!(found.len() >= 2 && found.iter().all(|left| left.fate == Fate::Survived), "{found:?}");
        let swept = tokio::task::spawn_blocking(move || {
            let swept = dead::sweep(&run, StopOrder::at_once(), Hurry::default());
            assert!(dead::find(&run).is_empty());
            swept
        })
        .await
        .unwrap();
        assert_eq!(swept.cleanup, Cleanup::Clean, "{swept:?}");
        assert_eq!(is_alive(bare), !has_leaf, "{swept:?}");
        end(bare).await;
    }
}

async fn end(id: ProcessId) {
    let _ = deliver(id, Signal::Kill);
    assert!(gone(id, Duration::from_secs(5)).await);
}
