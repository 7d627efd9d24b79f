//! Views for people: trend, watch, the page, completions, man pages.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SHARED: &str = "/work/shared/ci-data";

fn ledger(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn has_shared() -> bool {
    let has = Path::new(SHARED).exists();
    if !has {
        eprintln!("SKIPPED: {SHARED} is not on this machine");
    }
    has
}

/// A folder with a leg that ran: one file passes, one fails.
fn ran() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.sh"), "echo fine\n").unwrap();
    std::fs::write(folder.path().join("bad.sh"), "printf '<b>\\033[31m::error::no\\n'; exit 1\n").unwrap();
    let output = ledger(folder.path(), &["run", "--caps", "none", "--cap", "60", "good.sh", "bad.sh", "--", "sh"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

#[test]
fn trend_on_public_data() {
    if !has_shared() {
        return;
    }
    let here = Path::new(".");
    let read = |arguments: &[&str]| -> Value { serde_json::from_str(&text(&ledger(here, arguments))).unwrap() };
    let all = ["trend", SHARED, "--json", "--target", "stable", "--against", "linux-x86", "--legs", "1", "--platform"];
    let whole = read(&[&all[..], &["macos-arm64"]].concat());
    let trend = &whole["trends"][0];
    assert!(trend["raw"]["n"].as_u64().unwrap() >= 10, "{trend}");
    assert!(trend["verdict"][0].as_str().unwrap().starts_with("no climb of cost with position was found"), "{trend}");
    // The public macos-x86 legs ran one file each: there is a level, and nothing can be said of position.
    let single = read(&[&all[..], &["macos-x86"]].concat());
    let trend = &single["trends"][0];
    assert_eq!(trend["raw"], Value::Null);
    assert!(trend["level"]["median_ratio"].as_f64().unwrap() > 1.0, "{trend}");
    assert!(trend["verdict"][0].as_str().unwrap().contains("cannot be said"), "{trend}");
}

#[test]
fn trend_without_a_match_is_a_usage_error() {
    let folder = ran();
    let output = ledger(folder.path(), &["trend", "--platform", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no leg with timed files matches") && said.contains("hint:"), "{said}");
}

#[test]
fn watch_ends_when_nothing_runs() {
    let folder = ran();
    let said = text(&ledger(folder.path(), &["watch"]));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("fail: 2 of 2 files") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn every_format_of_a_real_run() {
    let folder = ran();
    for format in ["table", "json", "ndjson", "markdown", "html", "junit", "ctrf", "trace"] {
        let said = text(&ledger(folder.path(), &["report", "--format", format]));
        assert!(said.contains("bad.sh"), "{format}: {said}");
        assert!(!said.contains("\u{1b}["), "{format}");
        let data = matches!(format, "json" | "ndjson");
        assert!(data || !said.lines().any(|line| line.starts_with("::")), "{format}");
    }
    let page = folder.path().join("page.html");
    text(&ledger(folder.path(), &["report", "--format", "html", "--out", "page.html"]));
    assert!(std::fs::read_to_string(page).unwrap().ends_with("</html>\n"));
}

#[test]
fn completions_and_man_pages() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = text(&ledger(folder.path(), &["completions", shell]));
        assert!(said.contains("trend") && said.contains("against"), "{shell}");
    }
    assert!(text(&ledger(folder.path(), &["man"])).contains(".TH ledger 1"));
    text(&ledger(folder.path(), &["man", "--out", "."]));
    assert!(folder.path().join("ledger-run.1").exists());
    let bash = folder.path().join("ledger.bash");
    std::fs::write(&bash, text(&ledger(folder.path(), &["completions", "bash"]))).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&bash).status();
    assert!(checked.is_err() || checked.unwrap().success(), "bash cannot read its completions");
}
