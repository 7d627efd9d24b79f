//! Two reconcile jobs at the same moment, on one data branch, again and again: every run's rows are there at the end.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::files::root;
use super::scenes::LEDGER;

/// `LEDGER_RACE_ROUNDS` asks for more.
const ROUNDS: u32 = 3;

/// One reconcile job of a run with one leg that passed and one that never started.
fn reconcile(folder: &Path, remote: &Path, run: u32) -> Child {
    let machine = folder.join(format!("m{run}"));
    fs::create_dir_all(machine.join("evidence")).unwrap();
    let suite = json!({"kind": "suite", "ts": format!("2026-11-{:02}T10:00:00.000Z", run % 28 + 1), "run_id": run.to_string(), "sha": "5ca1ab1e",
        "platform": "linux-x86", "host": "h", "scope": "full", "conclusion": "pass", "target": format!("7.1.{run}"), "files": 1, "failed": 0});
    fs::write(machine.join("evidence/leg.ndjson"), format!("{suite}\n")).unwrap();
    let plan = json!([{"id": "linux-x86", "target": format!("7.1.{run}")}, {"id": "macos-x86", "target": format!("7.1.{run}")}]);
    let output = machine.join("output");
    Command::new("bash")
        .arg(root().join("ci/scripts/reconcile.sh"))
        .env_remove("GITHUB_STEP_SUMMARY")
        .env("GITHUB_OUTPUT", &output)
        .env("RUNNER_TEMP", &machine)
        .env("LEDGER_IN_PROGRAM", LEDGER)
        .env("LEDGER_IN_PLAN", plan.to_string())
        .env("LEDGER_IN_SINKS", machine.join("evidence").display().to_string())
        .env("LEDGER_IN_RUN_ID", run.to_string())
        .env("LEDGER_IN_BRANCH", "ci-data")
        .env("LEDGER_IN_REMOTE", remote)
        .stdin(Stdio::null())
        .stdout(fs::File::create(machine.join("log")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn two_that_push_at_once_lose_nothing() {
    let rounds = std::env::var("LEDGER_RACE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let folder = tempfile::tempdir().unwrap();
    let remote = folder.path().join("remote.git");
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&remote).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    fs::create_dir(&remote).unwrap();
    git(&["init", "-q", "--bare"]);
    let began = std::time::Instant::now();
    for round in 0..rounds {
        let runs = [1000 + 2 * round, 1001 + 2 * round];
        for (run, mut child) in runs.map(|run| (run, reconcile(folder.path(), &remote, run))) {
            assert!(child.wait().unwrap().success(), "reconcile is never red");
            let machine = folder.path().join(format!("m{run}"));
            let output = fs::read_to_string(machine.join("output")).unwrap();
            let log = fs::read_to_string(machine.join("log")).unwrap();
            assert!(output.contains("pushed=true") && output.contains("gate=3"), "run {run}: {output}\n{log}");
        }
    }
    let read = |name: &str| serde_json::from_str::<Value>(&git(&["show", &format!("ci-data:{name}")])).unwrap();
    let (attempted, tested) = (read("attempted-legs.json"), read("tested-versions.json"));
    let kept = git(&["ls-tree", "--name-only", "ci-data", "runs/"]);
    for run in 1000..1000 + 2 * rounds {
        let entry = &attempted[run.to_string()];
        assert_eq!((&entry["planned"], &entry["complete"]), (&json!(2), &json!(1)), "run {run}: {entry}");
        let lost = &entry["incomplete"][format!("macos-x86|7.1.{run}")];
        assert_eq!(lost["terminal"], json!("not-started"), "run {run}: {entry}");
        let row = &tested[format!("7.1.{run}")];
        assert_eq!(row["linux-x86"]["conclusion"], json!("pass"), "run {run}: {row}");
        assert!(kept.contains(&format!("runs/{run}-linux-x86-")), "run {run}: {kept}");
    }
    let commits = git(&["rev-list", "--count", "ci-data"]);
    assert_eq!(commits.trim(), (2 * rounds).to_string(), "one commit for each run");
    println!(
        "{rounds} rounds of two: all {} runs are there, {:.1} s a round",
        2 * rounds,
        began.elapsed().as_secs_f64() / f64::from(rounds)
    );
}
