//! `--tty`: what a person types reaches the file.

use std::process::Command;

#[test]
fn a_question_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ask.sh"), "printf 'name?'; read name; echo \"hello $name\"; test -t 0\n").unwrap();
    let typist = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/children/typist.py");
    let ledger = env!("CARGO_BIN_EXE_ledger");
    let output = Command::new("python3")
        .args([typist, "ada", ledger, "run", "--tty", "--platform", "p", "--target", "t", "ask.sh", "--", "sh", "{file}"])
        .current_dir(folder.path())
        .env_remove("GITHUB_ACTIONS")
        .env_remove("CI")
        .output()
        .unwrap();
    // Two terminals are in a row, and each puts carriage returns of its own.
    let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    // One echo, the file's own terminal's, and the answer.
    assert!(shown.starts_with("name?ada\nhello ada\n"), "{shown}");
    assert!(output.status.success(), "{shown}");
}
