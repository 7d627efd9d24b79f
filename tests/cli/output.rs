//! What files print: passed on byte for byte, kept bounded, and never able to hold or mislead anything.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{World, file, is_alive, outcomes, signal, within};

#[test]
fn bytes_pass_through_unchanged() {
    let world = World::with(&[
        ("bytes.sh", "printf 'a\\000b\\377\\376\\033[2J::error::x\\r\\n'; printf 'to stderr' >&2; printf 'no newline'"),
        ("line.sh", "head -c 20000000 /dev/zero | tr '\\0' y"),
    ]);
    let ran = world.run(["run", "--cap", "50", "bytes.sh", "--", "sh"]);
    ran.expect(0);
    assert_eq!(ran.stdout, b"a\0b\xff\xfe\x1b[2J::error::x\r\nno newline");
    assert!(ran.stderr.starts_with("to stderr\n"), "{}", ran.stderr);
    let ran = world.run(["run", "--cap", "50", "line.sh", "--", "sh"]);
    ran.expect(0);
    assert!(ran.stdout.len() == 20_000_000 && ran.stdout.iter().all(|byte| *byte == b'y'));
    let report = world.report::<[&str; 0], &str>([]);
    let leg = report["legs"].as_array().unwrap().iter().find(|leg| leg["last_file"] == "line.sh").unwrap().clone();
    let log = std::fs::metadata(world.join(file(&leg, "line.sh")["log"].as_str().unwrap())).unwrap().len();
    assert!((1_000_000..10_000_000).contains(&log), "a log is bounded: {log}");
    for format in ["table", "markdown", "junit"] {
        let text = world.run(["report", "--format", format]).out();
        assert!(!text.contains('\u{1b}') && !text.contains('\0') && !text.contains("\n::error"), "{format}");
    }
}

#[test]
fn a_reader_that_has_gone_away_costs_the_output_only() {
    let world = World::with(&[("yes.sh", "yes | head -c 3000000"), ("next.sh", "exit 3")]);
    let mut ledger = world
        .ledger(["run", "--cap", "50", "yes.sh", "next.sh", "--", "sh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(ledger.stdout.take());
    assert_eq!(ledger.wait().unwrap().code(), Some(1));
    assert_eq!(world.leg()["files_reported"], 2);
    let mut report = Command::new("sh");
    report.arg("-c").arg(format!("'{}' report | head -1", env!("CARGO_BIN_EXE_ledger"))).current_dir(world.path());
    let report = report.output().unwrap();
    assert!(report.status.success() && report.stderr.is_empty(), "{}", String::from_utf8_lossy(&report.stderr));
}

#[test]
fn a_reader_that_stands_still_holds_back_the_file_and_never_the_loop() {
    let world = World::with(&[("yes.sh", "yes"), ("next.sh", "touch next-ran")]);
    for actions in [false, true] {
        let _ = std::fs::remove_file(world.join("next-ran"));
        let mut command =
            world.ledger(["run", "--cap", "1", "--run-id", if actions { "a" } else { "b" }, "yes.sh", "next.sh", "--", "sh"]);
        if actions {
            command.env("GITHUB_ACTIONS", "true");
        }
        // Nobody reads this pipe while the run lasts.
        let mut ledger = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        within("the next file runs", Duration::from_secs(20), || world.join("next-ran").exists());
        // A reader that comes back hears how it ended.
        let mut heard = Vec::new();
        std::io::Read::read_to_end(&mut ledger.stdout.take().unwrap(), &mut heard).unwrap();
        assert_eq!(ledger.wait().unwrap().code(), Some(1));
        let report = world.report(["--run-id", if actions { "a" } else { "b" }]);
        let leg = &report["legs"][0];
        let row = file(leg, "yes.sh");
        assert_eq!(row["outcome"], "file-watchdog-timeout");
        assert!(row["notes"].to_string().contains("nobody reads ledger's own output"), "{row:#}");
    }
}

/// CASES 28: after the loop a reader that stands still is given up, and a signal gives it up at once.
#[test]
fn a_reader_that_never_comes_back_does_not_keep_ledger() {
    for (signal, most) in [(None, 30), (Some("TERM"), 7)] {
        let world = World::with(&[("flood.sh", "yes | head -c 3000000"), ("last.sh", "echo last-line")]);
        let mut command = world.ledger(["run", "--caps", "none", "--cap", "1", "--grace", "1", "flood.sh", "last.sh", "--", "sh"]);
        let said = std::fs::File::create(world.join("said")).unwrap();
        let mut ledger = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        // The leg is over and its record is written; what is left are words.
        within("the leg is over", Duration::from_secs(40), || {
            let events = world.finish(world.ledger(["report", "--json"])).out();
            events.contains("\"terminal\": \"complete\"")
        });
        if let Some(name) = signal {
            crate::support::signal(ledger.id(), name);
        }
        let mut code = None;
        within("ledger has ended", Duration::from_secs(most), || {
            code = ledger.try_wait().unwrap();
            code.is_some()
        });
        assert_eq!(code.unwrap().code(), Some(1), "every file had its turn");
        let said = world.read("said");
        assert_eq!(
            said.matches("warning: nobody reads stdout; the rest of the output is not shown; it is in the logs in").count(),
            1,
            "{said}"
        );
        assert!(said.contains("RESULT"), "stderr is another matter: {said}");
        let leg = world.leg();
        for (name, last) in [("flood.sh", "y\ny\n"), ("last.sh", "last-line\n")] {
            let log = world.read(file(&leg, name)["log"].as_str().unwrap());
            assert!(log.ends_with(last), "what was not shown is in the log of {name}");
        }
    }
}

#[test]
fn a_full_disk_behind_stdout_is_told_once() {
    let world = World::with(&[("a.sh", "echo one; sleep 0.1; echo two"), ("b.sh", "echo three")]);
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = world.ledger(["run", "--cap", "50", "a.sh", "b.sh", "--", "sh"]);
    let ran = command.stdout(full()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(
        (ran.status.code(), said.matches("warning: stdout cannot be written: No space left").count()),
        (Some(0), 1),
        "{said}"
    );
    assert!(world.read(file(&world.leg(), "a.sh")["log"].as_str().unwrap()).ends_with("one\ntwo\n"));
}

/// What nobody can read changes nothing of what a command does, and is no reason to panic.
#[test]
fn streams_that_cannot_be_written_leave_the_exit_status() {
    let world = World::with(&[("a.sh", "exit 1")]);
    world.run(["run", "--cap", "50", "a.sh", "--", "sh"]).expect(1);
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    let table: &[(&[&str], i32, i32)] = &[
        // With stdout read and stderr not; with neither on a full disk.
        // Under --gate 1 says that a file failed, so rows that nobody can be shown are a 2.
        (&["report", "--gate"], 1, 2),
        (&["report", "nonexist"], 2, 2),
        (&["run", "nosuch"], 2, 2),
        (&["caps", "derive", "--from", "nonexist"], 2, 2),
        (&["sink", "check"], 2, 2),
        (&["--nosuch"], 2, 2),
        (&["schema"], 0, 1),
        (&["verify"], 0, 1),
        (&["run", "--dry-run", "a.sh", "a.sh"], 0, 1),
        (&["--help"], 0, 1),
    ];
    for (args, unheard, unwritable) in table {
        for stderr in [closed(), full()] {
            let status = world.ledger(*args).stdout(Stdio::null()).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(*unheard), "{args:?}");
        }
        let status = world.ledger(*args).env("LEDGER_LOG", "trace").stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(*unwritable), "{args:?}");
        let status = world.ledger(*args).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(*unheard), "a reader that has gone away has what it wanted: {args:?}");
    }
}

#[test]
fn a_terminal_that_nobody_sees_has_a_size() {
    let world = World::with(&[("a.sh", "stty size")]);
    assert_eq!(world.run(["run", "--tty", "--cap", "50", "a.sh", "--", "sh"]).expect(0).out(), "24 80\r\n");
}

#[test]
fn a_held_pipe_is_drained_for_two_seconds_and_its_holder_is_named() {
    let world = World::with(&[("held.sh", "(setsid sleep 1000 &) ; echo kept; exit 7")]);
    let began = Instant::now();
    world.run(["run", "--cap", "30", "held.sh", "--", "sh"]).expect(1);
    assert!(began.elapsed() < Duration::from_secs(15));
    let leg = world.leg();
    let row = file(&leg, "held.sh");
    assert_eq!((&row["exit_code"], &row["last_output"]), (&7.into(), &"kept".into()), "{row:#}");
    assert_eq!(row["leftovers"].as_array().unwrap().len(), 1, "{row:#}");
}

#[test]
fn masked_values_are_in_no_evidence() {
    let world = World::with(&[(
        "s.sh",
        "echo \"$PW $MY_API_KEY\"; printf %s \"$PW\" | base64; echo '::add-mask::runtimesecret'; echo 'again runtimesecret'; echo 'at 10:00 ##[add-mask]oldersecret'; echo 'again oldersecret'; sh -c 'sleep 1000; : hunter2hunter2' & sleep 1000",
    )]);
    let mut command = world.ledger(["run", "--cap", "1", "--sink", &world.sink(), "s.sh", "--", "sh"]);
    command.env("LEDGER_MASK", "PW").env("PW", "hunter2hunter2").env("MY_API_KEY", "topsecretkey99");
    let ran = world.finish(command);
    ran.expect(1);
    assert!(ran.out().contains("hunter2hunter2 topsecretkey99"), "output passes unchanged");
    let leg = world.leg();
    assert_eq!(file(&leg, "s.sh")["outcome"], "file-watchdog-timeout", "{leg:#}");
    for secret in ["hunter2hunter2", "topsecretkey99", "runtimesecret", "oldersecret", "aHVudGVyMmh1bnRlcj"] {
        for place in [".ledger", "sink"] {
            let found = Command::new("grep").args(["-rla", secret, place]).current_dir(world.path()).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{secret} is in {place}");
        }
    }
}

/// A daemon that is spared holds the pipe for as long as it lives; what the file said before counts as if the pipe had ended.
#[test]
fn what_a_held_pipe_said_counts() {
    let world = World::with(&[
        ("ledger.toml", "[[classify]]\npattern = \"STALLED\"\noutcome = \"infra-download\"\n"),
        ("pass.sh", "setsid sleep 1000 & echo $! > pass.pid; printf '3 pass'"),
        ("fail.sh", "setsid sleep 1000 & echo $! > fail.pid; printf STALLED; exit 1"),
        (
            "mask.sh",
            "setsid sleep 1000 & echo $! > mask.pid; echo 3 pass, the key is latesecret1; printf '::add-mask::latesecret1'",
        ),
        ("after.sh", "echo 3 pass, and latesecret1"),
    ]);
    let args = ["run", "--min-evidence", "[0-9]+ pass", "--allow-leftover", "sleep", "pass.sh", "fail.sh", "mask.sh", "after.sh"];
    let ran = world.run(args.into_iter().chain(["--", "sh"]));
    for name in ["pass.pid", "fail.pid", "mask.pid"] {
        world.pids(name).into_iter().filter(|pid| is_alive(*pid)).for_each(|pid| signal(pid, "KILL"));
    }
    ran.expect(1);
    let leg = world.leg();
    let expect = [("pass.sh", "pass"), ("fail.sh", "infra-download"), ("mask.sh", "pass"), ("after.sh", "pass")];
    assert_eq!(outcomes(&leg), expect.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())));
    let tail = |name: &str| file(&leg, name)["last_output"].as_str().unwrap().to_owned();
    assert_eq!(tail("mask.sh"), "3 pass, the key is ***\n::add-mask::***");
    assert_eq!(tail("after.sh"), "3 pass, and ***");
}

#[test]
fn a_value_that_two_streams_cut_is_hidden() {
    let world = World::with(&[("s.sh", "printf 'key hun'; sleep 0.3; echo warn >&2; sleep 0.3; echo ter2222")]);
    let mut command = world.ledger(["run", "s.sh", "--", "sh"]);
    command.env("LEDGER_MASK", "PW").env("PW", "hunter2222");
    world.finish(command).expect(0);
    let leg = world.leg();
    let row = file(&leg, "s.sh");
    let log = world.read(row["log"].as_str().unwrap());
    for text in [&log, row["last_output"].as_str().unwrap()] {
        assert!(text.contains("key ") && text.contains("***") && text.contains("warn"), "{text}");
        assert!(!text.contains("hun") && !text.contains("ter2222"), "{text}");
    }
}

#[test]
fn a_mask_that_cannot_be_taken_is_told() {
    let world = World::with(&[("s.sh", "echo ::add-mask::abc; echo ::add-mask::abc; echo abc")]);
    let ran = world.run(["run", "s.sh", "--", "sh"]);
    ran.expect(0);
    let words = "a mask of 3 bytes is too short to hide";
    assert_eq!(ran.stderr.matches(words).count(), 1, "{}", ran.stderr);
    assert!(file(&world.leg(), "s.sh")["notes"].to_string().contains(words));
}
