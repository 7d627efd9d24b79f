//! What files leave behind: gone after their file, named in its row, and nobody else's process is touched.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::deaths::Daemon;
use crate::support::{World, file, has, is_alive, within};

/// A process of this test's own, ended with it.
struct Foreign(Child);

impl Foreign {
    fn start(program: &str, args: &[&str]) -> Self {
        Self(Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const QEMU: [&str; 5] = ["-display", "none", "-machine", "none", "-nodefaults"];

#[test]
fn a_daemonized_qemu_is_gone_after_its_file_and_a_foreign_one_lives() {
    if !has("qemu-system-x86_64") {
        return;
    }
    let qemu = format!("qemu-system-x86_64 {} -daemonize", QEMU.join(" "));
    let world =
        World::with(&[("pass.sh", &format!("{qemu}; exit 0")), ("hung.sh", &format!("{qemu}; sleep 1000")), ("next.sh", "exit 0")]);
    let foreign = Foreign::start("qemu-system-x86_64", &QEMU);
    world.run(["run", "--cap", "3", "pass.sh", "hung.sh", "next.sh", "--", "sh"]).expect(1);
    let leg = world.leg();
    for (name, outcome) in [("pass.sh", "pass"), ("hung.sh", "file-watchdog-timeout"), ("next.sh", "pass")] {
        let row = file(&leg, name);
        assert_eq!((&row["outcome"], &row["cleanup_verified"]), (&outcome.into(), &true.into()), "{row:#}");
        let leftovers = row["leftovers"].as_array().unwrap();
        let qemus: Vec<_> = leftovers.iter().filter(|left| left["exe"] == "qemu-system-x86_64").collect();
        assert_eq!(qemus.len(), usize::from(name != "next.sh"), "{row:#}");
        for left in qemus {
            assert!(!is_alive(u32::try_from(left["pid"].as_u64().unwrap()).unwrap()));
            assert!(
                left["argv"].as_str().unwrap().contains("-daemonize") && left["age_s"].is_number() && left["rss_mib"].is_number(),
                "{left:#}"
            );
        }
        let foreigns: Vec<_> = row["foreign"].as_array().unwrap().iter().map(|other| other["pid"].as_u64().unwrap()).collect();
        assert!(foreigns.contains(&u64::from(foreign.0.id())), "{name} does not count the foreign one: {row:#}");
    }
    assert!(is_alive(foreign.0.id()));
}

#[test]
fn real_bun_tests_run_one_by_one() {
    if !has("bun") {
        return;
    }
    let test =
        |expect: u32| format!("import {{ test, expect }} from 'bun:test';\ntest('one', () => {{ expect(1).toBe({expect}); }});\n");
    let world = World::with(&[("t/a.test.ts", &test(1)), ("t/b.test.ts", &test(2))]);
    world.run(["run", "--cap", "50", "t/*.test.ts", "--", "bun", "test", "./{file}"]).expect(1);
    let leg = world.leg();
    assert_eq!(file(&leg, "t/a.test.ts")["outcome"], "pass");
    let failed = file(&leg, "t/b.test.ts");
    assert!(failed["outcome"] == "test-failure" && failed["last_output"].as_str().unwrap().contains("1 fail"), "{failed:#}");
}

#[test]
fn every_way_out_ends_within_cap_and_grace_and_a_second() {
    let suite = [
        ("term.sh", "trap '' TERM; while :; do sleep 1; done"),
        ("double-fork.sh", "(setsid sh -c 'setsid sleep 1000 & exit' &); sleep 1000"),
        ("no-environment.sh", "env -i setsid sh -c 'sleep 1000' & sleep 1000"),
        ("stopped.sh", "env -i setsid sh -c 'kill -STOP $$' & kill -STOP $$"),
        ("nested.sh", "timeout 900 timeout 900 sh -c 'timeout 900 sleep 1000 & sleep 1000'"),
        ("closes.sh", "exec >&- 2>&- ; sleep 1000"),
    ];
    let world = World::with(&suite);
    world.run(["run", "--cap", "1", "--grace", "1", "*.sh", "--", "sh"]).expect(1);
    let leg = world.leg();
    for (name, _) in suite {
        let row = file(&leg, name);
        assert_eq!((&row["outcome"], &row["cleanup_verified"]), (&"file-watchdog-timeout".into(), &true.into()), "{row:#}");
        // Cap, grace, a second, and what a machine adds that is busy with ten times as much. Each of them would take a thousand.
        assert!(row["duration_s"].as_f64().unwrap() < 60.0, "{row:#}");
        for left in row["leftovers"].as_array().unwrap() {
            assert!(!is_alive(u32::try_from(left["pid"].as_u64().unwrap()).unwrap()), "{left:#}");
        }
    }
    assert_eq!(file(&leg, "term.sh")["escalated"], true);
    assert_eq!(file(&leg, "term.sh")["signal"], 9);
}

#[test]
fn leftovers_of_a_pass_warn_fail_or_are_spared() {
    // Before it has become sleep it bears the name of the shell.
    let script =
        "setsid sleep 987 >/dev/null 2>&1 & echo $! > pid; until grep -q ^sleep /proc/$!/cmdline; do sleep 0.02; done; exit 0";
    let world = World::with(&[("a.sh", script)]);
    let table: &[(&[&str], i32, &str, &str)] = &[
        (&[], 0, "pass", "terminated"),
        (&["--leftovers", "fail"], 1, "test-failure", "terminated"),
        (&["--leftovers", "fail", "--allow-leftover", "sle*"], 0, "pass", "allowed"),
    ];
    for (flags, code, outcome, fate) in table {
        let args =
            ["run", "--run-id", fate, "--target", outcome].into_iter().chain(flags.iter().copied()).chain(["a.sh", "--", "sh"]);
        let ran = world.run(args);
        let pid = world.pids("pid")[0];
        let _daemon = Daemon(pid);
        ran.expect(*code);
        let report = world.report(["--run-id", *fate, "--target", *outcome]);
        let row = file(&report["legs"][0], "a.sh").clone();
        assert_eq!(row["outcome"], *outcome, "{row:#}");
        assert_eq!(row["leftovers"][0]["fate"], *fate, "{row:#}");
        assert_eq!(is_alive(pid), *fate == "allowed");
        std::fs::remove_file(world.join("pid")).unwrap();
    }
}

#[test]
fn two_ledgers_reap_their_own_only() {
    let world = World::with(&[
        ("a.sh", "setsid sleep 1000 & echo $! > a-pid; while [ ! -e a-go ]; do sleep 0.05; done"),
        ("b.sh", "setsid sleep 1000 & echo $! > b-pid; exit 0"),
    ]);
    let first = world.start(world.ledger(["run", "--run-id", "same", "a.sh", "--", "sh"]));
    let a = world.pids("a-pid")[0];
    world.run(["run", "--run-id", "same", "b.sh", "--", "sh"]).expect(0);
    assert!(is_alive(a) && !is_alive(world.pids("b-pid")[0]));
    world.write("a-go", "");
    first.end().expect(0);
    within("its own is gone too", Duration::from_secs(5), || !is_alive(a));
    let leg = world.leg();
    assert_eq!(leg["attempts"].as_array().unwrap().len(), 1, "one leg, two epochs: {leg:#}");
    world.run(["verify"]).expect(0);
}

#[test]
fn a_file_has_no_input_and_a_clean_start() {
    let world = World::with(&[("in.sh", "cat | wc -c; [ -n \"$LEDGER_TOKEN\" ] && echo token")]);
    // A file that waited for its input would meet its cap.
    let ran = world.run(["run", "--cap", "20", "in.sh", "--", "sh"]);
    ran.expect(0);
    assert_eq!(ran.out().split_whitespace().collect::<Vec<_>>(), ["0", "token"]);
}

/// Unknown is never clean, and never silent.
#[test]
fn a_sweep_that_proves_nothing_is_told() {
    let world = World::with(&[("a.sh", "exit 0"), ("b.sh", "exit 0")]);
    let weak = ["--without-mechanism", "cgroup", "--without-mechanism", "subreaper"];
    let ran = world.run(["run", "--cap", "50"].iter().chain(&weak).chain(&["a.sh", "b.sh", "--", "sh"]));
    ran.expect(0);
    assert!(file(&world.leg(), "a.sh")["cleanup_verified"].is_null());
    for name in ["a.sh", "b.sh"] {
        let warned = format!("ledger: warning: whether anything of '{name}' is left could not be proved (");
        assert_eq!(ran.stderr.matches(&warned).count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("{name}: cleanup could not be proved")), "{}", ran.stderr);
    }
    assert!(ran.stderr.contains(", whether anything of it is left is unknown, the last file"), "{}", ran.stderr);
    for format in ["table", "markdown", "html"] {
        assert!(world.run(["report", "--format", format]).out().contains("cleanup could not be proved"), "{format}");
    }
    let mut command = world.ledger(["run", "--cap", "50"].iter().chain(&weak).chain(&["a.sh", "--", "sh"]));
    command.env("GITHUB_ACTIONS", "true");
    let ran = world.finish(command);
    assert!(
        ran.stderr.contains("::warning title=ledger::whether anything of 'a.sh' is left could not be proved"),
        "{}",
        ran.stderr
    );
}
