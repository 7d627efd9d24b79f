//! What must not become a green run: one clear line, exit 2, and nothing ran.

use crate::support::{World, files_below};

const SUITE: &[(&str, &str)] = &[("exec.test.sh", "touch ran"), ("sub/x", "")];

#[test]
fn a_mistake_is_one_line_and_exit_2_and_nothing_runs() {
    let world = World::with(SUITE);
    world.write("broken.json", "{\"v\":1,");
    world.write("newer.json", "{\"v\":99}");
    world.write("zero.json", r#"{"v":1,"files":{"exec.test.sh":{"n":1,"worst_s":1,"cap_s":0}}}"#);
    world.write("broken.toml", "[run");
    world.write("unknown.toml", "[run]\nfoo = 1\n");
    world.write("pattern.toml", "[[classify]]\npattern = \"(\"\noutcome = \"x\"\n");
    world.write("pass.toml", "[[classify]]\npattern = \"x\"\noutcome = \"pass\"\n");
    let table: &[(&[&str], &str)] = &[
        (&["exce.test.sh"], "no such test file: 'exce.test.sh'; did you mean 'exec.test.sh'?"),
        (&["*.test.py"], "the glob '*.test.py' matches no file"),
        (&["sub"], "'sub' is a folder"),
        (&[], "the plan is empty"),
        (&["--caps", "broken.json", "exec.test.sh"], "broken.json' cannot be used"),
        (&["--caps", "newer.json", "exec.test.sh"], "newer than this ledger knows"),
        (&["--caps", "zero.json", "exec.test.sh"], "the cap of 'exec.test.sh'"),
        (&["--caps", "none.json", "exec.test.sh"], "no such caps file: 'none.json'"),
        (&["--cap", "0", "exec.test.sh"], "--cap 0"),
        (&["--cap", "0.5", "exec.test.sh"], "--cap 0.5"),
        (&["--cap", "NaN", "exec.test.sh"], "NaN"),
        (&["--cap", "inf", "exec.test.sh"], "inf"),
        (&["--cap", "-5", "exec.test.sh"], "'-5' is not a duration"),
        (&["--repeat", "0", "exec.test.sh"], "--repeat 0: a run has at least one round"),
        (&["--for", "0", "exec.test.sh"], "--for 0: a run has at least one round"),
        (&["--for", "0s", "exec.test.sh"], "--for 0: a run has at least one round"),
        (&["--shard", "2/2", "exec.test.sh"], "--shard 2/2: this share has no file"),
        (&["--sink", "https://h/c?token=hidden", "exec.test.sh"], "holds a query"),
        (&["--deadline", "soon", "exec.test.sh"], "--deadline soon"),
        (&["--deadline", "3600", "exec.test.sh"], "write it with a +"),
        (&["--deadline", "1790000000000", "exec.test.sh"], "milliseconds"),
        (&["--sink", "nonsense", "exec.test.sh"], "no kind of sink"),
        (&["--sink", "", "exec.test.sh"], "an empty text names no sink"),
        (&["--sink", "bogus://x", "--dry-run", "exec.test.sh"], "no kind of sink"),
        (&["--sink", "file:///a,s3://b", "exec.test.sh"], "is more than one URL"),
        (&["--require-sink", "exec.test.sh"], "no sink is set"),
        (&["--config", "broken.toml", "exec.test.sh"], "broken.toml' is no TOML"),
        (&["--config", "unknown.toml", "exec.test.sh"], "unknown.toml' is wrong"),
        (&["--config", "pattern.toml", "exec.test.sh"], "pattern '('"),
        (&["--config", "pass.toml", "exec.test.sh"], "never turns a failure into a pass"),
        (&["--config", "missing.toml", "exec.test.sh"], "missing.toml"),
        (&["--bogus", "exec.test.sh"], "--bogus"),
    ];
    for (args, words) in table {
        let args = ["run"].iter().chain(*args).chain(&["--", "sh"]).copied();
        let ran = world.run(args);
        ran.expect(2).one_error(words);
        assert!(!world.join("ran").exists(), "{words}");
    }
    assert!(!world.join(".ledger").exists(), "a mistake of the plan makes no ledger");
}

#[test]
fn a_ledger_that_cannot_be_written_is_exit_2_and_nothing_runs() {
    let world = World::with(SUITE);
    world.write("a-file", "");
    for place in ["/proc/no/ledger", "a-file", "/dev/null/x"] {
        let ran = world.run(["run", "--ledger", place, "exec.test.sh", "--", "sh"]);
        assert_eq!(ran.code, Some(2), "{place}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(!ran.stderr.contains("`ledger run` makes one"), "{}", ran.stderr);
        assert!(!world.join("ran").exists());
    }
    let ran = world.run(["run", "--logs", "a-file", "exec.test.sh", "--", "sh"]);
    ran.expect(2).one_error("name another one with --logs");
    assert!(!world.join("ran").exists());
}

#[test]
fn a_required_sink_that_is_silent_leaves_no_leg_behind() {
    let world = World::with(SUITE);
    world.write("in-the-way", "");
    let bad = format!("file://{}/in-the-way", world.path().display());
    let good = world.sink();
    let ran = world.run(["run", "--require-sink", "--sink", &bad, "--sink", &good, "exec.test.sh", "--", "sh"]);
    ran.expect(2).one_error("in-the-way");
    assert!(!world.join("ran").exists());
    assert_eq!(world.report([good.as_str()])["legs"], serde_json::json!([]), "the sink that did answer");
    let databases = std::fs::read_dir(world.join(".ledger")).unwrap().flatten();
    assert_eq!(databases.filter(|entry| entry.path().extension().is_some_and(|ext| ext == "db")).count(), 0);
    // Without the word `required` the run is unharmed, and what was sent and not sent is counted.
    let ran = world.run(["run", "--sink", &bad, "--sink", &good, "exec.test.sh", "--", "sh"]);
    ran.expect(0);
    assert!(ran.stderr.contains("does not answer"), "{}", ran.stderr);
    let leg = world.leg();
    let sinks = leg["sinks"].as_array().unwrap();
    assert!(sinks.iter().any(|sink| sink["degraded"] == true && sink["unsent"].as_u64() > Some(0)), "{leg:#}");
    assert!(sinks.iter().any(|sink| sink["degraded"] == false && sink["unsent"] == 0), "{leg:#}");
}

#[test]
fn a_sink_that_is_given_twice_is_written_once() {
    let world = World::with(SUITE);
    let (sink, same) = (world.sink(), format!("{}/", world.sink()));
    let ran = world.run(["run", "--sink", &sink, "--sink", &same, "--sink", &sink, "exec.test.sh", "--", "sh"]);
    ran.expect(0);
    assert_eq!(ran.stderr.matches("is given more than once; it is written once").count(), 2, "{}", ran.stderr);
    let leg = world.leg();
    assert_eq!(leg["sinks"].as_array().unwrap().len(), 1, "{leg:#}");
    assert_eq!((&leg["sinks"][0]["unsent"], &leg["sinks"][0]["degraded"]), (&0.into(), &false.into()));
}

#[test]
fn sources_that_say_nothing_are_exit_2() {
    let world = World::new();
    world.write("garbage.db", "no database at all");
    world.write("empty.db", "");
    world.write("empty/.keep", "");
    world.write("garbage.ndjson", "not json\n");
    world.write("empty.ndjson", "");
    world.write("script.sh", "exit 0");
    let none = format!("file://{}/none", world.path().display());
    for source in [
        "nope",
        "garbage.db",
        "empty.db",
        "empty",
        "garbage.ndjson",
        "empty.ndjson",
        "script.sh",
        "/dev/null",
        "",
        "gopher://x",
        &none,
    ] {
        let ran = world.run(["report", source]);
        assert_eq!(ran.code, Some(2), "{source:?}: {ran:?}");
        assert!(ran.stderr.contains("ledger: error: ") && !ran.stderr.contains("panicked"), "{source:?}: {}", ran.stderr);
    }
    for source in ["nope", "garbage.db", "empty.db", "empty", &none] {
        assert_eq!(world.run(["verify", source]).code, Some(2), "{source}");
    }
}

#[test]
fn a_damaged_ledger_of_an_earlier_run_is_named_and_left_alone() {
    let world = World::with(SUITE);
    world.run(["run", "exec.test.sh", "--", "sh"]).expect(0);
    let database = std::fs::read_dir(world.join(".ledger")).unwrap().flatten().map(|entry| entry.path());
    let database = database.into_iter().find(|path| path.extension().is_some_and(|ext| ext == "db")).unwrap();
    world.run(["verify"]).expect(0);
    std::fs::write(&database, "garbage").unwrap();
    world.run(["verify"]).expect(2);
    let ran = world.run(["run", "exec.test.sh", "--", "sh"]);
    ran.expect(0);
    let name = database.file_name().unwrap().to_string_lossy().into_owned();
    assert!(ran.stderr.contains("cannot be read and is left alone") && ran.stderr.contains(&name), "{}", ran.stderr);
    assert_eq!(std::fs::read(&database).unwrap(), b"garbage");
    // Two runs, two legs: the one that cannot be read any more is no less a leg.
    let report = world.report::<[&str; 0], &str>([]);
    let mut terminals: Vec<&str> = report["legs"].as_array().unwrap().iter().filter_map(|leg| leg["terminal"].as_str()).collect();
    terminals.sort_unstable();
    assert_eq!(terminals, ["attempted-incomplete", "complete"], "{report:#}");
}

/// It says whose it is, and what it holds cannot be read.
#[test]
fn a_ledger_damaged_inside_costs_itself_and_no_later_run() {
    let world = World::with(SUITE);
    world.run(["run", "exec.test.sh", "--", "sh"]).expect(0);
    let database = files_below(&world.join(".ledger"), "db").remove(0);
    rusqlite::Connection::open(&database).unwrap().execute_batch("DROP TABLE event").unwrap();
    let name = database.file_name().unwrap().to_string_lossy().into_owned();
    let resumed = world.run(["run", "--resume", "exec.test.sh", "--", "sh"]);
    resumed.expect(2).one_error("no unfinished leg with this plan");
    let reaped = world.run(["reap"]);
    assert!(reaped.expect(0).stderr.contains(&name) && !reaped.out().contains("no dead run"), "{reaped:?}");
    let ran = world.run(["run", "exec.test.sh", "--", "sh"]);
    assert!(ran.expect(0).stderr.contains("cannot be read and is left alone") && ran.stderr.contains(&name), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn a_file_without_end_is_refused() {
    let world = World::with(SUITE);
    for name in ["ledger-caps.json", "ledger.toml"] {
        std::os::unix::fs::symlink("/dev/zero", world.join(name)).unwrap();
        world.run(["run", "--dry-run", "exec.test.sh"]).expect(2).one_error("has more than");
        std::fs::remove_file(world.join(name)).unwrap();
    }
}

#[test]
fn a_policy_that_is_refused_is_not_passed_over() {
    let world = World::with(SUITE);
    world.run(["run", "exec.test.sh", "--", "sh"]).expect(0);
    world.run(["caps", "backtest", "--multiplier", "0.5"]).expect(2).one_error("multiplier of 0.5 is refused");
}
