//! ledger from outside.

use std::os::windows::process::CommandExt as _;
use std::time::Duration;

use crate::support::{Started, World, file, is_alive, outcomes, within};

use super::children::{PLAY, noted, own};

fn arguments<'a>(before: &[&'a str], files: &[&'a str]) -> Vec<std::ffi::OsString> {
    let words = before.iter().chain(files).map(|word| word.into());
    words.chain(["--".into(), own().into()]).chain(PLAY.iter().map(|word| word.into())).collect()
}

fn in_seconds(seconds: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (now.as_secs() + seconds).to_string()
}

#[test]
fn batch_files_run_by_themselves_and_through_cmd() {
    let world = World::with(&[("green.cmd", "@exit /b 0\r\n"), ("red.cmd", "@echo to be seen\r\n@exit /b 3\r\n")]);
    world.run(["run", "green.cmd", "red.cmd"]).expect(1);
    let leg = world.leg();
    assert_eq!(outcomes(&leg), [("green.cmd", "pass"), ("red.cmd", "test-failure")].map(|(n, o)| (n.to_owned(), o.to_owned())));
    let red = file(&leg, "red.cmd");
    assert_eq!((&red["exit_code"], &red["signal"], &red["containment"]), (&3.into(), &().into(), &"job".into()), "{red:#}");
    assert_eq!(red["cleanup_verified"], true);
    let ran = world.run(["run", "*.cmd", "--", "cmd", "/d", "/c", "{file}"]);
    assert!(ran.expect(1).out().contains("to be seen"), "{}", ran.out());
}

#[test]
fn statuses_beyond_a_byte_are_kept_and_an_exception_is_a_crash() {
    let world = World::with(&[("wide", "exit 70000"), ("crash", "exit 3221225477")]);
    world.run(arguments(&["run"], &["wide", "crash"])).expect(1);
    let leg = world.leg();
    assert_eq!((&file(&leg, "wide")["outcome"], &file(&leg, "wide")["exit_code"]), (&"test-failure".into(), &70_000.into()));
    let crash = file(&leg, "crash");
    assert_eq!((&crash["outcome"], &crash["exit_code"]), (&"crash".into(), &(0xc000_0005_u32 as i32).into()), "{crash:#}");
}

#[test]
fn a_hung_tree_is_timed_out_and_gone_and_the_run_goes_on() {
    let world = World::with(&[("hung", "tree 3\nprint waits for ever\nhang"), ("left", "background\nexit 0"), ("next", "exit 0")]);
    let ran = world.run(arguments(&["run", "--cap", "6", "--grace", "1"], &["hung", "left", "next"]));
    ran.expect(1);
    let leg = world.leg();
    let expected = [("hung", "file-watchdog-timeout"), ("left", "pass"), ("next", "pass")];
    assert_eq!(outcomes(&leg), expected.map(|(n, o)| (n.to_owned(), o.to_owned())));
    for row in leg["files"].as_array().unwrap() {
        assert_eq!(row["cleanup_verified"], true, "{row:#}");
    }
    let left = file(&leg, "left")["leftovers"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((&left[0]["ours_by"], &left[0]["fate"]), (&"job".into(), &"killed".into()));
    assert_eq!(noted(world.path()).len(), 5);
    assert!(noted(world.path()).into_iter().all(|pid| !is_alive(pid)), "{}", ran.stderr);
    assert!(ran.out().contains("waits for ever"));
}

/// Ctrl-Break goes through a console, and a service of CI may have none: this one is ledger's own and nobody sees it.
#[test]
fn a_leader_that_stays_is_asked_to_end_once() {
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    let world = World::with(&[("stays", "breaks")]);
    let mut ledger = world.ledger(arguments(&["run", "--cap", "6", "--grace", "2"], &["stays"]));
    ledger.creation_flags(CREATE_NO_WINDOW);
    let ran = world.finish(ledger);
    ran.expect(1);
    let stays = file(&world.leg(), "stays").clone();
    assert_eq!((&stays["outcome"], &stays["cleanup_verified"]), (&"file-watchdog-timeout".into(), &true.into()), "{stays:#}");
    let breaks = world.read("breaks");
    if breaks == "0" && stays.to_string().contains("no console event reached the leader") {
        // Wine 8 knows Ctrl-C only.
        eprintln!("SKIPPED: this system sends no Ctrl-Break");
        return;
    }
    assert_eq!(breaks, "1", "{stays:#}");
}

/// A run that hangs in its second file, with a sink.
fn hanging() -> (World, Started) {
    let world = World::with(&[("one", "exit 0"), ("hang", "print test seven begins\ntree 2\nhang"), ("three", "exit 0")]);
    let sink = world.sink();
    let before = ["run", "--heartbeat", "0.5", "--run-id", "R", "--sink", &sink];
    let ledger = world.start(world.ledger(arguments(&before, &["one", "hang", "three"])));
    within("the tree has grown", Duration::from_secs(60), || noted(world.path()).len() == 3);
    (world, ledger)
}

#[test]
fn a_killed_ledger_takes_its_tree_along_and_the_sink_tells_how_far_it_got() {
    let (world, mut ledger) = hanging();
    let sink = world.sink();
    within("a heartbeat carries the last output", Duration::from_secs(60), || {
        world.only_leg([&sink])["last_output"].as_str().is_some_and(|text| text.contains("test seven begins"))
    });
    ledger.kill();
    let gone = within("the tree is gone", Duration::from_secs(5), || noted(world.path()).into_iter().all(|pid| !is_alive(pid)));
    eprintln!("tree gone {gone:?} after ledger was killed");
    ledger.status();
    let here = world.leg();
    assert_eq!((&here["terminal"], &here["conclusion"]), (&"attempted-incomplete".into(), &"incomplete".into()), "{here:#}");
    std::fs::rename(world.join(".ledger"), world.join("gone")).unwrap();
    let lost = world.only_leg([sink.as_str(), "--now", &in_seconds(3600)]);
    assert_eq!((&lost["terminal"], &lost["conclusion"]), (&"runner-lost".into(), &"incomplete".into()), "{lost:#}");
    assert_eq!((&lost["last_file"], &lost["current_file"]), (&"one".into(), &"hang".into()));
    assert_eq!((&lost["files_planned"], &lost["files_reported"]), (&3.into(), &1.into()));
    std::fs::rename(world.join("gone"), world.join(".ledger")).unwrap();
    let again = world.run(arguments(&["run"], &["one"]));
    assert!(again.expect(0).stderr.contains("recovered: run R"), "{}", again.stderr);
    assert!(world.run(["reap", "--dry-run"]).expect(0).stderr.len() < 10_000);
}

#[test]
fn doctor_proves_the_job_and_says_what_windows_does_not_tell() {
    let world = World::new();
    let ran = world.run(["doctor"]);
    let text = ran.expect(0).out();
    assert!(text.contains("job; a daemonised probe was started: 1 found, sweep clean"), "{text}");
    assert!(text.contains("load: Windows keeps no load average"), "{text}");
}

#[test]
fn names_that_unix_would_not_think_of_and_globs_with_either_slash() {
    let world =
        World::with(&[("t/a b.cmd", "@exit /b 0\r\n"), ("t/ä (1).cmd", "@exit /b 0\r\n"), ("t/deep/c.cmd", "@exit /b 0\r\n")]);
    let plan = |pattern: &str| world.run(["run", "--dry-run", "--run-id", "R", pattern]).expect(0).out();
    assert_eq!(plan(r"t\*.cmd"), plan("t/*.cmd"));
    world.run(["run", r"t\**\*.cmd", "--run-id", "CON: <a|b>?*", "--platform", "nul"]).expect(0);
    let names = ["t/a b.cmd", "t/deep/c.cmd", "t/ä (1).cmd"];
    assert_eq!(outcomes(&world.leg()), names.map(|name| (name.to_owned(), "pass".to_owned())));
}

#[test]
fn a_terminal_is_refused_in_words() {
    let world = World::with(&[("a", "exit 0")]);
    let ran = world.run(arguments(&["run", "--tty"], &["a"]));
    ran.expect(2).one_error("--tty: a file gets a terminal of its own on Linux and macOS only");
    assert!(!world.join(".ledger").exists());
}
