//! Runs one program under a real owner and collects what it reports.

use std::path::PathBuf;
use std::time::Duration;

use ci_ledger::core::ids::Token;
use ci_ledger::core::moment::Secs;
use ci_ledger::core::process::{Exit, ProcessId, Swept, TreeUse};
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::clock;
use ci_ledger::host::owner::{Output, Owner, OwnerSettings, Report, SpawnSpec};
use tokio::io::AsyncReadExt as _;

/// Nothing here takes longer unless it is broken.
pub const LIMIT: Duration = Duration::from_secs(30);

pub fn settings() -> OwnerSettings {
    let token = format!("{:032x}", u128::from(std::process::id()) << 64 | u128::from(clock::now().mono_ms));
    OwnerSettings { program: Some(PathBuf::from(env!("CARGO_BIN_EXE_ledger"))), ..OwnerSettings::new(Token(token)) }
}

pub fn sh(script: &str) -> SpawnSpec {
    SpawnSpec { program: "sh".into(), args: vec!["-c".into(), script.into()], cwd: None, env: Vec::new() }
}

pub async fn next(owner: &mut Owner) -> Report {
    tokio::time::timeout(LIMIT, owner.next()).await.expect("the owner reports in time")
}

pub async fn started(owner: &mut Owner, spec: SpawnSpec) -> ProcessId {
    owner.start(spec);
    match next(owner).await {
        Report::Started { id, .. } => id,
        other => panic!("expected a start: {other:?}"),
    }
}

pub async fn exited(owner: &mut Owner) -> Exit {
    match next(owner).await {
        Report::LeaderExited { exit, .. } => exit,
        other => panic!("expected the leader's end: {other:?}"),
    }
}

pub async fn swept(owner: &mut Owner, order: StopOrder) -> (Swept, TreeUse) {
    owner.sweep(order);
    loop {
        match next(owner).await {
            Report::Swept(swept, used) => return (swept, used),
            Report::LeaderExited { .. } => {}
            other => panic!("expected a sweep: {other:?}"),
        }
    }
}

/// Starts, waits for the leader, sweeps with a grace of a second.
pub async fn run(spec: SpawnSpec) -> (Exit, Swept, TreeUse) {
    run_with(&settings(), spec).await
}

pub async fn run_with(settings: &OwnerSettings, spec: SpawnSpec) -> (Exit, Swept, TreeUse) {
    let mut owner = Owner::launch(settings).unwrap();
    started(&mut owner, spec).await;
    let exit = exited(&mut owner).await;
    let (swept, used) = swept(&mut owner, StopOrder::ask(Secs::from_secs(1))).await;
    owner.close().await;
    (exit, swept, used)
}

/// Reads until something is there that `wanted` accepts.
pub async fn read_until(output: &mut Output, wanted: impl Fn(&str) -> bool) -> String {
    let mut text = Vec::new();
    let read = async {
        loop {
            let shown = String::from_utf8_lossy(&text).into_owned();
            if wanted(&shown) {
                return shown;
            }
            let mut chunk = [0_u8; 4096];
            let count = output.read(&mut chunk).await.unwrap();
            assert!(count > 0, "the output ended: {shown}");
            text.extend_from_slice(&chunk[..count]);
        }
    };
    tokio::time::timeout(LIMIT, read).await.expect("the output comes in time")
}
