use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::Exit;

use super::driver::{exited, read_until, run, settings, sh, started, swept};
use ci_ledger::core::moment::Secs;
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::Owner;

#[tokio::test]
async fn a_clean_file_is_swept_clean() {
    let (exit, swept, used) = run(sh("exit 3")).await;
    assert_eq!(exit, Exit::Code(3));
    assert_eq!(swept.cleanup, Cleanup::Clean);
    assert!(swept.leftovers.is_empty() && !swept.escalated, "{swept:?}");
    eprintln!("{swept:?} {used:?}");
}

#[tokio::test]
async fn a_leftover_that_ignores_term_is_killed_and_named() {
    let (exit, swept, _) = run(sh("trap '' TERM; sleep 1000 & exit 0")).await;
    assert_eq!(exit, Exit::Code(0));
    eprintln!("{swept:?}");
    assert_eq!(swept.cleanup, Cleanup::Clean);
    assert!(swept.escalated);
}

#[tokio::test]
async fn output_arrives_and_a_leader_that_ignores_term_is_killed() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, sh("trap '' TERM; echo ready; while :; do sleep 0.05; done")).await;
    let mut stdout = owner.stdout.take().unwrap();
    read_until(&mut stdout, |text| text == "ready\n").await;
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_millis(200))).await;
    assert_eq!(swept.cleanup, Cleanup::Clean);
    assert!(swept.escalated);
    owner.close().await;
}

#[tokio::test]
async fn a_terminal_is_a_terminal() {
    let mut owner =
        Owner::launch(&ci_ledger::host::owner::OwnerSettings { terminal: ci_ledger::host::owner::Terminal::Pseudo, ..settings() })
            .unwrap();
    started(&mut owner, sh("test -t 0 && test -t 1 && test -t 2 && echo yes; tty </dev/tty")).await;
    let mut stdout = owner.stdout.take().unwrap();
    let shown = read_until(&mut stdout, |text| text.contains("/dev/tty")).await;
    assert!(shown.starts_with("yes"), "{shown}");
    assert_eq!(exited(&mut owner).await, Exit::Code(0));
    swept(&mut owner, StopOrder::ask(Secs::from_millis(200))).await;
    owner.close().await;
}

#[tokio::test]
async fn evidence_tells_a_spin_from_a_sleep() {
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, sh("sleep 1000 & while :; do :; done")).await;
    owner.evidence();
    let evidence = match super::driver::next(&mut owner).await {
        ci_ledger::host::owner::Report::Evidence(evidence) => evidence,
        other => panic!("{other:?}"),
    };
    let spin = &evidence.tree[0];
    assert!(spin.state == "R" && spin.argv.as_deref().unwrap().contains("while"), "{evidence:?}");
    let sleep = evidence.tree.iter().find(|row| row.comm == "sleep").unwrap();
    assert!(sleep.state == "S" && sleep.wait_channel.is_some(), "{sleep:?}");
    // How much more depends on who else is on this machine.
    assert!(spin.cpu_pct.unwrap() > sleep.cpu_pct.unwrap(), "{evidence:?}");
    // Who they are depends on that too.
    assert!((1..=5).contains(&evidence.top.len()), "{evidence:?}");
    assert!(evidence.top.is_sorted_by(|one, next| one.cpu_pct >= next.cpu_pct), "{evidence:?}");
    swept(&mut owner, StopOrder::at_once()).await;
    owner.close().await;
}
