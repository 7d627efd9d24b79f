//! Hostile file names, from the glob to the report and back.

use crate::support::{World, file, outcomes};

#[test]
fn every_name_survives_the_round_trip() {
    let world = World::new();
    let long = format!("{}.sh", "l".repeat(252));
    let names = [
        "a/x.sh",
        "b/x.sh",
        "with space.sh",
        "new\nline.sh",
        "-dash.sh",
        "q'\"$(touch pwned)`.sh",
        &long,
        "ctl\u{1b}[31m.sh",
        "日本.sh",
        "%s::error::x.sh",
    ];
    for (index, name) in names.iter().enumerate() {
        world.write(name, &format!("echo number {index}"));
    }
    let ran = world.run(["run", "--cap", "30", "*/*.sh", "*.sh", "--", "sh"]);
    ran.expect(0);
    assert!(!world.join("pwned").exists());
    assert!(!ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
    let leg = world.leg();
    assert_eq!(leg["files_reported"], names.len());
    let mut logs = std::collections::HashSet::new();
    for (index, name) in names.iter().enumerate() {
        let row = file(&leg, name);
        assert_eq!(row["outcome"], "pass", "{name:?}");
        let log = row["log"].as_str().unwrap();
        assert_eq!(world.read(log), format!("number {index}\n"), "{name:?}");
        assert!(logs.insert(log.to_owned()), "{name:?} has the log of another file");
    }
    for format in ["table", "markdown", "junit", "ctrf"] {
        let text = world.run(["report", "--format", format]);
        assert!(!text.out().contains('\u{1b}'), "{format}: {:?}", text.out());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_not_utf8_is_kept_in_its_bytes() {
    use std::os::unix::ffi::OsStringExt as _;
    let world = World::with(&[("a.sh", "exit 0")]);
    let odd = std::ffi::OsString::from_vec(b"bad\xff\xfe.sh".to_vec());
    world.write(&odd, "echo odd");
    for plan in ["*.sh", "**/*.sh"] {
        world.run(["run", "--run-id", plan, "--cap", "30", plan, "--", "sh"]).expect(0);
        let report = world.report(["--run-id", plan]);
        let row = report["legs"][0]["files"].as_array().unwrap().iter().find(|row| !row["file_b64"].is_null()).unwrap().clone();
        assert_eq!((&row["file_b64"], &row["outcome"]), (&"YmFk//4uc2g=".into(), &"pass".into()), "{row:#}");
    }
}

#[test]
fn words_of_a_command_are_replaced() {
    let world = World::with(&[("t/a b.sh", ""), ("t/c.sh", "")]);
    let ran = world.run(["run", "--cap", "30", "t/*.sh", "--", "printf", "%s\n", "{index} {name} ./{file} {other} {"]);
    ran.expect(0);
    assert_eq!(ran.out(), "1 a b.sh ./t/a b.sh {other} {\n2 c.sh ./t/c.sh {other} {\n");
    assert_eq!(outcomes(&world.leg()).len(), 2);
}
