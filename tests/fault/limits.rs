//! Limits that a host sets: descriptors, processes of a user, no /proc. A run within them is truthful, or it says what is missing.

use crate::support::{Ran, World, file, has, is_alive, outcomes, signal};

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

/// A ledger whose numbers are not those of /proc would signal strangers.
#[test]
fn with_the_proc_of_another_namespace_nothing_is_run() {
    if !is_root() || !has("unshare") {
        return;
    }
    let (world, ran) = run_in("exec unshare --pid --fork \"$@\"");
    ran.expect(2).one_error("another pid namespace");
    assert!(!world.join(".ledger").exists());
    let (world, ran) = run_in("exec unshare --pid --fork --mount-proc \"$@\"");
    assert_eq!((ran.code, &outcomes(&world.leg())[0].1[..]), (Some(1), "pass"), "{}", ran.stderr);
}

/// A file may do to /proc what it likes in a mount namespace that it shares with ledger; it is accounted for all the same.
#[test]
fn a_file_that_mounts_over_proc_is_swept() {
    if !is_root() || !has("unshare") {
        return;
    }
    let daemon =
        "setsid sh -c 'trap \"\" HUP; exec sleep 986' & until grep -q 986 /proc/$!/cmdline; do sleep 0.02; done; echo $! > pid";
    for over in ["mount -t tmpfs none /proc", "unshare --pid --fork mount -t proc proc /proc"] {
        let world = World::with(&[("over.sh", &format!("{daemon}; {over}"))]);
        let ledger = env!("CARGO_BIN_EXE_ledger");
        let args = ["--mount", ledger, "run", "--cap", "30", "--without-mechanism", "cgroup", "over.sh", "--", "sh"];
        let ran = world.finish(world.program("unshare", args));
        let lives = is_alive(world.pids("pid")[0]);
        if lives {
            signal(world.pids("pid")[0], "KILL");
        }
        ran.expect(0);
        let leg = world.leg();
        let row = file(&leg, "over.sh");
        assert!(!lives && row["cleanup_verified"] == true, "{over}: {row:#}");
        let leftovers = row["leftovers"].as_array().unwrap();
        assert!(leftovers.iter().any(|left| left["argv"] == "sleep 986"), "{over}: {row:#}");
    }
}

/// exec keeps what a parent ignored, and with CHLD ignored the kernel would keep every status to itself.
#[test]
fn a_parent_that_ignores_the_end_of_children_costs_no_status() {
    let (world, ran) = run_in("trap '' CHLD; exec \"$@\"");
    ran.expect(1);
    let rows = outcomes(&world.leg());
    assert_eq!(rows, [("a", "pass"), ("b", "test-failure")].map(|(file, outcome)| (file.to_owned(), outcome.to_owned())));
}

/// The signal for it would end ledger without a word.
#[test]
fn a_limit_to_the_size_of_files_is_an_error_and_no_death() {
    for blocks in [1, 100, 1000, 3000] {
        let (_, ran) = run_in(&format!("ulimit -f {blocks}; exec \"$@\""));
        assert!(matches!(ran.code, Some(2 | 5)) && ran.stderr.contains("error:"), "{blocks}: {ran:?}");
    }
    let (world, ran) = run_in("ulimit -f 100000; exec \"$@\"");
    is_truthful(&world, &ran, "ulimit -f 100000");
    // The file itself has the signal as it was.
    let world = World::with(&[("big.sh", "head -c 300000000 /dev/zero > big; exit $?")]);
    let ledger = env!("CARGO_BIN_EXE_ledger");
    let args = ["-c", "ulimit -f 100000; exec \"$0\" run --cap 60 big.sh -- sh", ledger];
    world.finish(world.program("bash", args)).expect(1);
    assert_eq!(file(&world.leg(), "big.sh")["exit_code"], 128 + 25);
}
