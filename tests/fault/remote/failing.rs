//! Whatever a sink does, the run is the same run: its exit status, its output, its local ledger, and an end that is not held up. CASE 34,
//! each fault for each kind of sink that can have it.
//!
//! What it costs is measured on a quiet machine with `LEDGER_TEST_QUIET=1`: then the runs go one after the other, and the bound is the
//! contract's (a second until a sink is known to be down, one at the end).

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::full_disk::SmallDisk;
use super::collector::{Collector, TOKEN};
use super::fake_github::FakeGithub;
use super::front::{Front, Seen, Wrong};
use super::lost::{Kind, count, program};
use super::objects::{self, BUCKET};

const SAID: [&str; 3] = ["one", "two", "three"];

fn suite() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (at, text) in SAID.iter().enumerate() {
        let text = format!("echo {text}\n{}", if at == 1 { "exit 3" } else { "" });
        std::fs::write(folder.path().join(format!("{}.sh", at + 1)), text).unwrap();
    }
    folder
}

/// One sink with something in front of it, or none.
struct Sink {
    kind: Kind,
    url: String,
    address: String,
}

fn ledger(folder: &Path, address: &str) -> Command {
    let mut command = Command::new(program());
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).envs(objects::KEYS);
    command.envs(FakeGithub::IDENTITY).env("LEDGER_HTTPS_TOKEN", TOKEN);
    command.env("GITHUB_API_URL", address).env("AWS_ENDPOINT_URL", address);
    command
}

fn run(folder: &Path, sink: Option<&Sink>) -> (Output, Duration) {
    let mut command = ledger(folder, sink.map_or("http://127.0.0.1:9", |sink| &sink.address));
    command.args(["run", "--run-id", "77", "--platform", "p", "--target", "t"]);
    command.args(sink.iter().flat_map(|sink| ["--sink", &sink.url])).args(["*.sh", "--", "sh"]);
    let begun = Instant::now();
    let output = command.output().unwrap();
    (output, begun.elapsed())
}

fn leg(folder: &Path) -> Value {
    let output = ledger(folder, "http://127.0.0.1:9").args(["report", "--json"]).output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    summary["legs"][0].clone()
}

/// What a ledger says apart from times, samples, and what it says of its sinks.
fn told(folder: &Path) -> Vec<Value> {
    let leg = leg(folder);
    let files = leg["files"].as_array().unwrap().iter();
    let rows = files.map(|file| serde_json::json!([file["file"], file["outcome"], file["exit_code"], file["last_output"]]));
    let whole = ["terminal", "conclusion", "loop_finished", "files_planned", "files_reported", "files_failed"];
    let kinds = super::lost::local_lines(folder).into_iter().filter_map(|line| {
        let kind = serde_json::from_str::<Value>(&line).unwrap()["kind"].clone();
        (!["sink-degraded", "sink-recovered", "heartbeat"].contains(&kind.as_str().unwrap())).then_some(kind)
    });
    rows.chain(whole.map(|name| leg[name].clone())).chain(kinds).collect()
}

type Plan = fn(&Seen<'_>) -> Option<Wrong>;

/// Every way in which a service across a network goes wrong, and whether the sink is behind in the end.
const WAYS: [(&str, Plan); 17] = [
    ("a token that is refused", |_| Some(Wrong::Says(401, &[], "Bad credentials"))),
    ("no permission", |_| Some(Wrong::Says(403, &[], "Resource not accessible by integration"))),
    ("a fork's token, which may read", |seen| {
        seen.writes().then_some(Wrong::Says(403, &[], "Resource not accessible by integration"))
    }),
    ("nothing there", |_| Some(Wrong::Says(404, &[], "Not Found"))),
    ("a conflict", |_| Some(Wrong::Says(409, &[], "Conflict"))),
    ("a text that is too long", |seen| seen.writes().then_some(Wrong::Says(422, &[], "Only 65535 characters are allowed"))),
    ("a limit without a time", |_| Some(Wrong::Says(429, &[], "slow down"))),
    ("a limit with a time", |_| Some(Wrong::Says(429, &[("retry-after", "600")], "slow down"))),
    ("a limit with a short time, again and again", |_| Some(Wrong::Says(429, &[("retry-after", "1")], "slow down"))),
    ("a secondary limit", |_| Some(Wrong::Says(403, &[("retry-after", "60")], "You have exceeded a secondary rate limit"))),
    ("a broken service", |_| Some(Wrong::Says(500, &[], "oops"))),
    ("a broken gateway", |_| Some(Wrong::Says(502, &[], "bad gateway"))),
    ("silence", |_| Some(Wrong::Silent)),
    ("writes that are done and never answered", |seen| seen.writes().then_some(Wrong::DoneAndSilent)),
    ("answers after two seconds", |_| Some(Wrong::After(Duration::from_secs(2)))),
    ("half an answer", |_| Some(Wrong::HalfAnswer)),
    ("every second request fails", |seen| (seen.number % 2 == 0).then_some(Wrong::Says(500, &[], "oops"))),
];

struct Expected {
    told: Vec<Value>,
    stdout: Vec<u8>,
    without: Duration,
}

/// A second until it counts as down, one at the end; and room for a machine that is busy with other tests, unless it is quiet.
fn allowed() -> Duration {
    Duration::from_millis(if is_quiet() { 2150 } else { 8000 })
}

fn is_quiet() -> bool {
    count("LEDGER_TEST_QUIET", 0) > 0
}

fn is_the_same_run(what: &str, sink: &Sink, expected: &Expected) -> Value {
    let folder = suite();
    let (output, took) = run(folder.path(), Some(sink));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{what}: {said}");
    assert_eq!(output.stdout, expected.stdout, "{what}");
    assert_eq!(told(folder.path()), expected.told, "{what}");
    assert!(!said.contains("ghs_") && !said.contains(TOKEN), "{what}: {said}");
    let more = took.saturating_sub(expected.without);
    if is_quiet() {
        eprintln!("{:>6} ms more: {what}", more.as_millis());
    }
    assert!(more < allowed(), "{what}: {more:?} more than {:?}", expected.without);
    let warnings = said.lines().filter(|line| line.contains("warning") && line.contains("sink")).count();
    assert!(warnings <= 2, "{what}: one warning is enough: {said}");
    leg(folder.path())["sinks"][0].clone()
}

fn expected() -> Expected {
    let bare = suite();
    let (plain, mut without) = run(bare.path(), None);
    assert_eq!(plain.status.code(), Some(1), "{}", String::from_utf8_lossy(&plain.stderr));
    assert_eq!(String::from_utf8_lossy(&plain.stdout).lines().collect::<Vec<_>>(), SAID);
    for _ in 0..3 {
        without = without.min(run(suite().path(), None).1);
    }
    Expected { told: told(bare.path()), stdout: plain.stdout, without }
}

/// Each with a front of its own, some at once.
async fn in_every_way(kind: Kind, behind: &str, url: impl Fn(&str) -> String + Sync) {
    let expected = tokio::task::block_in_place(expected);
    let lanes = if is_quiet() { 1 } else { 6 };
    let mut fronts = Vec::new();
    for _ in 0..lanes {
        fronts.push(Front::of(behind).await);
    }
    let ways = Mutex::new(WAYS.iter());
    let lane = |front: &Front| {
        loop {
            let Some((what, way)) = ways.lock().unwrap().next() else { return };
            front.goes_wrong(*way);
            let address = front.server.url.clone();
            let sink = Sink { kind, url: url(&address), address };
            let what = format!("{:?}, {what}", sink.kind);
            let state = is_the_same_run(&what, &sink, &expected);
            assert!(front.watched.lock().unwrap().requests > 0, "{what}: it was asked");
            // What is behind is counted, and says why.
            if state["unsent"] != 0 {
                assert!(state["degraded"] == true && state["error"].is_string(), "{what}: {state}");
            }
        }
    };
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let lane = &lane;
            let running: Vec<_> = fronts.iter().map(|front| scope.spawn(move || lane(front))).collect();
            running.into_iter().for_each(|lane| lane.join().unwrap());
        });
        // Nobody listens.
        let sink = Sink { kind, url: url("http://127.0.0.1:9"), address: "http://127.0.0.1:9".to_owned() };
        let state = is_the_same_run(&format!("{kind:?}, refused connections"), &sink, &expected);
        assert!(state["degraded"] == true && state["unsent"].as_u64().unwrap() > 0, "{kind:?}: {state}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_run_that_fails_in_any_way_changes_nothing_of_the_run() {
    let fake = FakeGithub::start().await;
    in_every_way(Kind::Github, fake.url(), |_| "github:".to_owned()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_fails_in_any_way_changes_nothing_of_the_run() {
    let collector = Collector::start().await;
    in_every_way(Kind::Https, &collector.server.url, |address| format!("{address}/base")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_in_any_way_changes_nothing_of_the_run() {
    let Some(server) = objects::moto() else { return };
    objects::make_bucket(&server.url).await;
    in_every_way(Kind::Store, &server.url, |_| format!("s3://{BUCKET}/failing")).await;
}

#[test]
fn a_folder_that_fails_in_any_way_changes_nothing_of_the_run() {
    let expected = expected();
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "").unwrap();
    let full = SmallDisk::mount("64k");
    let mut places = vec![("a file", place.path().join("file/sink")), ("a system's own", "/proc/ledger-sink".into())];
    if let Some(disk) = &full {
        disk.fill();
        places.push(("a full disk", disk.path().join("sink")));
    }
    for (what, path) in places {
        let url = url::Url::from_directory_path(path).unwrap().to_string();
        let state = is_the_same_run(&format!("File, {what}"), &Sink { kind: Kind::File, url, address: String::new() }, &expected);
        assert!(state["degraded"] == true && state["unsent"].as_u64().unwrap() > 0, "{what}: {state}");
    }
}

/// A sink that was away for some files: what happened meanwhile is sent when it is back, and the record says that it was away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sink_missed_is_sent_when_it_is_back() {
    let Some(server) = objects::moto() else { return };
    objects::make_bucket(&server.url).await;
    let (fake, collector) = (FakeGithub::start().await, Collector::start().await);
    let ways: [(&str, Plan); 3] = [
        ("broken", |seen| (seen.number < 4).then_some(Wrong::Says(503, &[], "oops"))),
        ("limited", |seen| (seen.number < 4).then_some(Wrong::Says(429, &[("retry-after", "1")], "slow down"))),
        ("cut off", |seen| (seen.number < 4).then_some(Wrong::HalfAnswer)),
    ];
    for (kind, behind) in [(Kind::Store, server.url.as_str()), (Kind::Https, &collector.server.url), (Kind::Github, fake.url())] {
        let front = Front::of(behind).await;
        for (what, way) in ways {
            front.goes_wrong(way);
            let url = match kind {
                Kind::Store => format!("s3://{BUCKET}/back-{}", what.replace(' ', "-")),
                Kind::Https => format!("{}/base", front.server.url),
                _ => "github:".to_owned(),
            };
            let folder = suite();
            std::fs::write(folder.path().join("4.sh"), "while [ ! -e go ]; do sleep 0.02; done").unwrap();
            let address = front.server.url.clone();
            let sink = Sink { kind, url, address };
            tokio::task::block_in_place(|| {
                std::thread::scope(|scope| {
                    let running = scope.spawn(|| run(folder.path(), Some(&sink)));
                    let begun = Instant::now();
                    while !super::lost::all_local_text(folder.path()).contains("sink-recovered") && !running.is_finished() {
                        assert!(begun.elapsed() < Duration::from_secs(60), "{kind:?}, {what}: it comes back");
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    std::fs::write(folder.path().join("go"), "").unwrap();
                    assert_eq!(running.join().unwrap().0.status.code(), Some(1), "{kind:?}, {what}");
                });
            });
            let state = leg(folder.path())["sinks"][0].clone();
            assert_eq!((&state["unsent"], &state["degraded"]), (&0.into(), &false.into()), "{kind:?}, {what}: {state}");
            let lines = super::lost::all_local_text(folder.path());
            assert!(lines.contains("sink-degraded"), "{kind:?}, {what}: it was away, and that is on record");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_required_sink_that_cannot_be_written_is_an_error_before_anything_runs() {
    let Some(server) = objects::moto() else { return };
    objects::make_bucket(&server.url).await;
    let (fake, collector) = (FakeGithub::start().await, Collector::start().await);
    for (kind, behind, word) in [
        (Kind::Github, fake.url(), "checks: write"),
        (Kind::Https, collector.server.url.as_str(), "may not do this"),
        (Kind::Store, &server.url, "s3:PutObject"),
    ] {
        let front = Front::of(behind).await;
        front.goes_wrong(|seen| seen.writes().then_some(Wrong::Says(403, &[], "Resource not accessible by integration")));
        let address = front.server.url.clone();
        let url = match kind {
            Kind::Store => format!("s3://{BUCKET}/required"),
            Kind::Https => format!("{address}/base"),
            _ => "github:".to_owned(),
        };
        let folder = suite();
        let mut command = ledger(folder.path(), &address);
        let output = command.args(["run", "--require-sink", "--sink", &url, "*.sh", "--", "sh"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{kind:?}: {said}");
        // That a no is not waited for is held by fault::sinks, where what is granted is an hour.
        assert!(said.contains(word) && output.stdout.is_empty(), "{kind:?}: {said}");
        let checked = ledger(folder.path(), &address).args(["sink", "check", &url]).output().unwrap();
        assert_eq!(checked.status.code(), Some(1), "{kind:?}");
        assert!(String::from_utf8_lossy(&checked.stdout).contains(word), "{kind:?}: {checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leg_comes_home_out_of_a_store() {
    let Some(server) = objects::moto() else { return };
    objects::make_bucket(&server.url).await;
    let folder = suite();
    let url = format!("s3://{BUCKET}/home");
    let sink = Sink { kind: Kind::Store, url: url.clone(), address: server.url.clone() };
    let (output, _) = run(folder.path(), Some(&sink));
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = told(folder.path());
    std::fs::remove_dir_all(folder.path().join(".ledger")).unwrap();
    let store = |args: &[&str]| ledger(folder.path(), &server.url).args(args).output().unwrap();
    assert_eq!(store(&["verify", &url]).status.code(), Some(0));
    let pulled = store(&["sink", "pull", &url]);
    assert_eq!(pulled.status.code(), Some(0), "{}", String::from_utf8_lossy(&pulled.stderr));
    assert_eq!(told(folder.path()), expected);
    assert_eq!(store(&["verify"]).status.code(), Some(0));
    assert_eq!(store(&["sink", "check", &url]).status.code(), Some(0));
    let watched = store(&["watch", &url, "--json"]);
    let line: Value = serde_json::from_slice(&watched.stdout).unwrap();
    assert_eq!((&line["terminal"], &line["files_reported"]), (&"complete".into(), &3.into()));
}
