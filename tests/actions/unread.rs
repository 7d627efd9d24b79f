//! Reconcile while a sink cannot be read: what the branch holds already stays as it is.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::files::root;
use super::scenes::LEDGER;

/// The step, with this as its sinks; its outputs, and what it said.
fn reconcile(folder: &Path, sinks: &str) -> (String, String) {
    let output = folder.join("output");
    let _ = fs::remove_file(&output);
    let ran = Command::new("bash")
        .arg(root().join("ci/scripts/reconcile.sh"))
        .env_remove("GITHUB_STEP_SUMMARY")
        .env("GITHUB_OUTPUT", &output)
        .env("RUNNER_TEMP", folder)
        .env("LEDGER_IN_PROGRAM", LEDGER)
        .env("LEDGER_IN_PLAN", r#"[{"id":"linux-x86","target":"stable"}]"#)
        .env("LEDGER_IN_SINKS", sinks)
        .env("LEDGER_IN_RUN_ID", "777")
        .env("LEDGER_IN_BRANCH", "ci-data")
        .env("LEDGER_IN_REMOTE", folder.join("remote.git"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "reconcile is never red");
    (fs::read_to_string(output).unwrap(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[test]
fn what_is_known_stays_while_a_sink_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder.join("remote.git")).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    fs::create_dir(folder.join("remote.git")).unwrap();
    git(&["init", "-q", "--bare"]);
    for name in ["a.sh", "b.sh"] {
        fs::write(folder.join(name), "exit 0").unwrap();
    }
    let sink = format!("file://{}", folder.join("sink").display());
    let args =
        ["run", "--run-id", "777", "--platform", "linux-x86", "--target", "stable", "--sink", &sink, "a.sh", "b.sh", "--", "sh"];
    assert!(Command::new(LEDGER).args(args).current_dir(folder).output().unwrap().status.success());

    let (outputs, said) = reconcile(folder, &sink);
    assert!(outputs.contains("pushed=true") && outputs.contains("gate=0"), "{outputs}{said}");
    let kept = git(&["show", "ci-data:runs/777-linux-x86-stable.ndjson"]);
    assert_eq!(kept.lines().count(), 3, "{kept}");

    // The share is gone for a moment.
    fs::rename(folder.join("sink"), folder.join("away")).unwrap();
    let (outputs, said) = reconcile(folder, &sink);
    assert!(outputs.contains("pushed=false") && !outputs.contains("rerun="), "{outputs}{said}");
    assert!(said.contains("cannot be read") && said.contains("stays as it is"), "{said}");
    assert_eq!(git(&["rev-list", "--count", "ci-data"]).trim(), "1");

    // It is back, and a part of it cannot be read: the richer record stays.
    fs::rename(folder.join("away"), folder.join("sink")).unwrap();
    let all = crate::support::files_below(&folder.join("sink"), "ndjson");
    let marker = crate::support::files_below(&folder.join("sink"), "json").into_iter().find(|path| path.ends_with("marker.json"));
    fs::remove_file(marker.unwrap()).unwrap();
    for segment in &all[1..] {
        fs::write(segment, "damaged\n").unwrap();
    }
    reconcile(folder, &sink);
    assert_eq!(git(&["show", "ci-data:runs/777-linux-x86-stable.ndjson"]), kept, "{}", json!(all));
}
