//! `ledger run --resume` alone: the plan, its rounds and its command are on record.

use std::time::Duration;

use crate::support::{Ran, World, is_alive, within};

/// Hangs once, and tells each of its ends.
const ONCE: &str = "[ -e again ] || { touch again; echo $$ > pid; sleep 1000; }; echo \"b $WITH\" >> told\n";
const LISTED: &str = "echo \"${0##*/} $WITH\" >> told\n";

/// A folder in which a run of these words was killed in its second file.
fn cut_off(words: &[&str]) -> World {
    let world = World::with(&[("a.sh", LISTED), ("b.sh", ONCE), ("odd[1].sh", LISTED), ("other.sh", "exit 0\n")]);
    let mut ledger = world.start(world.ledger(["run", "--cap", "60"].iter().chain(words)));
    let hanging = world.pids("pid");
    ledger.signal("KILL");
    ledger.status();
    within("the tree is gone", Duration::from_secs(20), || hanging.iter().all(|pid| !is_alive(*pid)));
    world
}

fn resume(world: &World, more: &[&str]) -> Ran {
    world.run(["run", "--resume", "--cap", "60"].iter().chain(more))
}

#[test]
fn alone_it_goes_on_with_the_recorded_plan_and_command() {
    let begun = ["--run-id", "100", "--target", "1.0", "--resolved", "1.0.0", "--sha", "aaaa", "--repeat", "2"];
    let files = ["a.sh", "b.sh", "odd[1].sh", "--", "env", "WITH=it", "sh"];
    let world = cut_off(&[&begun[..], &files].concat());
    // Neither a later run of other files nor what the settings file names now is in the way.
    world.run(["run", "--run-id", "101", "--cap", "60", "other.sh", "--", "sh"]).expect(0);
    world.write("ledger.toml", "[run]\nfiles = [\"other.sh\"]\ncommand = [\"bash\"]\nrepeat = 7\n");
    assert_eq!(world.read("told"), "a.sh it\n");

    let rehearsed = resume(&world, &["--dry-run"]);
    let shown = rehearsed.expect(0).out();
    assert!(shown.starts_with("run 100 attempt 1 ") && shown.contains("|1.0 (3 files, 1 on record already"), "{shown}");
    resume(&world, &["--target", "2.0"]).expect(2).one_error("is not linux");
    resume(&world, &["--repeat", "3"]).expect(2).one_error("has another number of rounds");
    resume(&world, &["--", "bash"]).expect(2).one_error("was run by 'env WITH=it sh'");
    assert_eq!(world.read("told"), "a.sh it\n");

    let ran = resume(&world, &[]);
    assert!(ran.expect(0).stderr.contains("ledger: resumes run 100 attempt 1"), "{}", ran.stderr);
    assert_eq!(world.read("told"), "a.sh it\nb it\nodd[1].sh it\n".repeat(2));
    let leg = world.only_leg(["--run-id", "100"]);
    let planned = (leg["files_planned"].as_u64(), leg["files_reported"].as_u64());
    assert_eq!((planned, leg["terminal"].as_str()), ((Some(6), Some(6)), Some("complete")), "{leg:#}");
    assert_eq!((leg["sha"].as_str(), leg["resolved"].as_str()), (Some("aaaa"), Some("1.0.0")), "{leg:#}");

    // It came to its end, and what it continued is not gone back to.
    resume(&world, &[]).expect(2).one_error("nothing to resume: no unfinished leg is in");
}

#[test]
fn what_is_recorded_and_cannot_be_used_is_named() {
    let files = ["a.sh", "b.sh", "odd[1].sh", "--", "sh"];
    let world = cut_off(&files);
    std::fs::rename(world.join("odd[1].sh"), world.join("away")).unwrap();
    let gone = resume(&world, &[]);
    gone.expect(2).one_error("cannot be resumed: no such test file: 'odd[1].sh'");
    assert!(gone.stderr.contains("bring it back"), "{}", gone.stderr);
    std::fs::rename(world.join("away"), world.join("odd[1].sh")).unwrap();
    // What has its record is not run again, so it need not be there.
    std::fs::remove_file(world.join("a.sh")).unwrap();
    resume(&world, &[]).expect(0);

    let secret = ["env", "API_TOKEN=abcdefgh12", "sh"];
    let world = cut_off(&[&files[..4], &secret].concat());
    resume(&world, &[])
        .expect(2)
        .one_error("on record with a part of it hidden; write it again, `ledger run --resume -- COMMAND...`");
    resume(&world, &[&["--"], &secret[..]].concat()).expect(0);

    let world = cut_off(&[&["--for", "8h"], &files[..]].concat());
    resume(&world, &[]).expect(2).one_error("write that again, for example `ledger run --resume --for 8h`");
    resume(&world, &["--for", "1"]).expect(0);

    World::new().run(["run", "--resume"]).expect(2).one_error("nothing to resume: there is no ledger in");
}
