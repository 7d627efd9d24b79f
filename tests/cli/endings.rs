//! Exit statuses, their precedence, and the rows that go with them.

use crate::support::{World, file, outcomes};

const SUITE: &[(&str, &str)] = &[
    ("pass.sh", "exit 0"),
    ("fail.sh", "exit 3"),
    ("crash.sh", "kill -SEGV $$"),
    ("hang.sh", "sleep 1000"),
    ("e124.sh", "exit 124"),
    ("e137.sh", "exit 137"),
    ("evidence.sh", "echo '12 tests passed'"),
    ("stalled.sh", "echo DOWNLOAD_STALLED; exit 9"),
];

#[test]
fn every_outcome_has_its_word_and_the_loop_goes_on() {
    let world = World::with(SUITE);
    let files = ["pass.sh", "fail.sh", "crash.sh", "hang.sh", "e124.sh", "e137.sh"];
    let ran = world.run(["run", "--cap", "1"].iter().chain(&files).chain(&["--", "sh"]));
    ran.expect(1);
    let leg = world.leg();
    let expect = [
        ("pass.sh", "pass", Some(0), None),
        ("fail.sh", "test-failure", Some(3), None),
        ("crash.sh", "crash", None, Some(11)),
        ("hang.sh", "file-watchdog-timeout", None, Some(15)),
        ("e124.sh", "test-failure", Some(124), None),
        ("e137.sh", "test-failure", Some(137), None),
    ];
    for (name, outcome, code, signal) in expect {
        let row = file(&leg, name);
        let status = if outcome == "pass" { "pass" } else { "fail" };
        assert_eq!((row["outcome"].as_str(), row["status"].as_str()), (Some(outcome), Some(status)), "{row:#}");
        assert_eq!((row["exit_code"].as_i64(), row["signal"].as_i64()), (code, signal), "{row:#}");
        assert_eq!(row["cleanup_verified"], true, "{row:#}");
        assert_eq!(row["cap_s"], 1, "{row:#}");
    }
    assert_eq!((&leg["terminal"], &leg["conclusion"], &leg["loop_finished"]), (&"complete".into(), &"fail".into(), &true.into()));
    assert_eq!((&leg["files_reported"], &leg["files_failed"]), (&6.into(), &5.into()));
    world.run(["verify"]).expect(0);
}

#[test]
fn fail_fast_stops_and_what_never_ran_is_a_row() {
    let world = World::with(SUITE);
    world.run(["run", "--fail-fast", "pass.sh", "fail.sh", "evidence.sh", "--", "sh"]).expect(1);
    let leg = world.leg();
    assert_eq!(
        (&leg["terminal"], &leg["stopped_by"], &leg["conclusion"]),
        (&"stopped".into(), &"fail-fast".into(), &"fail".into())
    );
    assert_eq!(leg["loop_finished"], false);
    let row = file(&leg, "evidence.sh");
    assert_eq!(row["outcome"], "not-run");
    assert!(row["cap_s"].is_null() && row["duration_s"].is_null(), "{row:#}");
}

#[test]
fn a_failure_at_the_last_file_ends_a_whole_loop() {
    let world = World::with(SUITE);
    world.run(["run", "--fail-fast", "pass.sh", "fail.sh", "--", "sh"]).expect(1);
    assert_eq!(world.leg()["loop_finished"], true);
}

#[test]
fn a_program_that_is_not_there_is_a_spawn_failure() {
    let world = World::with(SUITE);
    world.run(["run", "pass.sh", "--", "/no/such/program"]).expect(1);
    let leg = world.leg();
    let row = file(&leg, "pass.sh");
    assert_eq!(row["outcome"], "spawn-failure");
    assert!(row["duration_s"].is_null() && row["exit_code"].is_null(), "{row:#}");
}

#[test]
fn output_refines_a_failure_and_asks_for_evidence() {
    let world = World::with(SUITE);
    world.write("ledger.toml", "[[classify]]\npattern = \"DOWNLOAD_STALLED\"\noutcome = \"infra-download\"\n");
    let ran = world.run(["run", "--min-evidence", "[1-9][0-9]* tests? passed", "evidence.sh", "pass.sh", "stalled.sh", "--", "sh"]);
    ran.expect(1);
    let expect = [("evidence.sh", "pass"), ("pass.sh", "no-tests"), ("stalled.sh", "infra-download")];
    assert_eq!(outcomes(&world.leg()), expect.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())));
    assert_eq!(file(&world.leg(), "stalled.sh")["status"], "fail");
}

#[test]
fn a_thousand_children_have_a_thousand_true_statuses() {
    let world = World::with(&[(
        "many.sh",
        "i=0; bad=0; while [ $i -lt 1000 ]; do (exit $((i % 200))); [ $? = $((i % 200)) ] || bad=$((bad+1)); i=$((i+1)); done; exit $bad",
    )]);
    for index in 0..40 {
        world.write(format!("f{index:02}.sh"), &format!("exit {index}"));
    }
    world.run(["run", "many.sh", "f*.sh", "--", "sh"]).expect(1);
    let leg = world.leg();
    assert_eq!(file(&leg, "many.sh")["exit_code"], 0);
    for index in 0..40 {
        assert_eq!(file(&leg, &format!("f{index:02}.sh"))["exit_code"], index);
    }
}

/// Descriptors and children of ledger itself, counted by the files that it runs.
#[cfg(target_os = "linux")]
#[test]
fn nothing_leaks_from_file_to_file() {
    let world = World::with(&[(
        "count.sh",
        "owner=$PPID; ledger=$(awk '/^PPid/{print $2}' /proc/$owner/status); echo fds $(ls /proc/$ledger/fd | wc -l) zombies $(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | \
         xargs -r grep -l \"^PPid:.$ledger$\" 2>/dev/null | wc -l) own $(ls /proc/self/fd | wc -l)",
    )]);
    let mut command = world.ledger(["run", "--repeat", "30", "count.sh", "--", "sh"]);
    command.env("LC_ALL", "C");
    let ran = world.finish(command);
    ran.expect(0);
    let out = ran.out();
    let counts: Vec<Vec<u32>> = out.lines().map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect()).collect();
    assert_eq!(counts.len(), 30, "{out}");
    let early = counts[1..5].iter().map(|count| count[0]).max().unwrap();
    let late = counts[25..].iter().map(|count| count[0]).max().unwrap();
    assert!(late <= early + 2, "descriptors grow: {out}");
    assert!(counts.iter().all(|count| count[1] == 0), "zombies: {out}");
    // 0, 1, 2 and the folder that `ls` reads: nothing of ledger's is inherited.
    assert!(counts.iter().all(|count| count[2] == 4), "inherited descriptors: {out}");
}

/// `flock FILE ledger run` leaves a descriptor open below the owner's own; it must neither cost the run nor reach a file.
#[test]
fn what_the_caller_left_open_reaches_no_file() {
    let world = World::with(&[("look.sh", "(: <&3) 2>/dev/null && exit 1; exit 0")]);
    let ledger = world.ledger(["run", "look.sh", "--", "sh"]);
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(world.path()).args(["-c", "exec \"$@\" 3</dev/null", "sh"]).arg(ledger.get_program()).args(ledger.get_args());
    ledger.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
        shell.env_remove(name);
    });
    world.finish(shell).expect(0);
}

#[test]
fn a_damaged_event_is_told_once_with_what_it_costs() {
    let world = World::with(&[("a.sh", "exit 0\n"), ("b.sh", "exit 0\n"), ("c.sh", "exit 0\n")]);
    world.run(["run", "--cap", "30s", "*.sh", "--", "sh"]).expect(0);
    let folder = world.join(".ledger");
    let mut entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.find(|path| path.extension().is_some_and(|end| end == "db")).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let triggers: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        .unwrap()
        .query_map((), |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    triggers.iter().for_each(|name| connection.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
    let second = "(SELECT max(seq) FROM (SELECT seq FROM event WHERE kind = 'file-finished' ORDER BY seq LIMIT 2))";
    connection.execute_batch(&format!("UPDATE event SET line = '{{broken' WHERE seq = {second}")).unwrap();
    drop(connection);
    let report = world.report([""; 0]);
    let warnings = report["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{report:#}");
    let warning = warnings[0].as_str().unwrap();
    assert!(warning.contains("events after it are not used") && warning.contains("ledger verify"), "{warning}");
    let leg = &report["legs"][0];
    assert_eq!(leg["terminal"], "attempted-incomplete");
    assert!(leg["why"].as_str().unwrap().starts_with("its ledger is damaged after event"), "{leg:#}");
    assert_eq!((&leg["files_reported"], &leg["last_file"]), (&1.into(), &"a.sh".into()), "{leg:#}");
}

#[test]
fn a_file_that_cannot_be_started_says_what_and_what_to_do() {
    let world = World::with(&[("b.sh", "exit 0")]);
    for (args, words) in
        [(&["b.sh", "--", "no-such-command"][..], "the command 'no-such-command' cannot be started: "), (&["b.sh"], "chmod +x")]
    {
        let ran = world.run(["run", "--run-id", &args.len().to_string()].iter().chain(args));
        ran.expect(1);
        let report = world.report(["--run-id", &args.len().to_string()]);
        let row = &report["legs"][0]["files"][0];
        assert_eq!(row["outcome"], "spawn-failure");
        assert!(row["notes"].to_string().contains(words), "{row:#}");
        let told = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(words.trim()), "{}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_nothing_holds_is_run_all_the_same() {
    let world = World::with(SUITE);
    let off = ["cgroup", "subreaper", "session", "token", "descendant"].map(|name| ["--without-mechanism", name]);
    let ran = world.run(["run", "pass.sh"].into_iter().chain(off.into_iter().flatten()).chain(["--", "sh"]));
    assert!(ran.code.is_some(), "{}", ran.stderr);
    assert_eq!(outcomes(&world.leg()), [("pass.sh".to_owned(), "pass".to_owned())]);
}
