//! The n-th write, flush, rename, start, read of a whole run fails, in every process and thread of it at once: never a panic, never a
//! false green, never a lost acknowledged event, always a truthful exit code. `strace` makes the system calls fail.
//!
//! By default a few n of each call; `LEDGER_TEST_FAULTS=all` takes every n until the call is not made that often, and prints the counts.

use std::path::Path;
use std::process::Command;

use ci_ledger::core::ids::Seq;
use ci_ledger::store::Reader;

use crate::support::{World, files_below, has, outcomes};

/// The calls that a run stands on, and an error that a real system gives for them. A limit of descriptors, which meets them all alike, is
/// in `limits.rs`.
const CALLS: [(&str, &str); 19] = [
    ("write", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("fdatasync", "EIO"),
    ("fsync", "EIO"),
    ("ftruncate", "EIO"),
    ("openat", "EMFILE"),
    ("openat", "EACCES"),
    ("read", "EIO"),
    ("pread64", "EIO"),
    ("newfstatat", "EIO"),
    ("getdents64", "EIO"),
    ("rename", "EIO"),
    ("linkat", "EPERM"),
    ("mkdir", "ENOSPC"),
    ("unlink", "EIO"),
    ("clone3", "EAGAIN"),
    ("execve", "ENOMEM"),
    ("pipe2", "EMFILE"),
];

const A_FEW: [u32; 3] = [2, 9, 31];

#[test]
fn whichever_system_call_fails_the_run_stays_truthful() {
    if !has("strace") {
        return;
    }
    let all = std::env::var("LEDGER_TEST_FAULTS").is_ok_and(|asked| asked == "all");
    let (mut total, mut broken) = (0, 0);
    for (call, error) in CALLS {
        let mut injected = 0;
        for n in if all { (1..2000).collect() } else { A_FEW.to_vec() } {
            match std::panic::catch_unwind(|| run(call, error, n)) {
                Ok(0) => break,
                Ok(hits) => injected += hits,
                Err(_) => broken += 1,
            }
        }
        total += injected;
        if all {
            println!("{call} {error}: {injected} faults");
        }
    }
    assert_eq!(broken, 0, "runs that were not truthful are told above");
    assert!(total > 20, "only {total} faults were injected");
}

/// One run in which the n-th call of each thread fails; how many did. The program under test reads no script: a shell that cannot read
/// its own ends with 0, which would be its false green.
fn run(call: &str, error: &str, n: u32) -> usize {
    let world = World::with(&[("a", ""), ("b", "")]);
    let sink = world.sink();
    let ran = world.finish(traced(&world, call, error, n, &sink));
    let injected = world.read("trace").lines().filter(|line| line.contains("INJECTED")).count();
    // The kernel fails no write into a counter, and the async runtime relies on that.
    if ran.stderr.contains("failed to wake I/O driver") {
        return injected;
    }
    // Before there is a ledger: the loader did not get its libraries.
    if ran.stderr.contains("error while loading shared libraries") && !world.join(".ledger").exists() {
        return injected;
    }
    let told = format!("{call} {error}, n = {n}: exit {:?}\n{}", ran.code, ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{told}");
    let code = ran.code.unwrap_or_else(|| panic!("{told}"));
    assert!([1, 2, 5].contains(&code), "{told}");
    let legs = legs(&world);
    for leg in &legs {
        for (file, outcome) in outcomes(leg) {
            assert!(outcome != "pass" || file == "a", "false green of {file}: {told}");
        }
    }
    if code == 1 {
        let leg = legs.first().unwrap_or_else(|| panic!("no leg: {told}"));
        assert_eq!((&leg["terminal"], &leg["conclusion"]), (&"complete".into(), &"fail".into()), "{told}");
        assert!(outcomes(leg).iter().all(|(_, outcome)| outcome != "null"), "{told}");
    }
    everything_that_is_outside_is_inside(&world, &told);
    let left = processes_in(world.path());
    assert!(left.is_empty(), "{left:?} are left: {told}");
    injected
}

fn traced(world: &World, call: &str, error: &str, n: u32, sink: &str) -> Command {
    let mut traced = world.program("strace", ["-f", "--seccomp-bpf", "-qq", "-o", "trace"]);
    traced.arg(format!("--trace={call}")).arg(format!("--inject={call}:error={error}:when={n}"));
    traced
        .arg(env!("CARGO_BIN_EXE_ledger"))
        .args(["run", "--cap", "30s", "--sink", sink, "a", "b", "--", "[", "{file}", "=", "a", "]"]);
    traced
}

/// The legs of the ledger folder; none where the run ended before there was one.
fn legs(world: &World) -> Vec<serde_json::Value> {
    let ran = world.run(["report", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    report["legs"].as_array().cloned().unwrap_or_default()
}

/// An event that a sink took was acknowledged before, and is in the ledger; and the ledger hangs together.
fn everything_that_is_outside_is_inside(world: &World, told: &str) {
    let lines = |folder: &str| -> Vec<String> {
        let found = files_below(&world.join(folder), "ndjson").into_iter();
        found.flat_map(|path| std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let outside = lines("sink");
    let databases = files_below(&world.join(".ledger"), "db");
    let mut inside = std::collections::BTreeSet::new();
    for path in &databases {
        let ran = world.run([Path::new("verify"), path]);
        assert_eq!(ran.code, Some(0), "{told}\n{}{}", ran.out(), ran.stderr);
        let reader = Reader::open(path).unwrap();
        inside.extend(reader.lines_after(Seq(0)).filter_map(|line| line.unwrap().line));
    }
    for line in outside {
        assert!(inside.contains(&line), "the sink has an event that the ledger has not: {line}\n{told}");
    }
}

/// Processes that stand in this folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let here = entries.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)));
    here.map(|process| process.display().to_string()).collect()
}
