//! ledger is killed, stopped, or starts twice: what the evidence says, and what is left on the machine.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::proc::driver::ENVIRONMENTS;
use crate::support::{Started, World, is_alive, outcomes, within};

const HANG: &str = "echo 'test seven begins'; (trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; echo $$ > inner; while :; do sleep 1; done') & \
     while [ ! -s inner ]; do sleep 0.02; done; echo $$ $(cat inner) > tmp; mv tmp pids; sleep 1000";

fn started(files: &[(&str, &str)], more: &[&str]) -> (World, Started) {
    let world = World::with(files);
    let sink = world.sink();
    let args = ["run", "--heartbeat", "0.5", "--run-id", "R", "--sink", sink.as_str()].into_iter().chain(more.iter().copied());
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let ledger = world.start(world.ledger(args.chain(names).chain(["--", "sh"])));
    (world, ledger)
}

/// `--now` that many seconds from now.
fn in_seconds(seconds: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (now.as_secs() + seconds).to_string()
}

#[test]
fn killed_in_mid_file_the_sink_alone_says_how_far_it_got() {
    let (world, mut ledger) = started(&[("one.sh", "exit 0"), ("hang.sh", HANG), ("three.sh", "exit 0")], &[]);
    let pids = world.pids("pids");
    let sink = world.sink();
    within("a heartbeat carries the last output", Duration::from_secs(20), || {
        world.only_leg([&sink])["last_output"].as_str().is_some_and(|text| text.contains("test seven begins"))
    });
    ledger.signal("KILL");
    let gone = within("the tree is gone", Duration::from_secs(3), || pids.iter().all(|pid| !is_alive(*pid)));
    eprintln!("tree gone {gone:?} after ledger was killed");
    ledger.status();

    // Here, on the very host and boot of the writer, its ledger says so at once.
    let here = world.leg();
    assert_eq!((&here["terminal"], &here["conclusion"]), (&"attempted-incomplete".into(), &"incomplete".into()), "{here:#}");

    std::fs::rename(world.join(".ledger"), world.join("gone")).unwrap();
    let waiting = world.only_leg([&sink]);
    assert_eq!(waiting["terminal"], "running", "{waiting:#}");
    let lost = world.only_leg([sink.as_str(), "--now", &in_seconds(3600)]);
    assert_eq!((&lost["terminal"], &lost["conclusion"]), (&"runner-lost".into(), &"incomplete".into()), "{lost:#}");
    assert_eq!((&lost["last_file"], &lost["current_file"]), (&"one.sh".into(), &"hang.sh".into()));
    assert_eq!((&lost["files_planned"], &lost["files_reported"]), (&3.into(), &1.into()));
    assert!(lost["last_output"].as_str().unwrap().contains("test seven begins") && lost["last_host"].is_object(), "{lost:#}");
    assert_eq!(lost["files"].as_array().unwrap().len(), 3, "{lost:#}");

    // The next run starts clean, and a copy that comes home is said once.
    world.run(["run", "one.sh", "--", "sh"]).expect(0);
    std::fs::remove_dir_all(world.join(".ledger")).unwrap();
    std::fs::rename(world.join("gone"), world.join(".ledger")).unwrap();
    let first = world.run(["run", "one.sh", "--", "sh"]);
    assert!(first.expect(0).stderr.contains("recovered: run R"), "{}", first.stderr);
    let second = world.run(["run", "one.sh", "--", "sh"]);
    assert!(!second.expect(0).stderr.contains("recovered"), "{}", second.stderr);
    world.run(["verify"]).expect(0);
}

#[test]
fn silence_is_waited_for_as_long_as_the_lease() {
    let (world, mut ledger) = started(&[("hang.sh", HANG)], &[]);
    world.pids("pids");
    ledger.signal("KILL");
    ledger.status();
    let began = Instant::now();
    let lost = world.only_leg([world.sink().as_str(), "--wait-lease"]);
    assert_eq!(lost["terminal"], "runner-lost");
    assert!(began.elapsed() > Duration::from_secs(8), "a lease is ten seconds and more: {:?}", began.elapsed());
}

#[test]
fn a_writer_that_stands_still_is_lost_and_its_own_record_counts_when_it_returns() {
    let script = "echo $$ > pids; while [ ! -e go ]; do sleep 0.05; done; echo done";
    let (world, ledger) = started(&[("one.sh", "exit 0"), ("two.sh", script)], &[]);
    world.pids("pids");
    ledger.signal("STOP");
    let sink = world.sink();
    let lost = world.only_leg([sink.as_str(), "--now", &in_seconds(3600)]);
    assert_eq!((&lost["terminal"], &lost["current_file"]), (&"runner-lost".into(), &"two.sh".into()), "{lost:#}");

    // The same leg once more, under an epoch of its own.
    world.write("go", "");
    world.run(["run", "--run-id", "R", "--sink", &sink, "one.sh", "two.sh", "--", "sh"]).expect(0);
    let both = world.only_leg([sink.as_str(), "--now", &in_seconds(3600)]);
    assert_eq!((&both["terminal"], &both["attempts"][0]["terminal"]), (&"complete".into(), &"runner-lost".into()), "{both:#}");

    ledger.signal("CONT");
    ledger.end().expect(0);
    for leg in [world.leg(), world.only_leg([sink.as_str(), "--now", &in_seconds(3600)])] {
        assert_eq!(leg["terminal"], "complete");
        let first = &leg["attempts"][0];
        assert_eq!(
            (&first["terminal"], &first["conclusion"], &first["files_reported"]),
            (&"complete".into(), &"pass".into(), &2.into()),
            "{leg:#}"
        );
        assert_ne!(first["epoch"], leg["epoch"]);
    }
    world.run(["verify"]).expect(0);
    world.run(["verify", &sink]).expect(0);
}

#[cfg(target_os = "linux")]
#[test]
fn both_killed_the_next_start_ends_what_is_left() {
    let _readable = ENVIRONMENTS.blocking_lock();
    let (world, mut ledger) = started(&[("hang.sh", &format!("echo $PPID > owner; {HANG}"))], &[]);
    let pids = world.pids("pids");
    let owner = world.pids("owner")[0];
    crate::support::signal(owner, "STOP");
    ledger.signal("KILL");
    ledger.status();
    crate::support::signal(owner, "KILL");
    assert!(pids.iter().all(|pid| is_alive(*pid)), "nobody is there to end them");
    let dry = world.run(["reap", "--dry-run", "--json"]);
    let told: Value = serde_json::from_slice(&dry.expect(0).stdout).unwrap();
    for leftover in told["legs"][0]["leftovers"].as_array().unwrap() {
        assert!(leftover["fate"].is_null(), "nobody has tried: {leftover}");
        let age = leftover["age_s"].as_f64().unwrap() * 1000.0;
        assert!((age - age.round()).abs() < 1e-6, "{leftover}");
    }
    assert!(dry.out().contains(&pids[1].to_string()) || dry.stderr.contains(&pids[1].to_string()), "{dry:?}");
    assert!(pids.iter().all(|pid| is_alive(*pid)), "a dry run kills nothing");
    world.write("ok.sh", "exit 0");
    let ran = world.run(["run", "ok.sh", "--", "sh"]);
    ran.expect(0);
    assert!(ran.stderr.contains("recovered: run R"), "{}", ran.stderr);
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{}", ran.stderr);
}

/// A `sleep 987` that no ledger ends: it does not stay, whatever the test comes to.
pub struct Daemon(pub u32);

impl Drop for Daemon {
    fn drop(&mut self) {
        // By then its number may be somebody else's.
        if std::fs::read_to_string(format!("/proc/{}/cmdline", self.0)).is_ok_and(|line| line.contains("987")) {
            let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).status();
        }
    }
}

/// A daemon that the dead run was told to spare outlives ledger, recovery and reap, whoever ended the rest. (`tail -f` ends by itself when
/// nobody reads its pipe any more.)
#[cfg(target_os = "linux")]
#[test]
fn a_daemon_that_a_dead_run_spares_is_left_alone_by_all() {
    let _readable = ENVIRONMENTS.blocking_lock();
    let script = "echo $PPID > owner; setsid sh -c 'echo $$ > daemon; exec sleep 987' & while [ ! -s daemon ]; do sleep 0.02; done; \
         tail -f /dev/null > /dev/null & echo $! $(cat daemon) > tmp; mv tmp pids; wait";
    let flag: &[&str] = &["--allow-leftover", "sleep"];
    // The dead run said so, and its owner or the next run finds that out; or only the next run says so.
    for (kill_owner_too, dead_flag, next_flag) in [(false, flag, &[][..]), (true, flag, &[]), (true, &[], flag)] {
        let (world, mut ledger) = started(&[("hang.sh", script)], dead_flag);
        let pids = world.pids("pids");
        let (tail, daemon) = (pids[0], pids[1]);
        let _daemon = Daemon(daemon);
        within("the daemon is itself", Duration::from_secs(20), || {
            std::fs::read_to_string(format!("/proc/{daemon}/comm")).is_ok_and(|name| name.trim() == "sleep")
        });
        let owner = world.pids("owner")[0];
        if kill_owner_too {
            crate::support::signal(owner, "STOP");
        }
        ledger.signal("KILL");
        ledger.status();
        if kill_owner_too {
            crate::support::signal(owner, "KILL");
        }
        within("the owner has ended", Duration::from_secs(20), || !is_alive(owner));
        assert!(is_alive(daemon) && is_alive(tail) == kill_owner_too);
        world.write("ok.sh", "exit 0");
        let ran = world.run([&["run"], next_flag, &["ok.sh", "--", "sh"]].concat());
        let told = &ran.expect(0).stderr;
        let line = told.lines().find(|line| line.contains("recovered: run R")).unwrap_or_else(|| panic!("{told}"));
        assert!(
            line.contains(&format!("nothing of it is found any more but what --allow-leftover spares: sleep (pid {daemon})")),
            "{line}"
        );
        assert_eq!(line.contains("were still alive"), kill_owner_too, "{line}");
        assert_eq!(line.contains(&format!("when ledger died, and spared sleep (pid {daemon})")), !kill_owner_too, "{line}");
        assert!(is_alive(daemon) && !is_alive(tail), "{line}");
        for args in [["reap", "--dry-run"].as_slice(), &["reap"], &["reap"]] {
            let reaped = world.run(args);
            assert!(reaped.expect(0).out().contains(&format!("sleep (pid {daemon}")), "{reaped:?}");
            assert!(is_alive(daemon), "{reaped:?}");
        }
    }
}

/// What reap ends is on the leg's record, once; and nothing of the dead run stays, its empty groups included.
#[cfg(target_os = "linux")]
#[test]
fn what_reap_ended_is_on_record_and_the_second_time_nothing_is_left() {
    let _readable = ENVIRONMENTS.blocking_lock();
    let (world, mut ledger) = started(&[("one.sh", "exit 0"), ("hang.sh", &format!("echo $PPID > owner; {HANG}"))], &[]);
    let pids = world.pids("pids");
    let owner = world.pids("owner")[0];
    ledger.signal("STOP");
    crate::support::signal(owner, "KILL");
    // The owner that was started ahead is in no record, and its group is there too.
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", ledger.pid())).unwrap();
    let names = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ledger-owner");
    let ahead: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(names).collect();
    ahead.iter().for_each(|pid| crate::support::signal(*pid, "KILL"));
    ledger.signal("KILL");
    ledger.status();
    within("the owners have ended", Duration::from_secs(20), || ahead.iter().all(|pid| !is_alive(*pid)));
    let first = world.run(["reap"]);
    assert!(first.expect(0).out().contains("still alive and ended now, and nothing of it is found any more"), "{first:?}");
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{first:?}");
    let second = world.run(["reap"]);
    assert!(second.expect(0).out().trim_end().ends_with("; nothing of it is found any more"), "{second:?}");
    assert!(second.out().contains("`ledger reap` ended"), "{second:?}");
    assert!(!second.out().contains("were still alive"), "{second:?}");
    let leg = world.leg();
    let leftovers = crate::support::file(&leg, "hang.sh")["leftovers"].as_array().unwrap();
    for pid in &pids {
        let left = leftovers.iter().find(|left| left["pid"] == *pid).unwrap_or_else(|| panic!("{pid} is not named in {leg:#}"));
        assert!(["killed", "terminated"].contains(&left["fate"].as_str().unwrap()) && left["argv"].is_null(), "{left:#}");
    }
    let notes = leg["notes"].as_array().unwrap();
    let told: Vec<&Value> = notes.iter().filter(|note| note["kind"] == "recovered").collect();
    assert!(told.len() == 1 && told[0]["text"].as_str().unwrap().starts_with("`ledger reap` ended"), "{leg:#}");
    // What has been told is not told again.
    let ran = world.run(["run", "one.sh", "--", "sh"]);
    assert!(!ran.expect(0).stderr.contains("recovered"), "{}", ran.stderr);
    let leaves = leaves();
    let ours = |name: &String| ahead.iter().chain([&owner]).any(|pid| name.starts_with(&format!("ledger-{pid}-")));
    assert!(!leaves.iter().any(ours), "{leaves:?} are still there");
}

/// The groups beside this process that a ledger may have made.
fn leaves() -> Vec<String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|mount| std::fs::read_dir(format!("{mount}{group}")));
    let entries = folders.into_iter().flatten().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.starts_with("ledger-")).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_owner_costs_its_file_and_not_the_loop() {
    let (world, ledger) = started(&[("hang.sh", &format!("echo $PPID > owner; {HANG}")), ("next.sh", "exit 0")], &[]);
    let pids = world.pids("pids");
    crate::support::signal(world.pids("owner")[0], "KILL");
    ledger.end().expect(1);
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    let leg = world.leg();
    let row = crate::support::file(&leg, "hang.sh");
    assert_eq!(
        (&row["outcome"], &row["cleanup_verified"], &row["exit_code"]),
        (&"crash".into(), &true.into(), &Value::Null),
        "{row:#}"
    );
    assert_eq!(crate::support::file(&leg, "next.sh")["outcome"], "pass");
}

#[test]
fn a_damaged_sink_costs_what_is_damaged() {
    let world = World::with(&[("a.sh", "exit 0"), ("b.sh", "exit 0")]);
    let sink = world.sink();
    world.run(["run", "--sink", &sink, "a.sh", "b.sh", "--", "sh"]).expect(0);
    world.run(["verify", &sink]).expect(0);
    let script =
        "for f in $(find sink -name '0*.ndjson' | sort | tail -1); do sed -i.old 's/\"seq\":/\"sEq\":/' $f; rm $f.old; done";
    assert!(Command::new("sh").args(["-c", script]).current_dir(world.path()).status().unwrap().success());
    assert_eq!(world.run(["verify", &sink]).code, Some(1));
    let ran = world.run(["report", &sink]);
    assert!(ran.expect(0).stderr.contains("warning"), "{}", ran.stderr);
}

/// `--resume` goes on with the leg that was cut off, and with no other: another leg's passes would be told as this one's.
#[test]
fn only_the_same_leg_is_gone_on_with() {
    let once = "[ -e again ] || { touch again; echo $$ > pid; sleep 1000; }\n";
    let world = World::with(&[("a.sh", "exit 0\n"), ("c.sh", once)]);
    let of_run = |more: &[&str]| {
        let common = ["run", "--platform", "p", "--repeat", "2", "--cap", "60s"];
        common.iter().chain(more).chain(&["a.sh", "c.sh", "--", "sh"]).map(|&word| word.to_owned()).collect::<Vec<_>>()
    };
    let begun = ["--run-id", "100", "--target", "1.0", "--resolved", "1.0.0", "--sha", "aaaa"];
    let mut ledger = world.start(world.ledger(of_run(&begun)));
    let hanging = world.pids("pid");
    ledger.signal("KILL");
    ledger.status();
    within("the tree is gone", Duration::from_secs(10), || hanging.iter().all(|pid| !is_alive(*pid)));

    let others: [(&[&str], &str); 6] = [
        (&["--resume", "--run-id", "200", "--target", "1.0"], "is not run 200, attempt 1"),
        (&["--resume", "--run-id", "100", "--attempt", "2", "--target", "1.0"], "is not run 100, attempt 2"),
        (&["--resume", "--target", "2.0"], "is not p|2.0"),
        (&["--resume", "--target", "1.0", "--resolved", "1.0.1"], "tests another resolved version"),
        (&["--resume", "--target", "1.0", "--sha", "bbbb"], "tests another commit"),
        (&["--resume", "--target", "1.0", "--repeat", "3"], "has another number of rounds"),
    ];
    for (more, why) in others {
        let mut words = of_run(more);
        if more.contains(&"--repeat") {
            words.drain(3..5);
        }
        let ran = world.run(words);
        ran.expect(2);
        ran.one_error(&format!("nothing to resume: run 100 attempt 1 p|1.0 {why}"));
    }
    let other_command =
        world.run(["run", "--resume", "--platform", "p", "--target", "1.0", "--repeat", "2", "a.sh", "c.sh", "--", "bash"]);
    other_command.expect(2);
    other_command.one_error("was run by 'sh'");

    let shown = world.run(of_run(&["--resume", "--dry-run", "--target", "1.0"])).out();
    assert!(shown.starts_with("run 100") && shown.contains("1 on record already"), "{shown}");
    world.run(of_run(&["--resume", "--target", "1.0"])).expect(0);
    let leg = world.only_leg([] as [&str; 0]);
    assert_eq!(
        (leg["run_id"].as_str(), leg["files_planned"].as_u64(), leg["files_reported"].as_u64()),
        (Some("100"), Some(4), Some(4))
    );
}

/// Only ledger is stopped, and its files run on: what they took is not what ledger slept.
#[test]
fn a_file_that_ended_while_ledger_was_stopped_took_its_own_time() {
    const STANDS: Duration = Duration::from_secs(3);
    let world = World::with(&[("a.sh", "echo $$ > pid; until [ -e go ]; do sleep 0.02; done; touch gone\n")]);
    let mut ledger = world.start(world.ledger(["run", "--cap", "60s", "a.sh", "--", "sh"]));
    world.pids("pid");
    ledger.signal("STOP");
    world.write("go", "");
    within("the file ends", Duration::from_secs(20), || world.join("gone").exists());
    // Nothing is waited for here: that ledger stands for a while is the case itself.
    let ended = Instant::now();
    std::thread::sleep(STANDS);
    ledger.signal("CONT");
    assert!(ledger.status().success());
    let leg = world.leg();
    let (took, slept) = (leg["files"][0]["duration_s"].as_f64().unwrap(), ended.elapsed().as_secs_f64());
    let all = leg["duration_s"].as_f64().unwrap();
    assert!(
        took < all - STANDS.as_secs_f64() / 2.0,
        "the file took {took} s of {all} s, of which ledger was stopped for {slept} s at most"
    );
}

/// Whatever a run makes, orderly or not, only its user may read: the ledger, its logs, what its owners and the next start write down.
#[cfg(unix)]
#[test]
fn all_that_is_made_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (world, mut ledger) = started(&[("hang.sh", HANG), ("one.sh", "exit 0")], &["--logs", "kept/logs"]);
    let pids = world.pids("pids");
    let everything = |world: &World| -> Vec<(std::path::PathBuf, u32)> {
        let mut open = ["kept", ".ledger", "sink"].map(|name| world.join(name)).to_vec();
        let mut modes = Vec::new();
        while let Some(path) = open.pop() {
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            modes.push((path, metadata.permissions().mode() & 0o077));
        }
        modes
    };
    let open_to_others = |world: &World| everything(world).into_iter().filter(|(_, mode)| *mode != 0).collect::<Vec<_>>();
    assert!(everything(&world).iter().any(|(path, _)| path.extension().is_some_and(|extension| extension == "obituary")));
    assert_eq!(open_to_others(&world), [], "while it runs");
    ledger.signal("KILL");
    ledger.status();
    within("the tree is gone", Duration::from_secs(10), || pids.iter().all(|pid| !is_alive(*pid)));
    world.run(["run", "one.sh", "--logs", "kept/logs", "--", "sh"]).expect(0);
    assert!(everything(&world).iter().any(|(path, _)| path.extension().is_some_and(|extension| extension == "recovered")));
    assert_eq!(open_to_others(&world), [], "after the next start");
}

/// Neither a leaf nor a token leads to it: it was seen to descend from the file, and that is on record.
#[cfg(target_os = "linux")]
#[test]
fn both_killed_without_a_cgroup_what_has_shed_its_token_is_found_by_its_record() {
    let _readable = ENVIRONMENTS.blocking_lock();
    let hang = "env -i setsid sh -c 'echo $$ > bare; while :; do sleep 1; done' & \
                until [ -s bare ]; do sleep 0.02; done; echo $PPID $(cat bare) > tmp; mv tmp pids; sleep 1000";
    let (world, mut ledger) = started(&[("hang.sh", hang)], &["--without-mechanism", "cgroup"]);
    let pids = world.pids("pids");
    let (owner, bare) = (pids[0], pids[1]);
    within("it is in the obituary", Duration::from_secs(20), || {
        let obituary = crate::support::files_below(&world.join(".ledger"), "obituary");
        std::fs::read_to_string(&obituary[0]).unwrap().contains(&format!("\"pid\":{bare},"))
    });
    ledger.signal("STOP");
    crate::support::signal(owner, "KILL");
    ledger.signal("KILL");
    ledger.status();
    assert!(is_alive(bare));
    let reaped = world.run(["reap"]);
    assert!(reaped.expect(0).out().contains("still alive and ended now"), "{}", reaped.out());
    within("it is gone", Duration::from_secs(5), || !is_alive(bare));
}

/// A step's shell starts a display and becomes ledger: the display is ledger's child, and nobody's orphan.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_ledger_came_with_outlives_the_death_of_an_owner() {
    let world = World::with(&[("hang.sh", &format!("echo $PPID > owner; {HANG}")), ("next.sh", "exit 0")]);
    let step = "sleep 1000 & echo $! > display; exec \"$0\" run hang.sh next.sh -- sh";
    let ledger = world.start(world.program("sh", ["-c", step, env!("CARGO_BIN_EXE_ledger")]));
    let (display, pids) = (world.pids("display")[0], world.pids("pids"));
    crate::support::signal(world.pids("owner")[0], "KILL");
    ledger.end().expect(1);
    let lives = is_alive(display);
    crate::support::signal(display, "KILL");
    assert!(lives && pids.iter().all(|pid| !is_alive(*pid)));
    let leg = world.leg();
    let row = crate::support::file(&leg, "hang.sh");
    let named = row["leftovers"].as_array().unwrap().iter().any(|left| left["pid"] == display);
    assert!(!named && row["cleanup_verified"] == true, "{row:#}");
}

/// What such a child starts later lands on ledger, as an orphan of the owner would. Nobody can tell, so nobody is killed and nothing proved.
#[cfg(target_os = "linux")]
#[test]
fn what_a_child_that_ledger_came_with_has_orphaned_outlives_the_death_of_an_owner() {
    let wait = "until [ -s stranger ]; do sleep 0.02; done";
    let world = World::with(&[("ends.sh", &format!("{wait}; kill -KILL $PPID; sleep 1000")), ("next.sh", "exit 0")]);
    let helper = "until ls .ledger/*.db > /dev/null 2>&1; do sleep 0.02; done; sleep 0.5; \
        setsid sh -c 'echo $$ > tmp; mv tmp stranger; exec sleep 985' &";
    let step = format!("( {helper} ) & exec \"$0\" run ends.sh next.sh -- sh");
    let ledger = world.start(world.program("sh", ["-c", &step, env!("CARGO_BIN_EXE_ledger")]));
    let stranger = world.pids("stranger")[0];
    let ran = ledger.end();
    let lives = is_alive(stranger);
    crate::support::signal(stranger, "KILL");
    ran.expect(1);
    let leg = world.leg();
    let row = crate::support::file(&leg, "ends.sh");
    assert!(lives && row["cleanup_verified"].is_null(), "{row:#}");
    assert!(row["notes"].to_string().contains("was orphaned onto ledger"), "{row:#}");
    assert_eq!(crate::support::file(&leg, "next.sh")["cleanup_verified"], true);
}

/// As root a file can put its owner, or ledger, into its own group; they would stand still and end with it.
#[cfg(target_os = "linux")]
#[test]
fn an_owner_and_a_ledger_that_a_file_draws_into_its_group_leave_it() {
    let draw = |whom: &str| {
        format!(
            "setsid sh -c 'exec sleep 984' & until grep -q 984 /proc/$!/cmdline; do sleep 0.02; done
             group=$(sed -n 's/^0:://p' /proc/$$/cgroup)
             for mount in /sys/fs/cgroup /sys/fs/cgroup/unified; do
                 [ -e $mount$group/cgroup.procs ] && echo {whom} > $mount$group/cgroup.procs; done
             exit 0"
        )
    };
    let (own, ledger) = (draw("$PPID"), draw("$(cut -d' ' -f4 /proc/$PPID/stat)"));
    let world = World::with(&[("1-owner.sh", &own), ("2-ledger.sh", &ledger), ("3-next.sh", "exit 0")]);
    world.run(["run", "--cap", "50", "1-owner.sh", "2-ledger.sh", "3-next.sh", "--", "sh"]).expect(0);
    let leg = world.leg();
    for name in ["1-owner.sh", "2-ledger.sh"] {
        let row = crate::support::file(&leg, name);
        let leftovers = row["leftovers"].as_array().unwrap();
        let named: Vec<&str> = leftovers.iter().filter_map(|left| left["argv"].as_str()).collect();
        assert_eq!((named, &row["cleanup_verified"]), (vec!["sleep 984"], &true.into()), "{row:#}");
    }
}

/// A file can stop its owner, once or again and again, and the one that waits for the next file.
#[test]
fn a_stopped_owner_holds_nothing_up() {
    let spare = "for pid in $(cat /proc/$(awk '{ print $4 }' /proc/$PPID/stat)/task/*/children); do \
                 [ $pid = $PPID ] || kill -STOP $pid; done";
    let always =
        "(trap '' TERM HUP; end=$(($(date +%s) + 60)); while [ $(date +%s) -lt $end ]; do kill -STOP $PPID; done) & sleep 1000";
    let world = World::with(&[
        ("1-own.sh", "kill -STOP $PPID; exit 7"),
        ("2-spare.sh", spare),
        ("3-next.sh", "exit 0"),
        ("4-always.sh", always),
        ("5-last.sh", "exit 0"),
    ]);
    let ledger = world.start(world.ledger(["run", "--cap", "2", "--grace", "0.5", "*.sh", "--", "sh"]));
    ledger.end_within(Duration::from_secs(180)).expect(1);
    let leg = world.leg();
    let outcomes = crate::support::outcomes(&leg);
    let outcomes: Vec<(&str, &str)> = outcomes.iter().map(|(name, outcome)| (name.as_str(), outcome.as_str())).collect();
    let wanted = [
        ("1-own.sh", "test-failure"),
        ("2-spare.sh", "pass"),
        ("3-next.sh", "pass"),
        ("4-always.sh", "file-watchdog-timeout"),
        ("5-last.sh", "pass"),
    ];
    assert_eq!(outcomes, wanted, "{leg:#}");
    assert!(leg["files"].as_array().unwrap().iter().all(|row| row["cleanup_verified"] == true), "{leg:#}");
}

/// The owner of the next file waits beside the running one, and a test that kills it must not make the next file pay.
#[test]
fn an_owner_that_is_killed_before_its_file_costs_nobody_anything() {
    let killer = "ledger=$(cut -d' ' -f4 /proc/$PPID/stat); until [ $(cat /proc/$ledger/task/*/children | wc -w) -ge 2 ]; do sleep 0.01; done; \
        for pid in $(cat /proc/$ledger/task/*/children); do [ $pid = $PPID ] && continue; echo $pid > ahead; kill -KILL $pid; \
        while grep -q 'State:.[^ZX]' /proc/$pid/status; do sleep 0.01; done; done";
    let world = World::with(&[("killer.sh", killer), ("next.sh", "echo ran; exit 3"), ("last.sh", "exit 0")]);
    let ran = world.run(["run", "--cap", "50", "killer.sh", "next.sh", "last.sh", "--", "sh"]);
    ran.expect(1);
    assert_eq!(ran.out(), "ran\n");
    assert!(ran.stderr.contains("warning: the owner process of the next file was killed before its start"), "{}", ran.stderr);
    assert!(!leaves().iter().any(|name| name.starts_with(&format!("ledger-{}-", world.pids("ahead")[0]))), "{:?}", leaves());
    let told = outcomes(&world.leg());
    let expect = [("killer.sh", "pass"), ("next.sh", "test-failure"), ("last.sh", "pass")];
    assert_eq!(told, expect.map(|(file, outcome)| (file.to_owned(), outcome.to_owned())));
}
