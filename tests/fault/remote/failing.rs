//! Whatever a sink does, the run is the same run: its exit status, its local ledger, and an end that is not held up.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use axum::http::Method;
use serde_json::Value;

use super::fake_github::{FakeGithub, Fault};
use super::objects;

pub fn ledger(folder: &std::path::Path) -> Command {
    let mut command = Command::new(super::lost::program());
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("GITHUB_REPOSITORY", "owner/repo").env("GITHUB_SHA", "abc").env("GITHUB_TOKEN", "ghs_0123456789abcdef");
    command
}

fn suite() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("1.sh", "echo one"), ("2.sh", "exit 3"), ("3.sh", "echo three")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn run(folder: &std::path::Path, api: &str, sink: Option<&str>) -> (Output, Duration) {
    let mut command = ledger(folder);
    command.env("GITHUB_API_URL", api).env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_REGION", "x");
    command.env("AWS_ENDPOINT_URL", api).args(["run", "--run-id", "77", "--platform", "p", "--target", "t"]);
    command.args(sink.iter().flat_map(|url| ["--sink", url])).args(["*.sh", "--", "sh"]);
    let begun = Instant::now();
    let output = command.output().unwrap();
    (output, begun.elapsed())
}

fn outcomes(folder: &std::path::Path) -> Vec<Value> {
    let output = ledger(folder).args(["report", "--json"]).output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = summary["legs"][0]["files"].as_array().unwrap();
    files.iter().map(|file| serde_json::json!([file["file"], file["outcome"], file["exit_code"]])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_fails_in_any_way_changes_nothing_of_the_run() {
    let bare = suite();
    let (plain, without) = run(bare.path(), "http://127.0.0.1:9", None);
    assert_eq!(plain.status.code(), Some(1));
    let expected = outcomes(bare.path());
    let fake = FakeGithub::start().await;
    let answer = |status: u16, header: Option<(&'static str, &'static str)>, message: &'static str| {
        let headers: Vec<_> = header.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        Some(Fault::Answer(status, headers, message))
    };
    type Way = Box<dyn Fn(usize, &Method) -> Option<Fault> + Send>;
    let ways: Vec<(&str, &str, Way)> = vec![
        ("a token that is refused", "github:", Box::new(move |_, _| answer(401, None, "Bad credentials"))),
        (
            "a fork's token",
            "github:",
            Box::new(move |_, method| {
                (method != Method::GET).then(|| answer(403, None, "Resource not accessible by integration")).flatten()
            }),
        ),
        ("a limit with a time", "github:", Box::new(move |_, _| answer(403, Some(("retry-after", "600")), "secondary rate limit"))),
        ("a limit without one", "github:", Box::new(move |_, _| answer(429, None, "slow down"))),
        (
            "a text too long",
            "github:",
            Box::new(move |_, method| {
                (method != Method::GET).then(|| answer(422, None, "Only 65535 characters are allowed")).flatten()
            }),
        ),
        ("a broken service", "github:", Box::new(move |_, _| answer(502, None, "bad gateway"))),
        ("a slow service", "github:", Box::new(|_, _| Some(Fault::Slow(Duration::from_secs(30))))),
        ("half an answer", "github:", Box::new(|_, _| Some(Fault::HalfAnswer))),
        ("a store that is none", "s3://evidence/x", Box::new(|_, _| None)),
        ("a service that flaps", "github:", Box::new(move |n, _| (n % 2 == 0).then(|| answer(500, None, "oops")).flatten())),
    ];
    for (what, url, way) in ways {
        fake.goes_wrong(way);
        let folder = suite();
        let (output, took) = run(folder.path(), fake.url(), Some(url));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        assert_eq!(outcomes(folder.path()), expected, "{what}");
        assert!(!said.contains("ghs_"), "{what}: {said}");
        assert_eq!(output.stdout, plain.stdout, "{what}");
        // One second until it counts as down, one at the end, and room for a machine that is busy with other tests.
        assert!(took < without + Duration::from_secs(6), "{what}: {took:?} against {without:?}");
        let warnings = said.lines().filter(|line| line.contains("warning") && line.contains("sink")).count();
        assert!(warnings <= 2, "{what}: one warning is enough: {said}");
    }
    // Refused, at once.
    let folder = suite();
    let (output, _) = run(folder.path(), "http://127.0.0.1:9", Some("github:"));
    assert_eq!((output.status.code(), outcomes(folder.path())), (Some(1), expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_required_sink_that_cannot_be_written_is_an_error_before_anything_runs() {
    let fake = FakeGithub::start().await;
    fake.goes_wrong(|_, method| {
        (method != Method::GET).then(|| Fault::Answer(403, vec![], "Resource not accessible by integration"))
    });
    let folder = suite();
    let begun = Instant::now();
    let output = ledger(folder.path())
        .env("GITHUB_API_URL", fake.url())
        .args(["run", "--require-sink", "--sink", "github:", "*.sh", "--", "sh"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    // A no is an answer: what would be waited for, 15 s of it, has been said.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(said.contains("checks: write") && output.stdout.is_empty(), "{said}");
    let checked = ledger(folder.path()).env("GITHUB_API_URL", fake.url()).args(["sink", "check", "github:"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("checks: write"), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leg_comes_home_out_of_a_store() {
    let Some(server) = objects::moto() else { return };
    objects::make_bucket(&server.url).await;
    let folder = suite();
    let url = format!("s3://{}/home", objects::BUCKET);
    let (output, _) = run(folder.path(), &server.url, Some(&url));
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = outcomes(folder.path());
    std::fs::remove_dir_all(folder.path().join(".ledger")).unwrap();
    let store = |args: &[&str]| {
        let mut command = ledger(folder.path());
        command.env("AWS_ENDPOINT_URL", &server.url).env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
        command.env("AWS_REGION", "x").env_remove("GITHUB_TOKEN").args(args).output().unwrap()
    };
    assert_eq!(store(&["verify", &url]).status.code(), Some(0));
    let pulled = store(&["sink", "pull", &url]);
    assert_eq!(pulled.status.code(), Some(0), "{}", String::from_utf8_lossy(&pulled.stderr));
    assert_eq!(outcomes(folder.path()), expected);
    assert_eq!(store(&["verify"]).status.code(), Some(0));
    assert_eq!(store(&["sink", "check", &url]).status.code(), Some(0));
    let watched = store(&["watch", &url, "--json"]);
    let line: Value = serde_json::from_slice(&watched.stdout).unwrap();
    assert_eq!((&line["terminal"], &line["files_reported"]), (&"complete".into(), &3.into()));
}
