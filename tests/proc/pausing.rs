//! Ctrl-Z and fg (case 27).

use std::time::Duration;

use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::{Owner, OwnerSettings};
use ci_ledger::host::tree::Mechanism;
use tokio::io::AsyncReadExt as _;

use super::driver::{LIMIT, read_until, settings, sh, started, swept, until};

#[tokio::test]
async fn a_paused_tree_stands_still_and_goes_on() {
    for disabled in [vec![], vec![Mechanism::Cgroup]] {
        let mut owner = Owner::launch(&OwnerSettings { disabled, ..settings() }).unwrap();
        let leader = started(&mut owner, sh("(while :; do echo tick; sleep 0.01; done) & wait")).await;
        let mut stdout = owner.stdout.take().unwrap();
        read_until(&mut stdout, |text| text.contains("tick")).await;
        owner.pause();
        until("the tree stands", || stands(leader.pid) && children(leader.pid).into_iter().all(stands)).await;
        // What was printed before may still come.
        let silence = async {
            let mut chunk = [0_u8; 4096];
            while let Ok(read) = tokio::time::timeout(Duration::from_millis(500), stdout.read(&mut chunk)).await {
                assert!(read.unwrap() > 0);
            }
        };
        tokio::time::timeout(LIMIT, silence).await.expect("nothing is printed any more");
        owner.resume();
        read_until(&mut stdout, |text| text.contains("tick")).await;
        let (swept, _) = swept(&mut owner, StopOrder::at_once()).await;
        assert_eq!(swept.cleanup, ci_ledger::core::outcome::Cleanup::Clean);
        owner.close().await;
    }
}

fn children(pid: i32) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Stopped, or in a control group that is frozen.
fn stands(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let is_stopped = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let events = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|mount| format!("{mount}{group}/cgroup.events"));
    is_stopped || events.iter().any(|path| std::fs::read_to_string(path).is_ok_and(|events| events.contains("frozen 1")))
}

#[tokio::test]
async fn a_paused_tree_can_be_killed() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, sh("echo tick; sleep 114")).await;
    read_until(owner.stdout.as_mut().unwrap(), |text| text.contains("tick")).await;
    owner.pause();
    let (swept, _) = swept(&mut owner, StopOrder::at_once()).await;
    assert_eq!(swept.cleanup, ci_ledger::core::outcome::Cleanup::Clean, "{swept:?}");
    owner.close().await;
}
