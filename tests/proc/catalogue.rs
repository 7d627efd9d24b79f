//! Every program of `tests/children`, run by the built ledger, with each mechanism of owning a tree forced off in turn. What is in force
//! may change how something is found and what is proved; it may not change how a file ended, nor leave anything behind unsaid.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ci_ledger::core::process::ProcessId;
use ci_ledger::host::deliver::{Signal, deliver};
use serde_json::{Value, json};

use crate::support::{World, file, has, until};

/// How one program must end.
struct Case {
    name: &'static str,
    outcome: &'static str,
    exit: Option<i32>,
    signal: Option<i32>,
    leaves: Leaves,
}

enum Leaves {
    Nothing,
    /// Something with this in its command line or program name.
    Named(&'static str),
    /// The same, and nothing but the closure or the leaf can know that it is ours.
    Bare(&'static str),
    /// Some of it may be gone before it is looked at.
    Perhaps,
}
use Leaves::{Bare, Named, Nothing, Perhaps};

const fn ends(name: &'static str, outcome: &'static str, exit: Option<i32>, signal: Option<i32>, leaves: Leaves) -> Case {
    Case { name, outcome, exit, signal, leaves }
}

const fn passes(name: &'static str, leaves: Leaves) -> Case {
    ends(name, "pass", Some(0), None, leaves)
}

/// Has to be ended at its cap, its leader by this signal.
const fn hangs(name: &'static str, signal: i32, leaves: Leaves) -> Case {
    ends(name, "file-watchdog-timeout", None, Some(signal), leaves)
}

const KILL: i32 = 9;
const SEGV: i32 = 11;
const TERM: i32 = 15;

const CASES: [Case; 35] = [
    hangs("ignores_term.sh", KILL, Perhaps),
    hangs("ignores_every_signal.py", KILL, Named("ignores_every_signal")),
    hangs("spins.py", TERM, Nothing),
    hangs("stops_itself.sh", KILL, Nothing),
    hangs("nested_timeout.sh", TERM, Named("timeout")),
    hangs("forks_when_asked_to_end.py", KILL, Named("forks_when_asked")),
    hangs("floods.py", TERM, Nothing),
    hangs("closes_its_streams.sh", TERM, Perhaps),
    ends("passes_when_asked_to_end.sh", "file-watchdog-timeout", Some(0), None, Perhaps),
    passes("double_fork.sh", Named("sleep 60")),
    passes("qemu_daemon.sh", Named("qemu-system-x86_64")),
    passes("qemu_spins.sh", Named("boot.img")),
    passes("stopped_without_environment.sh", Bare("kill -STOP")),
    passes("leader_ends_first.sh", Named("sleep 60")),
    passes("holds_output.sh", Named("sleep 60")),
    ends("fails_and_holds_output.sh", "test-failure", Some(1), None, Named("sleep 60")),
    passes("closer.py", Named("closer.py")),
    passes("zombies.py", Nothing),
    passes("main_thread_gone.py", Named("python3")),
    passes("listener.py", Named("listener.py")),
    passes("hopper.py", Perhaps),
    passes("false_pid_file.sh", Nothing),
    passes("short_lives.sh", Perhaps),
    ends("exits_137.sh", "test-failure", Some(137), None, Nothing),
    ends("exits_124.sh", "test-failure", Some(124), None, Nothing),
    ends("kills_itself.sh", "crash", None, Some(KILL), Nothing),
    ends("kills_its_group.sh", "crash", None, Some(KILL), Perhaps),
    ends("segfaults.py", "crash", None, Some(SEGV), Nothing),
    passes("own_subreaper.py", Named("own_subreaper.py")),
    passes("odd_name.py", Named("odd_name.py")),
    passes("pid_namespace.sh", Named("sleep 60")),
    passes("leaves_its_cgroup.sh", Named("sleep 60")),
    passes("crowd.sh", Named("sleep 60")),
    passes("ignores_hangup.sh", Named("sleep 60")),
    ends("reads_input.sh", "test-failure", Some(3), None, Nothing),
];

/// The rest of the catalogue has tests of its own: the first two below, the families where ends are timed, the sleeper where strangers are.
const ELSEWHERE: [&str; 5] = ["build_server.sh", "fork_bomb.py", "family.py", "family.sh", "uninterruptible.py"];

/// What is switched off, and what is then said to be in force.
const WAYS: [(&[&str], &str); 9] = [
    (&[], "cgroup+subreaper"),
    (&["cgroup-kill"], "cgroup+subreaper"),
    (&["session"], "cgroup+subreaper"),
    (&["token"], "cgroup+subreaper"),
    (&["descendant"], "cgroup+subreaper"),
    (&["cgroup"], "subreaper"),
    (&["cgroup", "children"], "subreaper"),
    (&["subreaper"], "cgroup+session+token+descendant"),
    (&["cgroup", "subreaper"], "session+token+descendant"),
];

/// A folder with the catalogue in it; everything that is started here has it for its working folder, or names it.
fn world() -> World {
    let world = World::new();
    for child in std::fs::read_dir(children()).unwrap().map(|entry| entry.unwrap().path()) {
        let copy = world.join(child.file_name().unwrap());
        std::fs::copy(&child, &copy).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let hung = CASES.iter().filter(|case| case.outcome == "file-watchdog-timeout");
    let caps: serde_json::Map<String, Value> =
        hung.map(|case| (case.name.to_owned(), json!({"n": 1, "worst_s": 1, "cap_s": 2}))).collect();
    let policy =
        json!({"estimator": "max", "multiplier": 2, "headroom_s": 0, "floor_s": 60, "ceiling_s": 60, "round_s": 1, "per": "file"});
    let caps = json!({"v": 1, "derived_at": "2026-01-01T00:00:00Z", "window": {"runs": [], "records": 1}, "policy": policy, "files": caps});
    world.write("caps.json", &caps.to_string());
    world
}

fn children() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/children")
}

/// Whoever still has the folder for its working folder, or a file in it on its command line.
fn still_there(world: &World) -> Vec<ProcessId> {
    let folder = world.path().canonicalize().unwrap();
    let named = folder.to_string_lossy().into_owned();
    let found = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let pid: i32 = path.file_name()?.to_str()?.parse().ok()?;
        let stat = ci_ledger::host::process::stat(pid).ok().filter(|stat| !stat.is_gone())?;
        let argv = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let is_there = std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))
            || String::from_utf8_lossy(&argv).contains(&named);
        is_there.then_some(stat.id)
    });
    found.collect()
}

/// What is wrong with a row.
fn wrong(case: &Case, row: &Value, held: bool) -> Option<&'static str> {
    let leftovers = row["leftovers"].as_array().unwrap();
    let names = |left: &Value, part: &str| {
        ["argv", "exe", "comm"].iter().any(|key| left[*key].as_str().is_some_and(|text| text.contains(part)))
    };
    let fates = ["terminated", "killed", "exited"];
    let ended = (&row["outcome"], &row["exit_code"], &row["signal"]);
    // Unknown is null, and never true.
    let verified = if held { json!(true) } else { Value::Null };
    let needed_kill = case.outcome == "file-watchdog-timeout" && case.signal == Some(KILL);
    let is_named = match case.leaves {
        Nothing => leftovers.is_empty(),
        Named(part) => leftovers.iter().any(|left| names(left, part)),
        Bare(part) => !held || leftovers.iter().any(|left| names(left, part)),
        Perhaps => true,
    };
    [
        ("its end", ended == (&json!(case.outcome), &json!(case.exit), &json!(case.signal))),
        ("its proof", row["cleanup_verified"] == verified),
        ("no escalation", row["escalated"] == true || !needed_kill),
        ("too long a list", leftovers.len() <= ci_ledger::host::tree::LISTED),
        ("a fate", leftovers.iter().all(|left| fates.contains(&left["fate"].as_str().unwrap()))),
        ("no reason", leftovers.iter().all(|left| left["ours_by"].is_string() && left["pid"].is_number())),
        ("its leftovers", is_named),
    ]
    .into_iter()
    .find_map(|(what, holds)| (!holds).then_some(what))
}

/// Whoever is there is ended by the test; who that was is the answer.
fn end_what_was_missed(world: &World) -> Vec<String> {
    let missed = still_there(world);
    let named = |id: &ProcessId| {
        let stat = ci_ledger::host::process::stat(id.pid);
        format!("{id:?} {:?} {:?}", stat.map(|stat| (stat.comm, stat.state, stat.ppid)), ci_ledger::host::process::argv(id.pid))
    };
    let names = missed.iter().map(named).collect();
    for &id in &missed {
        let _ = deliver(id, Signal::Kill);
    }
    until("what was missed is gone", || still_there(world).is_empty());
    names
}

#[test]
fn every_program_with_every_mechanism_forced_off_in_turn() {
    let has_qemu = has("qemu-system-x86_64");
    let cases: Vec<&Case> = CASES.iter().filter(|case| has_qemu || !case.name.starts_with("qemu")).collect();
    // They wait more than they compute, so all ways run at once.
    let running = WAYS.map(|(off, containment)| {
        let world = world();
        let mut command = world.ledger(["run", "--caps", "caps.json", "--grace", "0.5"]);
        command.args(off.iter().flat_map(|name| ["--without-mechanism", name]));
        command.args(cases.iter().map(|case| case.name));
        let ledger = world.start(command);
        // Each is waited for at once: the library in this process takes in a child that nobody has claimed for ten seconds.
        let ran = std::thread::spawn(move || ledger.end_within(Duration::from_secs(300)));
        (ran, world, off.join("+"), containment)
    });
    let mut complaints = Vec::new();
    for (ran, world, way, containment) in running {
        let ran = ran.join().unwrap();
        let missed = end_what_was_missed(&world);
        ran.expect(1);
        let leg = world.leg();
        assert_eq!(leg["files_reported"], cases.len(), "without {way}");
        let mut misses_none = true;
        for case in &cases {
            let row = file(&leg, case.name);
            let in_force = row["containment"].as_str().unwrap();
            // A host where no leaf can be made has the rest of the words.
            let wanted = if in_force.contains("cgroup") { containment } else { containment.trim_start_matches("cgroup+") };
            assert_eq!(in_force, wanted, "without {way}: {row:#}");
            let held = in_force.contains("subreaper");
            let short =
                json!([row["outcome"], row["exit_code"], row["signal"], row["cleanup_verified"], row["leftovers"], row["notes"]]);
            complaints.extend(wrong(case, row, held).map(|what| format!("without {way}, {}: {what}: {short}", case.name)));
            // Every program that leaves its leaf keeps its token.
            misses_none &= held || in_force.contains("cgroup");
        }
        if misses_none && !missed.is_empty() {
            complaints.push(format!("without {way}: missed: {missed:?}"));
        }
        assert!(file(&leg, "fails_and_holds_output.sh")["last_output"].as_str().unwrap().contains("the reason of the failure"));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_catalogue_is_whole() {
    let mut listed: Vec<&str> = CASES.iter().map(|case| case.name).chain(ELSEWHERE).collect();
    let mut there: Vec<String> =
        std::fs::read_dir(children()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    listed.sort_unstable();
    there.sort_unstable();
    assert_eq!(there, listed);
}

#[test]
fn a_daemon_that_is_meant_to_live_is_spared_by_its_name_under_every_mechanism() {
    for (off, _) in WAYS {
        let world = world();
        let mut command = world.ledger(["run", "--allow-leftover", "*build_server*", "--leftovers", "fail", "build_server.sh"]);
        command.args(off.iter().flat_map(|name| ["--without-mechanism", name]));
        let ran = world.finish(command);
        let lives = !end_what_was_missed(&world).is_empty();
        ran.expect(0);
        let leg = world.leg();
        let row = file(&leg, "build_server.sh");
        let fates: Vec<&Value> = row["leftovers"].as_array().unwrap().iter().map(|left| &left["fate"]).collect();
        assert!(lives && fates == ["allowed"; 2], "without {off:?}: {row:#}");
    }
}

/// What the test's own control group allows: the kernel's limit is reached, and then all of it is gone.
#[test]
fn a_fork_bomb_within_a_limit_is_gone() {
    bomb(500, "1", &[&[], &["cgroup"], &["cgroup", "children"]]);
}

/// Two thousand that rest, and two thousand that want to run all the time, so that nothing else on this machine does.
#[test]
#[ignore = "takes the whole machine for a minute; run by hand, with --nocapture for the times"]
fn a_fork_bomb_that_takes_the_whole_machine_is_gone() {
    for pause in ["1", "0.05"] {
        bomb(2000, pause, &[&[], &["cgroup"], &["cgroup", "children"]]);
    }
}

fn bomb(most: u32, pause: &str, ways: &[&[&str]]) {
    let Some(limit) = PidsLimit::make(most) else { return };
    for off in ways {
        let world = world();
        let mut command = world.ledger(["run", "--grace", "0.5", "fork_bomb.py"]);
        command.args(off.iter().flat_map(|name| ["--without-mechanism", name]));
        command.args(["--", "python3", "{file}"]).arg(&limit.group).arg(pause);
        let ledger = world.start(command);
        until("the limit is reached", || limit.count() == most);
        let began = std::time::Instant::now();
        ledger.signal("TERM");
        let ran = ledger.end_within(Duration::from_secs(60));
        eprintln!("{most} gone and ledger ended {:?} after TERM, without {off:?}", began.elapsed());
        assert_eq!((ran.code, limit.count()), (Some(143), 0), "without {off:?}: {}", ran.stderr);
        let leg = world.leg();
        let row = file(&leg, "fork_bomb.py");
        assert_eq!((&row["cleanup_verified"], &row["escalated"]), (&true.into(), &true.into()), "without {off:?}: {row:#}");
        assert_eq!(row["leftovers"].as_array().unwrap().len(), ci_ledger::host::tree::LISTED, "the rest is counted: {row:#}");
    }
}

/// A control group of this test's own that holds at most so many processes: needs root, and the pids controller where it may be used.
struct PidsLimit {
    group: PathBuf,
}

impl PidsLimit {
    fn make(most: u32) -> Option<Self> {
        let group = Path::new("/sys/fs/cgroup/pids").join(format!("ledger-test-{}", std::process::id()));
        if std::fs::create_dir(&group).is_err() {
            eprintln!("SKIPPED: no pids controller of cgroup v1 that this user may use");
            return None;
        }
        std::fs::write(group.join("pids.max"), most.to_string()).unwrap();
        Some(Self { group })
    }

    fn count(&self) -> u32 {
        std::fs::read_to_string(self.group.join("pids.current")).unwrap().trim().parse().unwrap()
    }
}

impl Drop for PidsLimit {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.group);
    }
}
