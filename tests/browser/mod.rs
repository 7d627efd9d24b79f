//! The page in a real browser. Needs Chromium and Node on this machine; `LEDGER_AXE` names an `axe.min.js` to check accessibility with.

use std::path::{Path, PathBuf};
use std::process::Command;

use ci_ledger::core::row::Summary;
use ci_ledger::report::html;

const CHROMIUM: &[&str] = &["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// A summary that the tests of the formats keep as a snapshot.
fn summary(name: &str) -> Summary {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/report/snapshots/ci_ledger__report__json__tests__{name}.snap"));
    let text = std::fs::read_to_string(path).unwrap();
    let json = text.splitn(3, "---\n").nth(2).unwrap();
    serde_json::from_str(json).unwrap()
}

fn drive(name: &str) {
    let Some(chromium) = CHROMIUM.iter().find(|path| Path::new(path).exists()) else {
        eprintln!("SKIPPED: the page was not driven, no Chromium at any of {CHROMIUM:?}");
        return;
    };
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the page was not driven, no node in PATH");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, html::render(&summary(name))).unwrap();
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/drive.mjs")).arg(chromium).arg(&page);
    #[expect(clippy::disallowed_methods, reason = "a test may be told where a tool is")]
    match std::env::var_os("LEDGER_AXE").map(PathBuf::from) {
        Some(axe) => drop(command.arg("--axe").arg(axe)),
        None => eprintln!("SKIPPED: accessibility was not checked, LEDGER_AXE names no axe.min.js"),
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_page_of_a_night() {
    drive("night");
}

#[test]
fn the_page_of_hostile_evidence() {
    drive("hostile");
}
