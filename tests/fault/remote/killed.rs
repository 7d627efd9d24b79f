//! Ledger dies at any moment, the local ledger is gone, and the sinks alone say what it was doing.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::failing::ledger;
use super::fake_github::FakeGithub;
use super::objects::{self, BUCKET};

/// `LEDGER_TEST_KILLS=1000` is what a release is measured with.
fn kills() -> u64 {
    std::env::var("LEDGER_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

const FILES: usize = 12;

fn suite() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for index in 1..=FILES {
        let name = format!("{index:02}.sh");
        let text = format!("echo \"begin {name}\" >> said.log\nsleep 0.05\necho \"end {name}\" >> said.log\n");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn start(folder: &Path, run: u64, store: &str, api: &str, sinks: &[&str]) -> Child {
    let mut command = ledger(folder);
    command.env("AWS_ENDPOINT_URL", store).env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_REGION", "x");
    command.env("GITHUB_API_URL", api).args(["run", "--platform", "p", "--target", "t", "--run-id", &run.to_string()]);
    for sink in sinks {
        command.args(["--sink", sink]);
    }
    command.args(["*.sh", "--", "sh"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn report(folder: &Path, run: u64, store: &str, api: &str, sink: &str, more: &[&str]) -> Value {
    let mut command = ledger(folder);
    command.env("AWS_ENDPOINT_URL", store).env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_REGION", "x");
    command.env("GITHUB_API_URL", api).args(["report", sink, "--json", "--run-id", &run.to_string()]).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    summary["legs"].get(0).cloned().unwrap_or_default()
}

/// The files that may be the current one, by what the files themselves have said.
fn may_be_current(folder: &Path) -> Vec<Option<String>> {
    let said = std::fs::read_to_string(folder.join("said.log")).unwrap_or_default();
    let next = |name: &str| {
        let index: usize = name.trim_end_matches(".sh").parse().unwrap();
        (index < FILES).then(|| format!("{:02}.sh", index + 1))
    };
    match said.lines().last().and_then(|line| line.split_once(' ')) {
        None => vec![None, Some("01.sh".to_owned())],
        Some(("begin", name)) => vec![Some(name.to_owned())],
        Some((_, name)) => vec![Some(name.to_owned()), next(name), None]
            .into_iter()
            .filter(|file| file.is_some() || next(name).is_none())
            .collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_current_file_is_right_after_any_kill() {
    let Some(server) = objects::moto() else { return };
    objects::make_bucket(&server.url).await;
    let fake = FakeGithub::start().await;
    let store = format!("s3://{BUCKET}/kills");
    let mut random = 88_172_645_463_325_252_u64 ^ u64::from(std::process::id());
    eprintln!("seed {random}");
    for run in 1..=kills() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let folder = suite();
        let sinks: &[&str] = if run % 2 == 0 { &[&store] } else { &["github:", &store] };
        let mut child = start(folder.path(), run, &server.url, fake.url(), sinks);
        // From the first marker on, so that there is something to be right about.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !folder.path().join("said.log").exists() {
            assert!(Instant::now() < deadline, "run {run} begins");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(random % 1200));
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(folder.path().join(".ledger")).unwrap();
        let expected = may_be_current(folder.path());
        for sink in sinks {
            let now = report(folder.path(), run, &server.url, fake.url(), sink, &[]);
            if now["terminal"] == "complete" {
                continue;
            }
            assert_eq!(now["terminal"], "running", "never before the lease: run {run}, {sink}: {now}");
            let later = report(folder.path(), run, &server.url, fake.url(), sink, &["--now", "4102444800"]);
            assert_eq!(later["terminal"], "runner-lost", "run {run}, {sink}");
            let current = later["current_file"].as_str().map(str::to_owned);
            assert!(
                later["loop_finished"] == true || expected.contains(&current),
                "run {run}, {sink}: {current:?} of {expected:?}"
            );
        }
        let verified = ledger(folder.path())
            .env("AWS_ENDPOINT_URL", &server.url)
            .envs([("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "x")])
            .args(["verify", &store])
            .output()
            .unwrap();
        assert_eq!(verified.status.code(), Some(0), "run {run}: {}", String::from_utf8_lossy(&verified.stdout));
    }
}
