//! `ledger.toml` with all its words.

use crate::support::{World, file, outcomes};

const SETTINGS: &str = r#"
[run]
command = ["sh", "-c", "echo {index} {name}; case {name} in b.sh) exit 9;; esac"]
files = ["tests/*.sh"]
sinks = ["file://FOLDER/sink"]
require-sink = true
grace = "1s"
cap = 30
heartbeat = 0.5
reap-match = ["qemu-system-*", "foo*"]
reap-scope = "owned"
leftovers = "fail"
allow-leftover = ["builder*"]
platform = "p x/..|y"
target = "t/../../z"
run-id = "../../evil run"
attempt = "2"
sha = "abc"
resolved = "1.2.3"
event = "push"
legs = 3
ledger = "led"
logs = "lg"
reserve = 10
min-viable = "5s"
deadline = "+1h"
fail-fast = false
watch-disk = ["/tmp"]
caps = "none"
"#;

#[test]
fn every_key_of_the_settings_file_is_taken() {
    let world = World::with(&[("tests/a.sh", ""), ("tests/b.sh", ""), ("tests/c.sh", "")]);
    world.write("ledger.toml", &SETTINGS.replace("FOLDER", &world.path().display().to_string()));
    world.run(["run"]).expect(1);
    let leg = world.only_leg(["led"]);
    let words = ["run_id", "attempt", "platform", "target", "resolved", "sha", "event", "scope"];
    let said = words.map(|key| leg[key].as_str().unwrap_or_default().to_owned());
    assert_eq!(said, ["../../evil run", "2", "p x/..|y", "t/../../z", "1.2.3", "abc", "push", "full"]);
    let expect = [("tests/a.sh", "pass"), ("tests/b.sh", "test-failure"), ("tests/c.sh", "pass")];
    assert_eq!(outcomes(&leg), expect.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())));
    assert!(file(&leg, "tests/a.sh")["log"].as_str().unwrap().starts_with("lg/"));
    // A name never leaves its folder.
    let entries = std::fs::read_dir(world.path()).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut entries: Vec<String> = entries.collect();
    entries.sort();
    assert_eq!(entries, ["led", "ledger.toml", "lg", "sink", "tests"]);
    assert_eq!(world.only_leg([world.sink()])["run_id"], "../../evil run");
    // A part of the suite marks no version tested, and a flag beats the file.
    world.run(["run", "--run-id", "part", "--target", "flag", "tests/a.sh"]).expect(0);
    let report = world.report(["led", "--run-id", "part"]);
    assert_eq!((&report["legs"][0]["scope"], &report["legs"][0]["target"]), (&"filtered".into(), &"flag".into()));
}

#[test]
fn rounds_are_rows() {
    let world = World::with(&[("a.sh", "[ ! -e stop ] && [ -e one ] && touch stop; touch one; [ ! -e stop ]")]);
    world.run(["run", "--until-fail", "a.sh", "--", "sh"]).expect(1);
    let leg = world.leg();
    let rounds: Vec<_> = leg["files"].as_array().unwrap().iter().map(|row| row["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [1, 2], "{leg:#}");
    assert!(leg["files_planned"].is_null(), "an open end has no number: {leg:#}");
    world.run(["run", "--run-id", "thrice", "--repeat", "3", "--target", "t", "a.sh", "--", "true"]).expect(0);
    assert_eq!(world.report(["--run-id", "thrice"])["legs"][0]["files_planned"], 3);
}

#[test]
fn the_colour_flag_holds_for_help_and_usage_errors_and_a_log_is_plain() {
    let world = World::with(&[("a.sh", "exit 0")]);
    for (flag, coloured) in [("always", true), ("never", false), ("auto", false)] {
        assert_eq!(world.run(["--color", flag, "run", "--help"]).out().contains('\u{1b}'), coloured, "{flag}");
        assert_eq!(world.run(["run", "--nosuch", "--color", flag]).expect(2).stderr.contains('\u{1b}'), coloured, "{flag}");
        let mut command = world.ledger(["--color", flag, "run", "--cap", "50", "a.sh", "--", "sh"]);
        command.env("LEDGER_LOG", "debug");
        assert_eq!(world.finish(command).stderr.contains("\u{1b}[2m"), coloured, "{flag}");
    }
}

#[test]
fn what_reads_answers_in_json() {
    let world = World::with(&[("a.sh", "exit 0"), ("b.sh", "exit 0")]);
    for run in ["R1", "R2"] {
        world.run(["run", "--run-id", run, "--cap", "50", "--sink", &world.sink(), "a.sh", "--", "sh"]).expect(0);
    }
    let json = |args: &[&str]| -> serde_json::Value {
        let ran = world.run(args);
        serde_json::from_slice(&ran.expect(0).stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", ran.out()))
    };
    let plan = json(&["run", "--dry-run", "--json", "b.sh", "a.sh", "./b.sh"]);
    assert_eq!((&plan["files"][0]["file"], &plan["files"][1]["file"]), (&"b.sh".into(), &"a.sh".into()), "{plan:#}");
    assert!(plan["warnings"][0].as_str().unwrap().contains("'./b.sh' is named more than once"), "{plan:#}");
    assert!(json(&["schema", "--json"])["schemas"].as_array().unwrap().len() > 10);
    assert!(json(&["schema", "envelope", "--json"]).is_object());
    assert!(json(&["caps", "derive", "--json"])["files"]["a.sh"].is_object());
    assert_eq!(json(&["sink", "pull", "--json", &world.sink(), "--into", "home"])["legs"][0]["ok"], true);
    assert_eq!(json(&["trend", "--json"])["trends"][0]["files"][0]["components_s"].to_string(), "0.0");
    world.run(["run", "--json", "a.sh"]).expect(2);
}
