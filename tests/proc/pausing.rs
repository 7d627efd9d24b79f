//! Ctrl-Z and fg (case 27).

use std::time::Duration;

use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::{Owner, OwnerSettings};
use ci_ledger::host::tree::Mechanism;
use tokio::io::AsyncReadExt as _;

use super::driver::{read_until, settings, sh, started, swept};

#[tokio::test]
async fn a_paused_tree_stands_still_and_goes_on() {
    for disabled in [vec![], vec![Mechanism::Cgroup]] {
        let mut owner = Owner::launch(&OwnerSettings { disabled, ..settings() }).unwrap();
        started(&mut owner, sh("(while :; do echo tick; sleep 0.01; done) & wait")).await;
        let mut stdout = owner.stdout.take().unwrap();
        read_until(&mut stdout, |text| text.contains("tick")).await;
        owner.pause();
        // Silence of half a second shows that it stands; what was printed before may still come.
        let mut chunk = [0_u8; 4096];
        while let Ok(read) = tokio::time::timeout(Duration::from_millis(500), stdout.read(&mut chunk)).await {
            assert!(read.unwrap() > 0);
        }
        owner.resume();
        read_until(&mut stdout, |text| text.contains("tick")).await;
        let (swept, _) = swept(&mut owner, StopOrder::at_once()).await;
        assert_eq!(swept.cleanup, ci_ledger::core::outcome::Cleanup::Clean);
        owner.close().await;
    }
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
