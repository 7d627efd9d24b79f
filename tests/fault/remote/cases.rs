//! Single cases, each in every kind of sink that can have it: CASES 35, 36, 38, 40.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ci_ledger::core::marker::Marker;
use ci_ledger::core::outcome::Outcome;
use ci_ledger::core::row::FileRow;
use ci_ledger::sink::{self, Batch, Narrow, open_source};
use serde_json::{Value, json};

use super::collector::{Kept, TOKEN};
use super::fake_github::FakeGithub;
use super::front::{Front, Wrong};
use super::lost::{Kind, Running, Sinks, commit, end_by_force, program, remove_ledger, said, said_in, suite, wall_now};
use super::objects::{self, BUCKET};
use super::{batch, context, marker};

/// CASE 35. Names of two and three bytes a character, far more than fits, into a sink's own limit: what comes back is whole JSON, inside the
/// limit, with the newest kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_over_the_limit_keeps_the_newest_in_every_sink() {
    let Some(sinks) = Sinks::start().await else { return };
    let made = context(&sinks.variables());
    let mut whole = marker(&made, 3, false);
    for index in 1..=400 {
        let mut file = FileRow::not_run(index, 1, format!("test/{}-{index}.ts", "é漢".repeat(30)), None);
        file.outcome = Some(Outcome::Pass);
        whole.row.files.push(file);
    }
    for kind in Kind::ALL {
        let mut backend = sink::open(&sinks.url(kind), &made).unwrap();
        backend.position().await.unwrap();
        let budget = backend.capabilities().marker_bytes;
        let events = if kind.keeps_events() { batch(&made, 1..=3).events } else { Vec::new() };
        backend.send(&Batch { events, marker: whole.render(budget) }).await.unwrap();
        let source = open_source(&sinks.url(kind), &made.variables).unwrap();
        let narrow = Narrow { variables: made.variables.clone(), ..Narrow::default() };
        let found = source.legs(&narrow, wall_now()).await.unwrap().remove(0);
        let bytes = found.marker.unwrap().bytes;
        let read: Marker = serde_json::from_slice(&bytes).unwrap();
        assert!(bytes.len() <= budget && bytes.len() > budget / 3, "{kind:?}: {} of {budget} bytes", bytes.len());
        assert_eq!(read.row.current_file, whole.row.current_file, "{kind:?}");
        assert_eq!(read.row.files.last(), whole.row.files.last(), "{kind:?}: the newest is kept");
        assert_eq!(usize::try_from(read.files_omitted).unwrap() + read.row.files.len(), 400, "{kind:?}");
    }
}

/// ledger with a front before one of its services.
fn start(folder: &Path, kind: Kind, address: &str, file: &str) -> Running {
    let mut command = Command::new(program());
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).envs(objects::KEYS);
    command.envs(FakeGithub::IDENTITY).env("LEDGER_HTTPS_TOKEN", TOKEN);
    command.env("GITHUB_API_URL", address).env("AWS_ENDPOINT_URL", address).env("GITHUB_SHA", commit(36));
    let url = match kind {
        Kind::Store => format!("s3://{BUCKET}/lost"),
        Kind::Https => format!("{address}/base"),
        _ => "github:".to_owned(),
    };
    command.args(["run", "--platform", "p", "--target", "t", "--run-id", "36", "--sink", &url, "--sink", file]);
    command.args(["*.sh", "--", "sh"]);
    said_in(folder, command)
}

/// CASE 36. The very moment between the finish of one file and the first sign of the next: the write that names the next one is done, its
/// answer is on its way, and ledger dies. The next file has not begun, and every sink names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_two_files_every_sink_already_names_the_next() {
    let Some(sinks) = Sinks::start().await else { return };
    for kind in [Kind::Store, Kind::Https, Kind::Github] {
        let behind = match kind {
            Kind::Store => sinks.store_url(),
            Kind::Https => sinks.collector.server.url.clone(),
            _ => sinks.github.url().to_owned(),
        };
        let front = Front::of(&behind).await;
        front.goes_wrong(|seen| (seen.writes() && seen.names_as_current("05.sh")).then_some(Wrong::DoneAndSilent));
        tokio::task::block_in_place(|| {
            let (folder, place) = (suite(), tempfile::tempdir().unwrap());
            let file = url::Url::from_directory_path(place.path()).unwrap().to_string();
            let ledger = start(folder.path(), kind, &front.server.url, &file);
            let named = |text: &str| text.contains("\"current_file\":\"05.sh\"");
            let in_the_folder = || {
                let found = Command::new("find").arg(place.path()).args(["-name", "marker.json"]).output().unwrap();
                let path = String::from_utf8(found.stdout).unwrap();
                named(&std::fs::read_to_string(path.trim()).unwrap_or_default())
            };
            let begun = Instant::now();
            while front.watched.lock().unwrap().held == 0 || !in_the_folder() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{kind:?}: the fifth file is named");
                std::thread::sleep(Duration::from_millis(1));
            }
            end_by_force(ledger);
            remove_ledger(folder.path());
            // The second that the loop waits was not over, or the test proves nothing.
            let said = said(folder.path());
            assert!(said.ends_with("end 04.sh\n"), "{kind:?}: {said}");
            let later = ["--now", "4102444800"];
            for lost in [sinks.report(36, kind, &later), sinks.report_of(&file, 36, &later)] {
                let told = (&lost["terminal"], &lost["last_file"], &lost["current_file"], &lost["files_reported"]);
                assert_eq!(told, (&"runner-lost".into(), &"04.sh".into(), &"05.sh".into(), &4.into()), "{kind:?}: {lost:#}");
            }
        });
    }
}

/// CASE 38. After two weeks the service itself closes an open check run as stale. A reader that comes then says what it was, and the payload
/// stays as it is through any number of closings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_run_that_went_stale_is_closed_with_its_payload_as_it_was() {
    let fake = FakeGithub::start().await;
    let made = context(&fake.variables());
    let mut backend = sink::open("github:?state=in-progress", &made).unwrap();
    backend.position().await.unwrap();
    backend.send(&batch(&made, 3..=3)).await.unwrap();
    let before = {
        let mut held = fake.held.lock().unwrap();
        let check = &mut held.checks[0];
        (check["status"], check["conclusion"], check["completed_at"]) =
            (json!("completed"), json!("stale"), json!("2026-01-15T00:00:00Z"));
        check["output"]["text"].clone()
    };
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let mut command = Command::new(program());
        command.current_dir(folder.path()).env_clear().envs(FakeGithub::IDENTITY).env("GITHUB_API_URL", fake.url());
        command.args(["report", "github:", "--finalize", "--json", "--now", "4102444800"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["legs"][0]["terminal"], "runner-lost", "{round}: {summary:#}");
        let held = fake.held.lock().unwrap();
        assert_eq!(held.checks.len(), 1);
        let check = &held.checks[0];
        assert_eq!(check["output"]["text"], before, "round {round}: byte for byte");
        assert!(check["output"]["title"].as_str().unwrap().contains("lost"), "round {round}: {check:#}");
        assert_eq!(check["status"], "completed");
    }
}

/// What somebody else may have put beside our legs.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(10_000), close.repeat(10_000)).into_bytes();
    vec![
        ("cut-short", br#"{"v":1,"if_silent":"runner-lo"#.to_vec()),
        ("proto", br#"{"__proto__":{"v":1},"constructor":1,"v":1,"v":2,"run_id":"constructor"}"#.to_vec()),
        ("deep-arrays", deep("[", "]")),
        ("deep-objects", deep("{\"a\":", "}")),
        ("long", [b"{\"v\":\"".to_vec(), vec![b'x'; 2 << 20], b"\"}".to_vec()].concat()),
        ("longest", [b"{\"v\":\"".to_vec(), vec![b'x'; 40 << 20], b"\"}".to_vec()].concat()),
        ("binary", vec![0xff, 0x00, 0xfe, b'\n', b'{']),
    ]
}

/// CASE 40. Each costs itself, with a warning, and the good leg beside them is told as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_neighbours_cost_themselves_in_every_sink() {
    let Some(sinks) = Sinks::start().await else { return };
    let folder = suite();
    let ran = tokio::task::block_in_place(|| sinks.start_run(folder.path(), 40, &Kind::ALL, &[]).wait().unwrap());
    assert!(ran.success());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for (name, bytes) in hostile() {
        let place = format!("{name}/1/p,t/e");
        let path = sinks.folder().join(&place);
        std::fs::create_dir_all(&path).unwrap();
        for file in ["marker.json", "plan.json", "000000000001.ndjson"] {
            std::fs::write(path.join(file), &bytes).unwrap();
            // Once is enough for the longest.
            if name == "longest" {
                continue;
            }
            let to = format!("{}/{BUCKET}/lost/{}/{file}", sinks.store_url(), place.replace(',', "%2C"));
            assert!(client.put(to).body(bytes.clone()).send().await.unwrap().status().is_success(), "{name}");
        }
        if name == "longest" {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut held = sinks.github.held.lock().unwrap();
        let mut check = held.checks[0].clone();
        check["id"] = json!(9_000 + held.checks.len());
        check["external_id"] = json!(format!("40/1/p/{name}"));
        check["output"]["text"] = json!(text);
        held.checks.push(check);
        drop(held);
        // A collector answers with JSON of its own, so only what is JSON can be a marker there; its events can be anything.
        let mut held = sinks.collector.held.lock().unwrap();
        let pairs = [("run_id", name), ("attempt", "1"), ("platform", "p"), ("target", "t"), ("epoch", "e")];
        let key = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let marker = serde_json::from_str::<Value>(&text).is_ok().then(|| (text.clone(), wall_now()));
        held.epochs.insert(key, Kept { lines: [(1, text.lines().next().unwrap_or_default().to_owned())].into(), marker });
    }
    tokio::task::block_in_place(|| {
        for kind in Kind::ALL {
            let mut command = sinks.ledger(folder.path());
            let begun = Instant::now();
            command.env("GITHUB_SHA", commit(40)).args(["report", &sinks.url(kind), "--json"]);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{kind:?}: {said}");
            let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
            let legs = summary["legs"].as_array().unwrap();
            let good: Vec<&Value> = legs.iter().filter(|leg| leg["terminal"] == "complete").collect();
            assert!(good.len() == 1 && good[0]["files_reported"] == 12, "{kind:?}: {summary:#}");
            let warnings = summary["warnings"].as_array().map_or(0, Vec::len).max(said.matches("warning").count());
            assert!(warnings >= 3, "{kind:?}: {said}");
            assert!(said.len() < 20_000, "{kind:?}: a warning holds no 40 MB: {}", said.len());
            assert!(begun.elapsed() < Duration::from_secs(60), "{kind:?}: {:?}", begun.elapsed());
        }
    });
}
