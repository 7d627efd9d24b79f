//! Caps and deadlines.

use crate::support::{World, file, files_below, outcomes};

fn suite() -> World {
    World::with(&[("a.sh", "sleep 0.3"), ("b.sh", "sleep 0.3"), ("c.sh", "sleep 0.3"), ("bad.sh", "exit 1")])
}

#[test]
fn a_deadline_too_close_runs_nothing_and_names_every_file() {
    let world = suite();
    let ran = world.run(["run", "--deadline", "+10", "--reserve", "8", "--min-viable", "5", "a.sh", "b.sh", "c.sh", "--", "sh"]);
    ran.expect(4);
    assert!(ran.stderr.contains("the budget is spent before 'a.sh'"), "{}", ran.stderr);
    let leg = world.leg();
    assert_eq!(outcomes(&leg), ["a.sh", "b.sh", "c.sh"].map(|name| (name.to_owned(), "not-run".to_owned())));
    for row in leg["files"].as_array().unwrap() {
        assert!(row["cap_s"].is_null() && row["duration_s"].is_null() && row["started_at"].is_null(), "{row:#}");
        assert_eq!(row["status"], "fail");
    }
    assert_eq!((&leg["terminal"], &leg["stopped_by"]), (&"stopped".into(), &"budget".into()));
    assert_eq!((&leg["conclusion"], &leg["loop_finished"]), (&"incomplete".into(), &false.into()));
}

#[test]
fn a_failure_before_the_budget_was_spent_is_a_fail_and_still_exit_4() {
    let world = suite();
    world.write("bad.sh", "sleep 3; exit 1");
    let args = ["run", "--deadline", "+66", "--reserve", "60", "--min-viable", "4", "bad.sh", "a.sh", "b.sh", "c.sh", "--", "sh"];
    world.run(args).expect(4);
    let leg = world.leg();
    assert_eq!(leg["conclusion"], "fail", "{leg:#}");
    assert_eq!(file(&leg, "c.sh")["outcome"], "not-run");
}

#[test]
fn a_deadline_shortens_a_cap_and_says_so() {
    let world = suite();
    world.run(["run", "--deadline", "+60", "--reserve", "20", "--min-viable", "1", "a.sh", "--", "sh"]).expect(0);
    let leg = world.leg();
    let row = file(&leg, "a.sh");
    assert_eq!(row["cap_basis"], "deadline");
    assert!(row["cap_s"].as_f64().is_some_and(|cap| (30.0..=40.0).contains(&cap)), "{row:#}");
    let mut command = world.ledger(["run", "a.sh", "--", "sh"]);
    command.env("LEDGER_DEADLINE", "+100");
    world.finish(command).expect(4);
}

#[test]
fn caps_come_from_history_and_the_lever_only_shortens() {
    let world = suite();
    let plan = |more: &[&str]| world.run(["run", "--dry-run"].iter().chain(more).chain(&["a.sh"])).expect(0).out();
    assert!(plan(&[]).contains("no history"), "{}", plan(&[]));
    assert!(!world.join(".ledger").exists(), "a dry run writes nothing");
    for run in ["1", "2", "3"] {
        world.run(["run", "--run-id", run, "a.sh", "--", "sh"]).expect(0);
    }
    let from_history = plan(&[]);
    assert!(from_history.contains("history: worst") && from_history.contains("3 passes"), "{from_history}");
    let cap = |text: &str| text.split("cap ").nth(1).unwrap().split(" (").next().unwrap().to_owned();
    assert_eq!(cap(&plan(&["--cap", "5h"])), cap(&from_history), "a lever never lengthens");
    assert_eq!(cap(&plan(&["--cap", "7"])), "7 s");
    assert!(plan(&["--caps", "none"]).contains("no cap"));
    world.write(
        "ledger-caps.json",
        r#"{"v":1,"derived_at":"2026-01-01T00:00:00.000Z","window":{"runs":["1"],"records":1},"policy":{"estimator":"max","multiplier":1.5,"headroom_s":0,"floor_s":300,"ceiling_s":1200,"round_s":60,"per":"file"},"files":{"a.sh":{"n":1,"worst_s":100,"cap_s":420}}}"#,
    );
    assert_eq!(cap(&plan(&[])), "7m00s", "a caps file in the folder is taken");
    let unknown = world.run(["run", "--dry-run", "b.sh"]).expect(0).out();
    assert_eq!(cap(&unknown), "5m00s", "a file that it does not know gets its floor");
}

#[test]
fn rounds_that_were_never_run_are_counted_and_not_made() {
    let world = suite();
    let sink = world.sink();
    world.run(["run", "--repeat", "200000000", "--fail-fast", "--sink", &sink, "bad.sh", "a.sh", "--", "sh"]).expect(1);
    let leg = world.leg();
    assert_eq!((&leg["files_planned"], &leg["files_reported"]), (&400_000_000_u32.into(), &1.into()));
    assert_eq!(leg["files"].as_array().unwrap().len(), 10_001);
    assert!(leg["notes"].to_string().contains("399989999 more planned files did not run"), "{}", leg["notes"]);
    // A place whose plan alone is left, and speaks of more than anybody planned.
    let documents = files_below(&world.join("sink"), "json");
    let plan = documents.iter().find(|path| path.ends_with("plan.json")).unwrap();
    let text = std::fs::read_to_string(plan).unwrap().replace("\"files_planned\":400000000", "\"files_planned\":4294967295");
    std::fs::write(plan, text).unwrap();
    for entry in std::fs::read_dir(plan.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path != *plan {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(world.only_leg([&sink])["files_planned"], 4_294_967_295_u32);
}
