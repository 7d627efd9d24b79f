//! The composite action, step by step, as the runner runs it: what comes of a suite that passes, fails, hangs, is cancelled, or is a fork's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::expression::Status;
use super::files::{package, root};
use super::runner::{Fate, Machine, Outside, Scope};
use super::service::Service;

pub const LEDGER: &str = env!("CARGO_BIN_EXE_ledger");

/// Where a test is: a folder outside of every machine, and the service.
pub struct Scene {
    pub folder: tempfile::TempDir,
    pub service: Service,
}

impl Scene {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), service: Service::start() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn sink(&self) -> String {
        format!("file://{}", self.path("sink").display())
    }

    /// A run with this number on the service.
    pub fn outside(&self, run_id: u64) -> Outside {
        let mut vars = Map::new();
        vars.insert("LEDGER_SINKS".into(), json!(self.sink()));
        vars.insert("LEDGER_BINARY".into(), json!(LEDGER));
        Outside {
            folder: self.folder.path().to_owned(),
            api: self.service.url.clone(),
            run_id: run_id.to_string(),
            run_attempt: 1,
            event_name: "push".into(),
            event: json!({}),
            vars,
            extra_inputs: BTreeMap::from([("binary".into(), LEDGER.into())]),
        }
    }
}

/// A machine with these test scripts in test/.
pub fn machine<'o>(outside: &'o Outside, name: &str, files: &[(&str, &str)]) -> Machine<'o> {
    let machine = Machine::new(outside, &outside.folder.join(name), Fate::Lives);
    write_suite(&machine.workspace, files);
    machine
}

pub fn write_suite(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder.join("test")).unwrap();
    for (name, text) in files {
        fs::write(folder.join("test").join(name), text).unwrap();
    }
}

/// One step that uses the action, with these inputs.
pub fn act(machine: &mut Machine<'_>, inputs: Value) -> (Status, Scope) {
    let uses = format!("{}/ci@v{}", package("repository").replace("https://github.com/", ""), package("version"));
    let mut scope = Scope::new(machine.contexts(), None);
    let status = machine.run_steps(&[json!({"id": "suite", "uses": uses, "with": inputs})], &mut scope);
    (status, scope)
}

fn outputs(scope: &Scope) -> [String; 6] {
    ["loop-finished", "conclusion", "failed", "files-reported", "files-planned", "last-file"]
        .map(|name| scope.output("suite", name))
}

#[test]
fn a_green_suite() {
    let scene = Scene::new();
    let outside = scene.outside(1);
    let mut machine = machine(&outside, "m", &[("a.sh", "echo hello $((40 + 2))"), ("b c.sh", "env | grep -c LEDGER_IN_ || true")]);
    let given = json!({
        "files": "test/a.sh\ntest/b c.sh\n", "command": "bash {file}", "timeout-minutes": 50, "platform": "linux-x86", "target": "stable",
        "resolved": "7.23.2", "scope": "full", "sinks": scene.sink(), "heartbeat": "5s", "legs": 3, "caps": "none", "args": "--fail-fast",
    });
    let (status, scope) = act(&mut machine, given);
    assert_eq!(status, Status::Success, "{}", machine.log);
    assert_eq!(outputs(&scope), ["true", "pass", "0", "2", "2", "test/b c.sh"]);
    let left: i64 = scope.output("suite", "deadline").parse::<i64>().unwrap() - chrono::Utc::now().timestamp();
    assert!((49 * 60..=50 * 60).contains(&left), "the deadline is resolved once, at the start: {left} s are left");
    assert!(machine.log.contains("hello 42") && machine.log.contains("\n0\n"), "the tests see no inputs: {}", machine.log);
    assert!(machine.summary.contains("linux-x86"), "{}", machine.summary);
    let report = Command::new(LEDGER).args(["report", "--json", &scene.sink()]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let leg = &report["legs"][0];
    assert_eq!((&leg["resolved"], &leg["scope"], &leg["terminal"]), (&json!("7.23.2"), &json!("full"), &json!("complete")));
}

#[test]
fn a_red_suite_has_finished_its_loop() {
    let scene = Scene::new();
    let outside = scene.outside(2);
    let mut machine = machine(&outside, "m", &[("a.sh", "exit 3"), ("b.sh", "exit 0")]);
    let (status, scope) = act(&mut machine, json!({"files": "test/*.sh", "command": "bash", "sinks": scene.sink()}));
    assert_eq!(status, Status::Failure);
    assert_eq!(outputs(&scope), ["true", "fail", "1", "2", "2", "test/b.sh"]);
    assert!(machine.log.contains("::error file=test/a.sh"), "{}", machine.log);
}

#[test]
fn a_hang_is_a_timeout_and_a_spent_budget_is_none() {
    let scene = Scene::new();
    let outside = scene.outside(3);
    let mut hung = machine(&outside, "hung", &[("a.sh", "sleep 300"), ("b.sh", "exit 0")]);
    let (status, scope) = act(&mut hung, json!({"files": "test/*.sh", "command": "bash", "cap": "1", "args": "--grace=1"}));
    assert_eq!(status, Status::Failure);
    assert_eq!(outputs(&scope)[..4], ["true", "fail", "1", "2"]);
    assert!(hung.log.contains("file-watchdog-timeout"), "{}", hung.log);
    // A minute less the reserve leaves two seconds, which is less than a file may be given.
    let mut spent = machine(&outside, "spent", &[("a.sh", "exit 0")]);
    let given = json!({"files": "test/*.sh", "command": "bash", "timeout-minutes": 1, "reserve": "58", "min-viable": "5"});
    let (status, scope) = act(&mut spent, given);
    assert_eq!(status, Status::Failure);
    assert_eq!(outputs(&scope)[..4], ["false", "incomplete", "0", "0"]);
    assert!(spent.log.contains("budget"), "{}", spent.log);
}

#[test]
fn a_cancelled_run_leaves_its_record_and_nothing_else() {
    let scene = Scene::new();
    let outside = scene.outside(4);
    let text = "trap '' TERM INT\nsleep 300 & echo $! >sleeper\ntouch started\nwait; sleep 300";
    let mut machine = machine(&outside, "m", &[("a.sh", "exit 0"), ("b.sh", text), ("c.sh", "exit 0")]);
    machine.fate = Fate::CancelledAt(machine.workspace.join("started"));
    let (status, scope) = act(&mut machine, json!({"files": "test/*.sh", "command": "bash", "sinks": scene.sink()}));
    assert_eq!(status, Status::Cancelled);
    let took = machine.cancelling_took.unwrap();
    assert!(took < Duration::from_secs(7), "ledger has ended before the runner's TERM, not after {took:?}");
    // What was cancelled did not fail.
    assert_eq!(outputs(&scope)[..3], ["false", "incomplete", "0"], "{}", machine.log);
    let report = Command::new(LEDGER).args(["report", "--json", &scene.sink()]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["legs"][0]["terminal"], json!("cancelled"));
    let sleeper: i32 = fs::read_to_string(machine.workspace.join("sleeper")).unwrap().trim().parse().unwrap();
    assert!(rustix::process::test_kill_process(rustix::process::Pid::from_raw(sleeper).unwrap()).is_err(), "the tree is gone");
}

#[test]
fn a_fork_whose_token_may_only_read_runs_unharmed() {
    let scene = Scene::new();
    let outside = scene.outside(5);
    let mut machine = machine(&outside, "m", &[("a.sh", "env | grep -c ghs_ || true")]);
    let sinks = format!("github: {}", scene.sink());
    let (status, scope) = act(&mut machine, json!({"files": "test/*.sh", "command": "bash", "sinks": sinks}));
    assert_eq!(status, Status::Success, "{}", machine.log);
    assert_eq!(outputs(&scope)[..2], ["true", "pass"]);
    assert!(scene.service.refused() > 0, "the service was asked, with the token");
    assert!(machine.log.contains("403"), "and its refusal was said: {}", machine.log);
    assert!(machine.log.contains("\n0\n"), "no test sees the token: {}", machine.log);
    assert!(!machine.log.contains("ghs_"), "{}", machine.log);
}

/// Sinks may stand in ledger.toml alone; the token goes where they are read.
#[test]
fn the_token_is_handed_on_for_sinks_of_the_settings_file() {
    let scene = Scene::new();
    for (run_id, toml, args, asked) in [
        (8, "[run]\nsinks = [\"github:\"]\n", "", true),
        (9, "[run]\nsinks = ['file:///nowhere/x']\n", "", false),
        (10, "", "--sink github:", true),
        (11, "", "--config=other.toml", true),
    ] {
        let outside = scene.outside(run_id);
        let mut machine = machine(&outside, &format!("m{run_id}"), &[("a.sh", "env | grep -c ghs_ || true")]);
        fs::write(machine.workspace.join("ledger.toml"), toml).unwrap();
        fs::write(machine.workspace.join("other.toml"), "[run]\nsinks = [\"github:\"]\n").unwrap();
        let before = scene.service.refused();
        let (status, _) = act(&mut machine, json!({"files": "test/*.sh", "command": "bash", "args": args}));
        assert_eq!(status, Status::Success, "{}", machine.log);
        assert_eq!(scene.service.refused() > before, asked, "{toml}{args}: {}", machine.log);
        assert!(machine.log.contains("\n0\n") && !machine.log.contains("ghs_"), "no test sees it: {}", machine.log);
    }
}

/// What is written in an input is never run, whatever it holds.
#[test]
fn inputs_are_words_and_never_code() {
    let scene = Scene::new();
    let outside = scene.outside(6);
    let hostile = "$(touch pwned)`touch pwned`;touch pwned\"'&&touch pwned|${HOME}%PATH%";
    let one_word = hostile.replace(' ', "_");
    for name in [
        "files",
        "command",
        "platform",
        "target",
        "resolved",
        "args",
        "sinks",
        "timeout-minutes",
        "version",
        "working-directory",
        "token",
    ] {
        let mut machine = machine(&outside, name, &[("a.sh", "exit 0")]);
        let mut given = json!({"files": "test/*.sh", "command": "bash"});
        given[name] = json!(hostile);
        let (_, _) = act(&mut machine, given);
        let found = Command::new("find").arg(&machine.workspace).args(["-name", "pwned"]).output().unwrap();
        assert!(found.stdout.is_empty(), "{name}: {}", machine.log);
    }
    // And what is a word arrives whole.
    let mut machine = machine(&outside, "whole", &[("a.sh", "printf '[%s]\\n' \"$@\"")]);
    let command = format!("bash\n{{file}}\n{hostile}\n*\n-x y\n");
    let (status, _) = act(&mut machine, json!({"files": "test/a.sh", "command": command, "target": one_word}));
    assert_eq!(status, Status::Success, "{}", machine.log);
    for word in [hostile, "*", "-x y"] {
        assert!(machine.log.contains(&format!("[{word}]\n")), "{word}: {}", machine.log);
    }
}

#[test]
fn a_release_asset_is_installed_only_when_it_is_what_its_checksum_says() {
    let target = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "x86_64-unknown-linux-gnu",
        ("linux", "aarch64") => "aarch64-unknown-linux-gnu",
        ("macos", "aarch64") => "aarch64-apple-darwin",
        _ => {
            eprintln!("SKIPPED: no release asset is made for this machine");
            return;
        }
    };
    let scene = Scene::new();
    let mut outside = scene.outside(7);
    let name = format!("ledger-v{}-{target}", package("version"));
    // A program that is small to pack and says which one it is.
    let release = scene.path("release");
    fs::create_dir_all(release.join(&name)).unwrap();
    fs::write(release.join(&name).join("ledger"), format!("#!/bin/sh\nexec '{LEDGER}' \"$@\"\n")).unwrap();
    let script = format!(
        "chmod +x {name}/ledger && tar -czf {name}.tgz {name} && (sha256sum {name}.tgz || shasum -a 256 {name}.tgz) >SHA256SUMS"
    );
    assert!(Command::new("sh").args(["-c", &script]).current_dir(&release).status().unwrap().success());
    outside.extra_inputs = BTreeMap::from([("release-url".into(), format!("file://{}", release.display()))]);
    let given = json!({"files": "test/*.sh", "command": "bash", "sinks": scene.sink()});

    let mut good = machine(&outside, "good", &[("a.sh", "command -v ledger")]);
    let (status, _) = act(&mut good, given.clone());
    assert_eq!(status, Status::Success, "{}", good.log);
    assert!(good.log.contains(&format!("ledger-install/{name}/ledger\n")), "later steps find it in PATH: {}", good.log);

    // Somebody has changed it: it is neither run nor built around.
    let mut bytes = fs::read(release.join(format!("{name}.tgz"))).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(release.join(format!("{name}.tgz")), bytes).unwrap();
    let mut bad = machine(&outside, "bad", &[("a.sh", "exit 0")]);
    let (status, scope) = act(&mut bad, given.clone());
    assert_eq!((status, outputs(&scope)[0].as_str()), (Status::Failure, ""));
    assert!(bad.log.contains("::error") && bad.log.contains("was not installed"), "{}", bad.log);

    // There is none: cargo builds it, from the lock file.
    let tools = scene.path("tools");
    fs::create_dir_all(&tools).unwrap();
    let cargo = format!(
        "#!/bin/sh\necho \"cargo $*\"\nwhile [ \"$1\" != --root ]; do shift; done\nmkdir -p \"$2/bin\"\nln -s '{LEDGER}' \"$2/bin/ledger\"\n"
    );
    fs::write(tools.join("cargo"), cargo).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(tools.join("cargo")).status().unwrap().success());
    outside.extra_inputs = BTreeMap::from([("release-url".into(), format!("file://{}", scene.path("nowhere").display()))]);
    let mut built = machine(&outside, "built", &[("a.sh", "exit 0")]);
    let path = format!("echo '{}' >>\"$GITHUB_PATH\"", tools.display());
    let mut before = Scope::new(built.contexts(), None);
    built.run_steps(&[json!({"run": path})], &mut before);
    let (status, _) = act(&mut built, given);
    assert_eq!(status, Status::Success, "{}", built.log);
    assert!(
        built.log.contains(&format!("--version {} ci-ledger", package("version"))) && built.log.contains("cargo install --locked")
    );
    assert!(root().join("ci/scripts/install.ps1").exists());
}
