//! What a person types: with `--tty` it reaches the file, without it Enter asks ledger for the last lines.

use std::process::Command;

/// What is shown on a terminal while this script runs and this word is typed.
fn typed(word: &str, script: &str, flags: &[&str], sees: &str) -> (String, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ask.sh"), script).unwrap();
    let typist = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/typist.py");
    let output = Command::new("python3")
        .args([typist, word, env!("CARGO_BIN_EXE_ledger"), "run", "--cap", "60s", "--platform", "p", "--target", "t"])
        .args(flags)
        .args(["ask.sh", "--", "sh", "{file}"])
        .current_dir(folder.path())
        .env_remove("GITHUB_ACTIONS")
        .env_remove("CI")
        .env("TERM", "xterm-256color")
        .env("TYPIST_SEES", sees)
        .output()
        .unwrap();
    // Two terminals are in a row, and each puts carriage returns of its own.
    (String::from_utf8_lossy(&output.stdout).replace('\r', ""), output)
}

#[test]
fn enter_shows_the_last_lines_of_the_running_file() {
    let script = "seq -f 'step %g' 30; echo 'name?'; until [ -e seen ]; do sleep 0.05; done\n";
    let (shown, output) = typed("", script, &[], "its last lines:");
    assert!(output.status.success(), "{shown}");
    let (_, told) = shown.split_once("ledger: ask.sh after ").unwrap_or_else(|| panic!("{shown}"));
    let lines: Vec<&str> = told.lines().skip(1).take(13).map(str::trim).collect();
    assert_eq!((lines[0], lines[1], lines[11], lines[12]), ("… 19 lines above", "step 20", "step 30", "name?"), "{shown}");
    assert!(shown.contains("press Enter for the last lines"), "{shown}");
}

#[test]
fn a_question_is_answered() {
    let (shown, output) = typed("ada", "printf 'name?'; read name; echo \"hello $name\"; test -t 0\n", &["--tty"], "\u{1}");
    // One echo, the file's own terminal's, and the answer.
    assert!(shown.starts_with("name?ada\nhello ada\n"), "{shown}");
    assert!(output.status.success(), "{shown}");
}

/// A job that comes to the foreground while nobody types goes on keeping the cap: no read waits for a key.
#[test]
fn a_job_that_was_brought_back_keeps_its_cap() {
    for (how, flags) in [("background", ""), ("stopped", ""), ("stopped", "--tty")] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("long.sh"), "echo started\nsleep 117\n").unwrap();
        let ledger = env!("CARGO_BIN_EXE_ledger");
        let command = format!("{ledger} run --cap 4s --grace 1s --platform p --target t {flags} long.sh -- sh {{file}}");
        let jobs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/jobs.py");
        let output = Command::new("python3")
            .args([jobs, how, "file-watchdog-timeout", &command])
            .current_dir(folder.path())
            .env_remove("GITHUB_ACTIONS")
            .env_remove("CI")
            .env("TERM", "xterm-256color")
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{how} {flags}: {shown}{}", String::from_utf8_lossy(&output.stderr));
    }
}
