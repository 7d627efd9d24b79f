//! caps, import, the shared files and the gate, as scripts call them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::World;

fn ledger(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {} {}", stdout(output), stderr(output)))
}

/// One leg's ci-data: files with durations, then the suite.
fn ci_data(folder: &Path, run: u32, day: u32, files: &[(&str, u32, &str)], conclusion: &str) {
    let ts = format!("2026-07-{day:02}T12:00:00.000Z");
    let origin = |kind: &str| json!({"kind": kind, "ts": ts, "run_id": run.to_string(), "sha": "abc", "platform": "linux-x86", "host": "linux"});
    let mut text = String::new();
    for (file, seconds, status) in files {
        let mut line = origin("test-file");
        (line["file"], line["duration_s"], line["status"]) = (json!(file), json!(seconds), json!(status));
        text.push_str(&format!("{line}\n"));
    }
    let mut line = origin("suite");
    let failed = files.iter().filter(|(.., status)| *status != "pass").count();
    (line["scope"], line["conclusion"], line["target"]) = (json!("full"), json!(conclusion), json!("7.20.8"));
    (line["files"], line["failed"]) = (json!(files.len()), json!(failed));
    text.push_str(&format!("{line}\n"));
    std::fs::create_dir_all(folder.join("runs")).unwrap();
    std::fs::write(folder.join(format!("runs/{run}-linux-x86-7.20.8.ndjson")), text).unwrap();
}

fn history() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for run in 1..=4 {
        let files = [("a.test.ts", 100 + run, "pass"), ("b.test.ts", 2, if run == 2 { "fail" } else { "pass" })];
        ci_data(folder.path(), run, run, &files, if run == 2 { "fail" } else { "pass" });
    }
    folder
}

#[test]
fn caps_are_derived_checked_and_explained() {
    let folder = history();
    let here = folder.path();
    let policy = ["--estimator", "max", "--multiplier", "1.5", "--headroom", "0", "--floor", "60", "--ceiling", "1200"];
    let derive = [&["caps", "derive", "--from", "runs", "--runs", "1,2,3", "--out", "caps.json", "--json"][..], &policy].concat();
    let done = document(&ledger(here, &derive));
    assert_eq!((&done["files"], &done["records"], &done["changed"]), (&json!(2), &json!(5), &json!(true)), "{done}");
    let caps: Value = serde_json::from_slice(&std::fs::read(here.join("caps.json")).unwrap()).unwrap();
    assert_eq!(caps["v"], 1);
    assert_eq!(caps["window"]["runs"], json!(["1", "2", "3"]));
    assert_eq!(caps["files"]["a.test.ts"]["cap_s"], 180, "103 s x 1.5, a whole minute");
    assert_eq!(
        (&caps["files"]["b.test.ts"]["n"], &caps["files"]["b.test.ts"]["cap_s"]),
        (&json!(2), &json!(60)),
        "a fail is no pass"
    );
    assert_eq!(document(&ledger(here, &derive))["changed"], false, "the same evidence leaves the file alone");

    let check = ["caps", "check", "caps.json", "--from", "runs", "--json"];
    let checked = ledger(here, &check);
    assert_eq!((code(&checked), &document(&checked)["matters"]), (0, &json!(false)), "{}", stdout(&checked));
    ci_data(here, 9, 9, &[("a.test.ts", 150, "pass"), ("new.test.ts", 1, "pass")], "pass");
    let checked = ledger(here, &check);
    let kinds: Vec<Value> =
        document(&checked)["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].clone()).collect();
    assert_eq!((code(&checked), kinds), (1, vec![json!("near"), json!("no-cap")]), "150 of 180 s");

    let explained = ledger(here, &["caps", "explain", "test/a.test.ts", "--from", "runs", "--caps", "caps.json"]);
    assert!(stdout(&explained).contains("in caps.json: 3m00s (n 3, worst 1m43s)"), "{}", stdout(&explained));
    assert!(stdout(&explained).contains("oldest to newest of 5 passes"), "{}", stdout(&explained));
}

#[test]
fn caps_refuse_nonsense_with_two() {
    let folder = history();
    for arguments in [
        &["caps", "derive", "--from", "nowhere"][..],
        &["caps", "derive", "--from", "runs", "--runs", "77"],
        &["caps", "derive", "--from", "runs", "--multiplier", "NaN"],
        &["caps", "derive", "--from", "runs", "--multiplier", "0.5"],
        &["caps", "derive", "--from", "runs", "--floor", "0"],
        &["caps", "derive", "--from", "runs", "--estimator", "median"],
        &["caps", "derive", "--from", "runs", "--since", "2027-01-01"],
        &["caps", "check", "none.json", "--from", "runs"],
        &["caps", "backtest", "--from", "runs", "--holdout", "1"],
        &["caps", "backtest", "--from", "runs", "--policy", "speed=3"],
    ] {
        let output = ledger(folder.path(), arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty() && !stderr(&output).is_empty(), "{arguments:?}");
    }
    std::fs::write(folder.path().join("zero.json"), r#"{"v":1,"files":{"a.test.ts":{"cap_s":0}}}"#).unwrap();
    let output = ledger(folder.path(), &["caps", "check", "zero.json", "--from", "runs"]);
    assert!(code(&output) == 2 && stderr(&output).contains("a.test.ts"), "{}", stderr(&output));
}

#[test]
fn the_default_policy_beats_the_reference_on_public_data() {
    const SHARED: &str = "/work/shared/ci-data";
    if !Path::new(SHARED).exists() {
        eprintln!("SKIPPED: {SHARED} is not on this machine");
        return;
    }
    let result = document(&ledger(Path::new("."), &["caps", "backtest", "--from", SHARED, "--holdout", "0.4", "--json"]));
    let parts = result["parts"].as_array().unwrap();
    let of = |part: &Value, policy: &Value| {
        part["verdicts"].as_array().unwrap().iter().find(|v| v["policy"] == *policy).unwrap().clone()
    };
    assert_eq!(parts.len(), 3);
    for part in parts {
        assert!(part["verdicts"].as_array().unwrap().len() >= 6);
        let (reference, default) = (of(part, &result["reference"]), of(part, &result["default"]));
        for kills in ["false_kills", "false_kills_known"] {
            assert!(default[kills].as_u64() <= reference[kills].as_u64(), "{part}");
        }
        assert!(default["ratio"].as_f64().unwrap() <= 3.6, "{default}");
    }
    let all = of(&parts[2], &result["default"]);
    assert_eq!((all["records"].as_u64(), all["false_kills"].as_u64()), (Some(1893), Some(1)));
    assert!(all["ratio"].as_f64().unwrap() < 3.0, "{all}");
    assert_eq!(result["winner"], result["default"]);
}

#[test]
fn an_import_of_the_same_input_changes_nothing() {
    let folder = history();
    let here = folder.path();
    std::fs::write(here.join("good.sh"), "echo fine\n").unwrap();
    let run = ["run", "--run-id", "77", "--platform", "p", "--target", "t", "--caps", "none", "--cap", "60", "good.sh", "--", "sh"];
    assert_eq!(code(&ledger(here, &run)), 0);
    std::fs::write(here.join("timing.txt"), "a b.test.ts 33s pass\nc.test.ts 1.5s fail\nbroken\n").unwrap();
    std::fs::write(
        here.join("junit.xml"),
        r#"<testsuites><testsuite name="x.test.ts" time="2"><testcase name="t" time="2"/></testsuite></testsuites>"#,
    )
    .unwrap();
    let import = ["import", "runs", ".ledger", "timing.txt", "junit.xml", "--into", "all.db", "--json"];
    let first = document(&ledger(here, &import));
    assert_eq!((&first["imported"]["rows_added"], &first["imported"]["legs"]), (&json!(6), &json!(7)), "{first}");
    assert!(first["imported"]["events_added"].as_u64().unwrap() > 4, "{first}");
    let bytes = std::fs::read(here.join("all.db")).unwrap();
    let again = document(&ledger(here, &import));
    assert_eq!((&again["imported"]["rows_added"], &again["imported"]["events_added"]), (&json!(0), &json!(0)), "{again}");
    assert_eq!(again["imported"]["legs_changed"], 0);
    assert!(bytes == std::fs::read(here.join("all.db")).unwrap(), "not one byte of the archive");

    let legs = |source: &str| document(&ledger(here, &["report", source, "--json"]))["legs"].as_array().unwrap().clone();
    let own = |legs: &[Value]| legs.iter().find(|leg| leg["run_id"] == "77").unwrap().clone();
    let (direct, archived) = (own(&legs(".ledger")), own(&legs("all.db")));
    for field in ["terminal", "conclusion", "files", "head", "started_at", "ended_at", "why"] {
        assert_eq!(direct[field], archived[field], "{field}");
    }
    assert_eq!(legs("all.db").len(), 7);
    let tested = |source: &str| stdout(&ledger(here, &["report", source, "--format", "tested-versions"]));
    assert_eq!(tested("runs"), tested("all.db"));
    assert!(tested("runs").contains("\"7.20.8\""));
    assert_eq!(code(&ledger(here, &["verify", "all.db"])), 0);
    let refused = ledger(here, &["import", "runs", "--into", "timing.txt"]);
    assert_eq!(code(&refused), 2, "a file that is no archive is not touched");
}

#[test]
fn shared_files_are_merged_and_the_gate_speaks() {
    let folder = history();
    let here = folder.path();
    let report = |arguments: &[&str]| ledger(here, &[&["report"][..], arguments].concat());
    assert_eq!(code(&report(&["runs", "--format", "tested-versions", "--out", "tested.json"])), 0);
    let once = std::fs::read(here.join("tested.json")).unwrap();
    for run in ["3", "1", "4", "2"] {
        report(&["runs", "--run-id", run, "--format", "tested-versions", "--out", "other.json"]);
    }
    assert!(once == std::fs::read(here.join("other.json")).unwrap(), "one by one in another order gives the same bytes");
    std::fs::write(here.join("tested.json"), "<<<<<<< ours").unwrap();
    let refused = report(&["runs", "--format", "tested-versions", "--out", "tested.json"]);
    assert!(code(&refused) == 2 && stderr(&refused).contains("tested.json"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(here.join("tested.json")).unwrap(), "<<<<<<< ours");

    let due = report(&["other.json", "--due", "7.20.8", "9.9", "--platform", "linux-x86"]);
    assert_eq!(stdout(&due), "9.9\n");
    assert_eq!(code(&report(&["runs", "--due", "7.20.8"])), 2, "due needs a platform");

    std::fs::write(
        here.join("plan.json"),
        r#"{"include":[{"id":"linux-x86","target":"7.20.8"},{"id":"mac","label":"Mac","target":"7.20.8"}]}"#,
    )
    .unwrap();
    let gate = |run: &str| code(&report(&["runs", "--run-id", run, "--plan", "plan.json", "--gate"]));
    assert_eq!((gate("1"), gate("2")), (3, 1), "a leg that vanished is no pass, and a failure beats it");
    assert_eq!(code(&report(&["runs", "--run-id", "1", "--gate"])), 0);
    let rerun = report(&["runs", "--run-id", "1", "--plan", "plan.json", "--format", "rerun"]);
    assert_eq!(stdout(&rerun), "{\"include\":[{\"id\":\"mac\",\"label\":\"Mac\",\"target\":\"7.20.8\"}]}\n");
    let attempted: Value =
        serde_json::from_str(&stdout(&report(&["runs", "--run-id", "1", "--plan", "plan.json", "--format", "attempted-legs"])))
            .unwrap();
    assert_eq!((&attempted["1"]["planned"], &attempted["1"]["complete"]), (&json!(2), &json!(1)));
    assert_eq!(attempted["1"]["incomplete"]["mac|7.20.8"]["terminal"], "not-started");

    std::fs::write(
        here.join("jobs.json"),
        r#"[{"name":"Integration (linux-x86 · 7.20.8)","status":"completed","conclusion":"success","steps":[]}]"#,
    )
    .unwrap();
    let joined = document(&report(&["runs", "--run-id", "1", "--plan", "plan.json", "--jobs", "jobs.json", "--json"]));
    let matched: Vec<&Value> = joined["legs"].as_array().unwrap().iter().map(|leg| &leg["job_matched"]).collect();
    assert_eq!(matched, [&json!(true), &json!(false)]);
    assert!(joined["warnings"][0].as_str().unwrap().contains("no job is named 'Integration (Mac · 7.20.8)'"), "{joined}");
}

#[test]
fn ci_data_goes_out_as_it_came_in() {
    let folder = history();
    let here = folder.path();
    std::fs::create_dir(here.join("out")).unwrap();
    assert_eq!(code(&ledger(here, &["report", "runs", "--format", "ci-data", "--out", "out"])), 0);
    assert!(here.join("out/2-linux-x86-7.20.8.ndjson").exists());
    let tested = |source: &str| stdout(&ledger(here, &["report", source, "--format", "tested-versions"]));
    let timing = |source: &str| stdout(&ledger(here, &["report", source, "--format", "timing"]));
    assert_eq!((tested("runs"), timing("runs")), (tested("out"), timing("out")));
    assert_eq!(timing("out").lines().next(), Some("a.test.ts 101s pass"));
}

#[test]
fn shards_survive_a_trip_through_ci_data() {
    let world = World::with(&[("a.sh", "exit 0"), ("b.sh", "exit 3")]);
    let shard =
        |i: &str| world.run(["run", "--run-id", "7", "--platform", "p", "--target", "t", "--shard", i, "a.sh", "b.sh", "--", "sh"]);
    let mut codes = [shard("1/2").code, shard("2/2").code];
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1)]);
    std::fs::create_dir(world.join("folder")).unwrap();
    for out in ["folder", "one.ndjson"] {
        world.run(["report", "--format", "ci-data", "--out", out]).expect(0);
        let told = world.report([out]);
        let mut keys: Vec<_> =
            told["legs"].as_array().unwrap().iter().map(|leg| (leg["target"].to_string(), leg["shard"].to_string())).collect();
        keys.sort_unstable();
        assert_eq!(keys, [("\"t\"".to_owned(), "\"1/2\"".to_owned()), ("\"t\"".to_owned(), "\"2/2\"".to_owned())], "{told:#}");
        world.run(["report", out, "--gate"]).expect(1);
    }
    assert_eq!(std::fs::read_dir(world.join("folder")).unwrap().count(), 2);
}

#[test]
fn what_out_names_is_never_taken_away_unless_it_is_a_file() {
    let world = World::with(&[("a.sh", "exit 0")]);
    world.run(["run", "a.sh", "--", "sh"]).expect(0);
    world.write("real/tested.json", "{}");
    std::os::unix::fs::symlink("real/tested.json", world.join("link")).unwrap();
    world.run(["report", "--format", "tested-versions", "--out", "link"]).expect(0);
    assert!(std::fs::symlink_metadata(world.join("link")).unwrap().is_symlink());
    world.run(["report", "--format", "json", "--out", "link"]).expect(0);
    assert!(world.read("real/tested.json").contains("\"legs\""));
    // The link to one's own output, in a folder of this test's own.
    std::os::unix::fs::symlink("/proc/self/fd/1", world.join("stdout")).unwrap();
    if cfg!(target_os = "linux") {
        let ran = world.run(["report", "--format", "json", "--out", "stdout"]);
        ran.expect(0);
        assert!(ran.out().starts_with('{') && std::fs::symlink_metadata(world.join("stdout")).unwrap().is_symlink());
    }
    // The device that is always full, made here: never the real one.
    let made = std::process::Command::new("mknod").args(["full", "c", "1", "7"]).current_dir(world.path()).output();
    if !cfg!(target_os = "linux") || !made.is_ok_and(|made| made.status.success()) {
        eprintln!("SKIPPED: no device can be made here");
        return;
    }
    for format in ["json", "tested-versions"] {
        let ran = world.run(["report", "--format", format, "--out", "full"]);
        ran.expect(2).one_error("full: ");
        let kind =
            std::os::unix::fs::FileTypeExt::is_char_device(&std::fs::symlink_metadata(world.join("full")).unwrap().file_type());
        assert!(kind, "{format}: the device is still one");
    }
}
