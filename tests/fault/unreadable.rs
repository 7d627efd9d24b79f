//! Evidence that cannot be read costs its own leg, by name, and never makes a gate look better.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{World, files_below};

/// Two legs of one run in a sink: one that passed, and one that failed.
fn two_legs() -> World {
    let world = World::with(&[("pass.sh", "exit 0\n"), ("fail.sh", "exit 1\n")]);
    for (platform, file, code) in [("good", "pass.sh", 0), ("bad", "fail.sh", 1)] {
        let sink = world.sink();
        let ledger = format!("ledger-{platform}");
        let leg = ["run", "--run-id", "7", "--platform", platform, "--target", "stable", "--ledger", &ledger, "--sink", &sink];
        let mut command = world.ledger(leg);
        command.args([file, "--", "sh"]);
        world.finish(command).expect(code);
    }
    assert_eq!(gate(&world), 1, "the failing leg is there");
    world
}

fn gate(world: &World) -> i32 {
    world.run(["report", &world.sink(), "--gate"]).code.unwrap()
}

/// The epoch's folder of the leg that failed.
fn bad(world: &World) -> PathBuf {
    let is_bad = |path: &PathBuf| path.to_string_lossy().contains("/bad,stable/");
    let markers = files_below(&world.join("sink"), "json").into_iter().filter(is_bad);
    markers.map(|path| path.parent().unwrap().to_owned()).next().unwrap()
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    files_below(folder, "ndjson")
}

fn row<'r>(report: &'r Value, platform: &str) -> &'r Value {
    let legs = report["legs"].as_array().unwrap();
    legs.iter().find(|leg| leg["platform"] == platform).unwrap_or_else(|| panic!("no row of {platform}: {report:#}"))
}

/// Damages one file or another thing in its place.
type Damage = fn(&Path);

fn empty(path: &Path) {
    fs::write(path, "").unwrap();
}

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len().min(300)]).unwrap();
}

fn garbage(path: &Path) {
    fs::write(path, [0xff; 700]).unwrap();
}

fn huge(path: &Path) {
    fs::File::create(path).unwrap().set_len((64 << 20) + 1).unwrap();
}

fn folder(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
}

/// A pipe that nobody writes: whoever opens it to read waits for ever.
fn pipe(path: &Path) {
    fs::remove_file(path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

const DAMAGES: [(&str, Damage); 6] =
    [("empty", empty), ("cut", cut), ("garbage", garbage), ("huge", huge), ("a folder", folder), ("a pipe", pipe)];

#[test]
fn a_leg_whose_files_are_damaged_stays_a_row_by_its_plan_or_by_its_name() {
    for (what, damage) in DAMAGES {
        let world = two_legs();
        let place = bad(&world);
        segments(&place).iter().for_each(|segment| damage(segment));
        damage(&place.join("marker.json"));
        let report = world.report([world.sink()]);
        let leg = row(&report, "bad");
        assert_eq!(
            (&leg["conclusion"], &leg["terminal"]),
            (&"incomplete".into(), &"attempted-incomplete".into()),
            "{what}: {leg:#}"
        );
        assert_eq!(leg["files_planned"], 1, "{what}: the plan is there: {leg:#}");
        assert_eq!(row(&report, "good")["conclusion"], "pass", "{what}");
        assert_eq!(gate(&world), 3, "{what}");

        damage(&place.join("plan.json"));
        let report = world.report([world.sink()]);
        let leg = row(&report, "bad");
        let named = (&leg["run_id"], &leg["attempt"], &leg["target"], &leg["epoch"]);
        let epoch = Value::from(place.file_name().unwrap().to_str());
        assert_eq!(named, (&"7".into(), &"1".into(), &"stable".into(), &epoch), "{what}: {leg:#}");
        assert_eq!(leg["conclusion"], "incomplete", "{what}: {leg:#}");
        assert!(leg["why"].as_str().unwrap().contains("cannot be read: "), "{what}: {leg:#}");
        let ran = world.run(["report", &world.sink(), "--gate"]);
        ran.expect(3);
        assert!(ran.stderr.contains("marker.json") || ran.stderr.contains("the marker"), "{what}: {}", ran.stderr);

        // It costs nobody else anything, here and in what is made of it.
        let verified = world.run(["verify", &world.sink(), "--json"]);
        let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
        let verdict = |platform: &str| {
            let checked = verified["checked"].as_array().unwrap();
            let of = |one: &&Value| one["source"].as_str().unwrap().contains(&format!("/{platform},"));
            checked.iter().find(of).unwrap_or_else(|| panic!("{what}: {verified:#}"))["verdict"].clone()
        };
        assert_eq!(verdict("good"), "whole", "{what}");
        assert!(["broken", "unreadable"].contains(&verdict("bad").as_str().unwrap()), "{what}: {verified:#}");
        let pulled = world.run(["sink", "pull", &world.sink(), "--into", "home"]);
        pulled.expect(1);
        assert!(pulled.stderr.contains("/bad,stable/") && pulled.out().contains("/good,stable/"), "{what}: {pulled:?}");
        world.run(["import", &world.sink(), "--into", "all.db"]).expect(0);
        world.run(["report", "all.db", "--gate"]).expect(3);
    }
}

#[test]
fn one_segment_that_cannot_be_read_costs_what_follows_it_and_is_named() {
    for (what, damage) in DAMAGES {
        let world = two_legs();
        let place = bad(&world);
        let last = segments(&place).pop().unwrap();
        damage(&last);
        assert_eq!(gate(&world), 1, "{what}: the marker still knows the failure");
        let ran = world.run(["verify", &world.sink()]);
        assert!(matches!(ran.code, Some(1 | 2)), "{what}: {ran:?}");
        let name = last.file_name().unwrap().to_str().unwrap();
        assert!(ran.out().contains(name) && ran.out().contains("good,stable"), "{what}: {}", ran.out());
    }
}

#[test]
fn events_that_are_all_lost_are_a_broken_leg_where_the_sink_keeps_events() {
    let world = two_legs();
    let place = bad(&world);
    segments(&place).iter().for_each(|segment| fs::remove_file(segment).unwrap());
    let ran = world.run(["verify", &world.sink()]);
    ran.expect(1);
    assert!(ran.out().contains("the segments end at 0"), "{}", ran.out());
    assert_eq!(gate(&world), 1, "the marker still knows the failure");
}

/// Without its marker nobody knows how long a leg may be silent but its own first event.
#[test]
fn silence_without_a_marker_is_judged_by_the_last_event_and_the_heartbeat() {
    for marker_is_too_large in [false, true] {
        let world = two_legs();
        let place = bad(&world);
        segments(&place).iter().skip(1).for_each(|segment| fs::remove_file(segment).unwrap());
        let marker = place.join("marker.json");
        if marker_is_too_large {
            huge(&marker)
        } else {
            fs::remove_file(&marker).unwrap()
        }
        let text = fs::read_to_string(segments(&place).pop().unwrap()).unwrap();
        let newest: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let at = ci_ledger::core::moment::Wall::parse(newest["ts"].as_str().unwrap()).unwrap();
        for (seconds, terminal) in [(89, "running"), (91, "runner-lost")] {
            let now = at.plus(ci_ledger::core::moment::Secs::from_secs(seconds)).to_string();
            let ran = world.run(["report", &world.sink(), "--json", "--now", &now]);
            let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
            let leg = row(&report, "bad");
            assert_eq!((&leg["terminal"], &leg["lease_s"]), (&terminal.into(), &90.into()), "{leg:#}");
            assert_eq!(ran.stderr.contains("marker.json: is over"), marker_is_too_large, "{}", ran.stderr);
        }
    }
}

#[test]
fn a_damaged_database_beside_a_good_one_keeps_the_gate_shut() {
    let whole = World::with(&[("a.sh", "exit 0\n")]);
    let run = |world: &World, platform: &str, target: &str| {
        world.run(["run", "--run-id", "7", "--platform", platform, "--target", target, "a.sh", "--", "sh"]).expect(0);
    };
    run(&whole, "linux-x86", "stable");
    for (what, damage) in DAMAGES {
        let world = World::with(&[("a.sh", "exit 0\n")]);
        run(&world, "linux-x86", "stable");
        run(&world, "macos-x86", "stable");
        world.run(["report", "--gate"]).expect(0);
        let damaged = files_below(&world.join(".ledger"), "db").into_iter().find(|path| path.to_string_lossy().contains("macos"));
        let damaged = damaged.unwrap();
        damage(&damaged);
        let ran = world.run(["report", "--gate"]);
        ran.expect(3);
        assert!(ran.stderr.contains(damaged.file_name().unwrap().to_str().unwrap()), "{what}: {}", ran.stderr);
        let report = world.report(["--run-id", "7", "--platform", "macos-x86"]);
        let leg = row(&report, "macos-x86");
        assert_eq!((&leg["conclusion"], &leg["run_id"]), (&"incomplete".into(), &"7".into()), "{what}: {leg:#}");
        world.run(["import", ".ledger", "--into", "all.db"]).expect(0);
        world.run(["report", "all.db", "--gate"]).expect(3);
        // The same leg again, which passes: the damaged one is older, and stands beside it.
        run(&world, "macos-x86", "stable");
        world.run(["report", "--gate"]).expect(0);
        let report = world.report::<[&str; 0], &str>([]);
        assert_eq!(row(&report, "macos-x86")["attempts"].as_array().unwrap().len(), 1, "{what}: {report:#}");
    }
    // Whatever the name: a database that holds nothing readable was some leg's.
    whole.write(".ledger/night.db", "no database at all");
    whole.run(["report", "--gate"]).expect(3);
}

#[test]
fn a_database_that_is_damaged_in_its_middle_says_what_is_left_of_it() {
    let world = World::with(&[("a.sh", "head -c 1500 /dev/zero | tr '\\0' x\nexit 0\n")]);
    world.run(["run", "--repeat", "40", "a.sh", "--", "sh"]).expect(0);
    let database = files_below(&world.join(".ledger"), "db").pop().unwrap();
    let length = fs::metadata(&database).unwrap().len();
    let pages = usize::try_from(length / 4096 / 4).unwrap() * 4096;
    fs::File::options().write(true).open(&database).unwrap().write_all_at(&vec![0xff; pages], 2 * pages as u64).unwrap();
    let ran = world.run(["report", "--gate"]);
    ran.expect(3);
    assert!(ran.stderr.contains("what comes after it is not used"), "{}", ran.stderr);
}

#[test]
fn a_source_that_cannot_be_read_hides_nothing_of_another() {
    let world = two_legs();
    let gone = "https://127.0.0.1:1/nobody";
    let ran = world.run(["report", &world.sink(), gone, "--json", "--gate"]);
    ran.expect(2);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(row(&report, "good")["conclusion"], "pass");
    assert!(ran.stderr.contains("it stays shut") && ran.stderr.contains("failed in bad|stable"), "{}", ran.stderr);
    ran.one_error("127.0.0.1:1");
    let kept = world.run(["report", gone, &world.sink(), "--format", "attempted-legs", "--out", "attempted.json"]);
    kept.expect(2);
    assert!(!world.join("attempted.json").exists() && kept.stderr.contains("attempted.json was left"), "{}", kept.stderr);
    assert!(world.run(["report", gone]).expect(2).stdout.is_empty());
}

#[test]
fn a_leg_is_brought_home_once_gone_on_with_and_never_passed_off_as_whole() {
    let world = two_legs();
    let place = bad(&world);
    let pull = || world.run(["sink", "pull", &world.sink(), "--platform", "bad", "--into", "home"]);
    let away = world.join("away");
    fs::create_dir(&away).unwrap();
    let all = segments(&place);
    assert!(all.len() > 1, "{all:?}");
    let last = all.last().unwrap();
    fs::rename(last, away.join("last")).unwrap();
    let short = pull();
    short.expect(1);
    assert!(short.stderr.contains("the sink speaks of event") && short.out().is_empty(), "{short:?}");
    // A live leg: its marker knows no more than its segments hold. Then it goes on.
    fs::rename(place.join("marker.json"), away.join("marker.json")).unwrap();
    assert!(pull().expect(0).out().contains("events are in"), "the same again is no failure");
    fs::rename(away.join("last"), last).unwrap();
    fs::rename(away.join("marker.json"), place.join("marker.json")).unwrap();
    let more = pull();
    assert!(more.expect(0).out().contains("more events"), "{}", more.out());
    world.run(["verify", "home"]).expect(0);
    let report = world.report(["home"]);
    assert_eq!(row(&report, "bad")["terminal"], "complete");
    assert!(pull().expect(0).out().contains("already"));

    // Another chain under the same name: what is here stays as it is.
    let first = fs::read_to_string(&all[0]).unwrap();
    fs::write(&all[0], first.replacen("fail.sh", "FAIL.sh", 1)).unwrap();
    let other = pull();
    other.expect(1);
    assert!(other.stderr.contains("is not the one that comes in"), "{}", other.stderr);
    world.run(["verify", "home"]).expect(0);
}
