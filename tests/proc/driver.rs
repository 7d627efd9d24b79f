//! Runs one program under a real owner and collects what it reports.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use ci_ledger::core::ids::Token;
use ci_ledger::core::moment::Secs;
use ci_ledger::core::process::{Exit, ProcessId, Swept, TreeUse};
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::{Output, Owner, OwnerSettings, Report, SpawnSpec};
use ci_ledger::host::table::SharedTable;
use tokio::io::AsyncReadExt as _;

/// Nothing here takes longer unless it is broken.
pub const LIMIT: Duration = Duration::from_secs(30);

/// One table for all, as in ledger: a cold one reads about every process of the host.
static TABLE: LazyLock<SharedTable> = LazyLock::new(SharedTable::default);

/// Held by a test that makes a process whose environment nobody may read, and by one that proves an end by the token alone: beside the
/// first the second's answer is rightly "unknown".
pub static ENVIRONMENTS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub fn settings() -> OwnerSettings {
    // As in ledger, never the same twice: a sweep ends whoever carries its token, and tests run side by side.
    let token = uuid::Uuid::new_v4().simple().to_string();
    let program = Some(PathBuf::from(env!("CARGO_BIN_EXE_ledger")));
    OwnerSettings { program, table: TABLE.clone(), ..OwnerSettings::new(Token(token)) }
}

#[cfg(unix)]
pub fn sh(script: &str) -> SpawnSpec {
    SpawnSpec { program: "sh".into(), args: vec!["-c".into(), script.into()], cwd: None, env: Vec::new() }
}

/// A misbehaving program of `tests/children`.
#[cfg(unix)]
pub fn child(name: &str, args: &[&str]) -> SpawnSpec {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/children").join(name);
    let program = if name.ends_with(".py") { "python3" } else { "sh" };
    let args = std::iter::once(path.into()).chain(args.iter().map(|&arg| arg.into())).collect();
    SpawnSpec { program: program.into(), args, cwd: None, env: Vec::new() }
}

/// The identity of a process that was just named by its number.
pub fn identify(pid: i32) -> ProcessId {
    ci_ledger::host::process::stat(pid).expect("the process is there").id
}

/// Waits until exactly this process has ended.
pub async fn gone(id: ProcessId, limit: Duration) -> bool {
    let waiting = async {
        while ci_ledger::host::identity::is_alive(id) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}

/// Waits until it is so.
#[cfg(target_os = "linux")]
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"));
}

/// The first number on the output.
pub async fn read_pid(output: &mut Output) -> i32 {
    let text = read_until(output, |text| text.ends_with('\n')).await;
    text.lines().next().and_then(|line| line.trim().parse().ok()).expect("a number")
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
