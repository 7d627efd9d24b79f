//! Evidence of two steps under one name, of cancelled and unread legs, and of sources with nothing in them: what the gate makes of it.

use serde_json::Value;

use crate::support::{World, file, files_below};

fn run(world: &World, more: &[&str], code: i32) {
    world.run(["run", "--run-id", "E"].iter().chain(more)).expect(code);
}

fn gate(world: &World, more: &[&str]) -> i32 {
    world.run(["report", "--gate"].iter().chain(more)).code.unwrap()
}

#[test]
fn a_failing_step_does_not_vanish_behind_a_second_one_of_the_same_name() {
    let world = World::with(&[("unit.sh", "exit 1\n"), ("integ.sh", "exit 0\n")]);
    let sink = world.sink();
    let step = |file: &str, code| run(&world, &["--sink", &sink, "--scope", "full", "--resolved", "7.1", file, "--", "sh"], code);
    step("unit.sh", 1);
    step("integ.sh", 0);
    for source in [".ledger", sink.as_str()] {
        assert_eq!(gate(&world, &[source]), 1, "{source}");
        for format in ["table", "markdown", "html", "junit", "ctrf", "timing"] {
            let out = world.run(["report", source, "--format", format]).expect(0).out();
            assert!(
                out.contains("unit.sh") && out.contains("integ.sh") || format == "markdown" || format == "table",
                "{format}: {out}"
            );
            assert!(out.contains("unit.sh"), "{format}: {out}");
        }
        let table = world.run(["report", source]).out();
        assert!(table.contains("1 planned, 0 pass, 1 fail") && table.contains("--target"), "{table}");
        assert!(table.matches("(began ").count() >= 2, "both are rows: {table}");
        let tested = world.run(["report", source, "--format", "tested-versions"]).out();
        assert!(tested.contains("\"conclusion\": \"fail\""), "{tested}");
    }
    world.run(["import", ".ledger", "--into", "all.db"]).expect(0);
    assert_eq!(gate(&world, &["all.db"]), 1);
    // The same files again, and more: that covers what failed before.
    world.write("unit.sh", "exit 0\n");
    run(&world, &["integ.sh", "unit.sh", "--", "sh"], 0);
    assert_eq!(gate(&world, &[]), 0);
    let attempts = world.leg()["attempts"].as_array().unwrap().len();
    assert_eq!(attempts, 2, "both stay seen");
}

#[test]
fn a_cancelled_file_is_no_failure_and_its_leg_is_worth_a_rerun() {
    let world = World::with(&[("hang.sh", "echo up > up\nwhile :; do sleep 0.05; done\n"), ("later.sh", "exit 0\n")]);
    let mut command = world.ledger(["run", "--run-id", "E", "hang.sh", "later.sh", "--", "sh"]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_OUTPUT", world.join("output"));
    let ledger = world.start(command);
    world.line_of("up");
    // A file that may still begin has no outcome yet.
    let running = world.leg();
    assert_eq!((&running["terminal"], &file(&running, "later.sh")["outcome"]), (&"running".into(), &Value::Null), "{running:#}");
    crate::support::signal(ledger.pid(), "INT");
    ledger.end().expect(130);
    let leg = world.leg();
    assert_eq!(
        (&leg["terminal"], &leg["files_failed"], &leg["files_reported"]),
        (&"cancelled".into(), &0.into(), &1.into()),
        "{leg:#}"
    );
    assert_eq!((&file(&leg, "hang.sh")["outcome"], &file(&leg, "hang.sh")["status"]), (&"cancelled".into(), &"fail".into()));
    assert_eq!(file(&leg, "later.sh")["outcome"], "not-run");
    assert!(world.read("output").contains("failed=0\n"), "{}", world.read("output"));
    assert_eq!(gate(&world, &[]), 3);
    let rerun = world.run(["report", "--format", "rerun"]).out();
    assert!(rerun.contains("\"target\":\"local\""), "{rerun}");
}

#[test]
fn a_plan_has_rows_whatever_becomes_of_the_sources() {
    let world = World::with(&[
        ("a.sh", "exit 0\n"),
        ("plan.json", r#"[{"id":"A","target":"stable"},{"id":"D","target":"9.9","runner":"big"}]"#),
    ]);
    std::fs::create_dir(world.join("empty")).unwrap();
    let missing = url::Url::from_file_path(world.join("gone")).unwrap().to_string();
    let planned = |source: &str, more: &[&str]| {
        let ran = world.run(["report", source, "--plan", "plan.json", "--run-id", "E", "--json", "--gate"].iter().chain(more));
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        let terminals: Vec<String> =
            report["legs"].as_array().into_iter().flatten().map(|leg| leg["terminal"].as_str().unwrap().to_owned()).collect();
        (ran.code.unwrap(), terminals.join(" "), ran.stderr)
    };
    for source in ["empty", "nowhere", missing.as_str()] {
        let (code, terminals, stderr) = planned(source, &[]);
        assert_eq!((code, terminals.as_str()), (3, "not-started not-started"), "{source}: {stderr}");
    }
    // What could not be read may hold them.
    let (code, terminals, stderr) = planned("https://127.0.0.1:1/nobody", &[]);
    assert_eq!((code, terminals.as_str()), (2, "attempted-incomplete attempted-incomplete"), "{stderr}");
    run(&world, &["--platform", "A", "--target", "stable", "--resolved", "7.1", "--scope", "full", "a.sh", "--", "sh"], 0);
    assert_eq!(planned(".ledger", &["--target", "9.9"]).1, "not-started");
    let rerun = world.run(["report", "--plan", "plan.json", "--format", "rerun"]).out();
    assert_eq!(rerun.trim(), r#"{"include":[{"id":"D","runner":"big","target":"9.9"}]}"#);
    let tested = world.run(["report", "--plan", "plan.json", "--format", "tested-versions"]).out();
    assert!(tested.contains("\"9.9\"") && tested.contains("\"D\""), "a run that is dated dates its lost legs: {tested}");
    let full = std::fs::File::options().write(true).open("/dev/full");
    if let Ok(full) = full {
        let mut command = world.ledger(["report", "--gate"]);
        command.stdout(full);
        assert_eq!(command.status().unwrap().code(), Some(2), "1 is the word for a file that failed");
    }
}

#[test]
fn an_import_takes_what_is_asked_for_and_counts_each_leg_once() {
    let world = World::with(&[("a.sh", "exit 0\n")]);
    let sink = world.sink();
    for platform in ["A", "B"] {
        run(&world, &["--platform", platform, "--sink", &sink, "a.sh", "--", "sh"], 0);
    }
    let imported = |source: &str, into: &str, more: &[&str]| {
        let ran = world.run(["import", source, "--into", into, "--json"].iter().chain(more));
        serde_json::from_slice::<Value>(&ran.expect(0).stdout).unwrap()["imported"]["legs"].as_u64().unwrap()
    };
    assert_eq!(imported(".ledger", "one.db", &["--platform", "B"]), 1);
    assert_eq!(imported(&sink, "two.db", &[]), 2);
    assert_eq!(imported("two.db", "three.db", &["--platform", "A", "--run-id", "E"]), 1);
    assert_eq!(world.only_leg(["three.db"])["platform"], "A");
}

/// What tells that somebody has changed a ledger: its events, their chain, the head beside it.
#[test]
fn a_ledger_that_was_changed_passes_nowhere() {
    let damages: [(&str, &str, i32); 5] = [
        ("an event is gone", "DELETE FROM event WHERE seq = 5", 3),
        ("an event is no event", "UPDATE event SET line = '{{' WHERE seq = 6", 3),
        (
            "a failure became a pass",
            "UPDATE event SET line = replace(replace(line, '\"test-failure\"', '\"pass\"'), '\"fail\"', '\"pass\"')",
            3,
        ),
        ("the end is gone", "DELETE FROM event WHERE seq > (SELECT max(seq) - 1 FROM event)", 3),
        (
            "its last event is another",
            "UPDATE event SET line = replace(line, '\"exit_code\":1', '\"exit_code\":0') WHERE seq = (SELECT max(seq) FROM event)",
            1,
        ),
    ];
    for (what, sql, code) in damages {
        let script = if what.contains("failure") || what.contains("another") { "exit 1\n" } else { "exit 0\n" };
        let world = World::with(&[("a.sh", script)]);
        run(&world, &["a.sh", "--", "sh"], i32::from(script == "exit 1\n"));
        let database = files_below(&world.join(".ledger"), "db").pop().unwrap();
        let connection = rusqlite::Connection::open(&database).unwrap();
        let triggers: Vec<String> = {
            let mut statement = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").unwrap();
            statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        triggers.iter().for_each(|name| connection.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
        connection.execute_batch(sql).unwrap();
        drop(connection);
        let ran = world.run(["report", "--gate"]);
        assert_eq!(ran.code, Some(code), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains("ledger verify"), "{what}: {}", ran.stderr);
        world.run(["import", ".ledger", "--into", "all.db"]).expect(0);
        world.run(["report", "all.db", "--gate"]).expect(code);
        world.run(["import", "all.db", "--into", "again.db"]).expect(0);
        world.run(["report", "again.db", "--gate"]).expect(code);
        world.run(["verify"]).expect(1);
    }
}
