//! Sinks from outside: what they could not take, what checks leave in them, what comes home damaged.

use std::fs;

use crate::support::{World, files_below};

fn url_of(world: &World, name: &str) -> String {
    url::Url::from_file_path(world.join(name)).unwrap().into()
}

#[test]
fn what_a_sink_could_not_take_is_told_and_sent_later() {
    let world = World::with(&[("a.sh", "exit 0")]);
    let sink = url_of(&world, "share/sink");
    let ran = world.run(["run", "--sink", &sink, "a.sh", "--", "sh"]);
    assert!(ran.expect(0).stderr.contains("there is no folder") && ran.stderr.contains("ledger sink push"), "{}", ran.stderr);
    assert!(!world.join("share").exists(), "a share that is not mounted is not made");
    let checked = world.run(["sink", "check", &sink]);
    assert!(checked.expect(1).out().contains("mkdir -p"), "{}", checked.out());

    for format in ["table", "markdown"] {
        let shown = world.run(["report", "--format", format]).out();
        assert!(shown.contains("did not get") && shown.contains("ledger sink push"), "{shown}");
    }
    let failed = world.run(["sink", "push", "--sink", &sink]);
    assert!(failed.expect(1).stderr.contains("there is no folder"), "{}", failed.stderr);

    fs::create_dir(world.join("share")).unwrap();
    let pushed = world.run(["sink", "push", "--sink", &sink]);
    assert!(pushed.expect(0).out().contains("events sent"), "{}", pushed.out());
    world.run(["verify", &sink]).expect(0);
    for source in [sink.as_str(), ".ledger"] {
        let leg = world.only_leg([source]);
        let state = (&leg["terminal"], &leg["conclusion"], &leg["sinks"][0]["unsent"]);
        assert_eq!(state, (&"complete".into(), &"pass".into(), &0.into()), "{leg:#}");
    }
    let shown = world.run(["report"]).out();
    assert!(!shown.contains("did not get"), "{shown}");
    let again = world.run(["sink", "push", ".ledger", "--sink", &sink]);
    assert!(again.expect(0).out().contains("are there"), "{}", again.out());
    assert!(world.run(["sink", "push", "--sink", "bogus://x"]).expect(2).stderr.contains("no kind of sink"));
}

#[test]
fn a_copy_of_a_damaged_leg_stays_one() {
    let world = World::with(&[("a.sh", "exit 0"), ("b.sh", "exit 0")]);
    let sink = world.sink();
    world.run(["run", "--sink", &sink, "a.sh", "b.sh", "--", "sh"]).expect(0);
    let segment = files_below(&world.join("sink"), "ndjson").remove(1);
    let whole = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();

    let pull = || world.run(["sink", "pull", &sink, "--into", "copy"]);
    pull().expect(1);
    let verified = world.run(["verify", "copy"]);
    assert!(verified.expect(1).out().contains("broken"), "{}", verified.out());
    let leg = world.only_leg(["copy"]);
    let why = leg["why"].as_str().unwrap();
    assert!(why.contains("damaged") && !why.contains("died on this host"), "{leg:#}");
    assert!(world.run(["report", "copy"]).stderr.contains("it is a copy out of"));
    let reaped = world.run(["reap", "--dry-run", "--ledger", "copy"]);
    assert!(reaped.expect(0).out().contains("no dead run"), "{}", reaped.out());
    assert!(world.run(["sink", "push", "copy", "--sink", &sink]).expect(0).out().contains("it is a copy"));

    fs::write(&segment, whole).unwrap();
    pull().expect(0);
    world.run(["verify", "copy"]).expect(0);
    assert_eq!(world.only_leg(["copy"])["terminal"], "complete");

    // What the marker speaks of and no segment holds is missing in the copy, too.
    fs::remove_file(files_below(&world.join("sink"), "ndjson").pop().unwrap()).unwrap();
    world.run(["sink", "pull", &sink, "--into", "short"]).expect(1);
    assert!(world.run(["verify", "short"]).expect(1).out().contains("has had event"));
    // A ledger of this machine is no copy, whatever is pulled over it.
    world.run(["sink", "pull", &sink]);
    world.run(["verify"]).expect(0);
}

/// A check that was killed, or may delete nothing, leaves something; nobody counts it as a leg.
#[test]
fn what_a_check_left_is_no_leg() {
    let world = World::with(&[("a.sh", "exit 0")]);
    let sink = world.sink();
    let leaving = "sink/ledger-check-0192f3a4-0000-7000-8000-000000000000/1/ledger-check,sink/0192f3a4";
    for (name, text) in [("marker.json", "{"), ("000000000001.ndjson", "{\"seq\":1}\n")] {
        world.write(format!("{leaving}/{name}"), text);
    }
    let ran = world.run(["report", &sink, "--gate"]);
    assert!(!ran.out().contains("ledger-check"), "{}", ran.out());
    world.run(["run", "--sink", &sink, "a.sh", "--", "sh"]).expect(0);
    world.run(["report", &sink, "--gate"]).expect(0);
    world.run(["verify", &sink]).expect(0);
    world.run(["sink", "pull", &sink, "--into", "copy"]).expect(0);
    assert_eq!(world.report([&sink])["legs"].as_array().unwrap().len(), 1);
    world.run(["sink", "check", &sink]).expect(0);
}

#[test]
fn where_no_run_was_nothing_is_reaped() {
    let world = World::new();
    let ran = world.run(["reap"]);
    assert!(ran.expect(0).out().contains("there is no ledger folder .ledger"), "{}", ran.out());
    let ran = world.run(["reap", "--json", "--ledger", "elsewhere"]);
    let document: serde_json::Value = serde_json::from_slice(&ran.expect(0).stdout).unwrap();
    assert_eq!(document["legs"], serde_json::json!([]));
    world.write("a-file", "");
    world.run(["reap", "--ledger", "a-file"]).expect(2);
}
