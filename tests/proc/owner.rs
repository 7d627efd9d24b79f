use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::Exit;

use super::driver::{run, sh};

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
