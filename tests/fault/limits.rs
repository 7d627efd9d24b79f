//! Limits that a host sets: descriptors, processes of a user, no /proc. A run within them is truthful, or it says what is missing.

use crate::support::{Ran, World, has, outcomes};

const SUITE: [&str; 9] = ["run", "--cap", "30s", "a", "b", "--", "[", "{file}", "="];

/// A suite of a pass and a failure, run by this shell line, in which `$@` is ledger with its arguments.
fn run_in(line: &str) -> (World, Ran) {
    let world = World::with(&[("a", ""), ("b", "")]);
    // Another user must reach it.
    std::fs::copy(env!("CARGO_BIN_EXE_ledger"), world.join("ledger")).unwrap();
    let mut shell = world.program("bash", ["-c", line, "bash"]);
    shell.arg("./ledger").args(SUITE).args(["a", "]"]);
    let ran = world.finish(shell);
    (world, ran)
}

fn is_truthful(world: &World, ran: &Ran, what: &str) {
    let told = format!("{what}: exit {:?}\n{}", ran.code, ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{told}");
    match ran.code {
        Some(1) => {
            let leg = world.leg();
            assert_eq!(leg["conclusion"], "fail", "{told}");
            let rows = outcomes(&leg);
            assert_eq!(rows.len(), 2, "{told}");
            assert!(rows.iter().all(|(file, outcome)| outcome != "null" && (outcome != "pass" || file == "a")), "{rows:?} {told}");
        }
        Some(2 | 5) => assert_eq!(ran.stderr.matches("error:").count(), 1, "{told}"),
        _ => panic!("{told}"),
    }
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: only root can become a user who has no processes yet");
    }
    root
}

#[test]
fn few_descriptors_are_an_error_with_the_way_out_and_enough_are_enough() {
    for limit in (8..72).step_by(7) {
        let (world, ran) = run_in(&format!("ulimit -n {limit}; exec \"$@\""));
        is_truthful(&world, &ran, &format!("ulimit -n {limit}"));
    }
    let (_, ran) = run_in("ulimit -n 30; exec \"$@\"");
    assert!(ran.code == Some(2) && ran.stderr.contains("ulimit -n 1024"), "{}", ran.stderr);
    let (world, ran) = run_in("ulimit -n 128; exec \"$@\"");
    assert_eq!((ran.code, &outcomes(&world.leg())[0].1[..]), (Some(1), "pass"), "{}", ran.stderr);
}

#[test]
fn a_user_out_of_processes_is_told_and_the_run_stays_truthful() {
    if !is_root() || !has("setpriv") {
        return;
    }
    for limit in 1..=16 {
        let line = format!(
            "chown 64731 . a b; exec setpriv --reuid=64731 --regid=64731 --clear-groups bash -c 'ulimit -u {limit}; exec \"$@\"' bash \"$@\""
        );
        let (world, ran) = run_in(&line);
        is_truthful(&world, &ran, &format!("ulimit -u {limit}"));
    }
}

#[test]
fn without_proc_nothing_is_claimed() {
    if !is_root() || !has("unshare") {
        return;
    }
    let (world, ran) = run_in("exec unshare --mount bash -c 'mount -t tmpfs none /proc && exec \"$@\"' bash \"$@\"");
    is_truthful(&world, &ran, "no /proc");
}
