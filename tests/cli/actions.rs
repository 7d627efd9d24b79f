//! Under GitHub Actions: groups, annotations, outputs, the summary, and what is said when there is no sink.

use crate::support::{Ran, World};

fn run(world: &World, args: &[&str]) -> Ran {
    let mut command = world.ledger(args);
    let identity = [("GITHUB_RUN_ID", "77"), ("GITHUB_RUN_ATTEMPT", "2"), ("GITHUB_SHA", "abc"), ("GITHUB_EVENT_NAME", "push")];
    command
        .envs(identity)
        .env("GITHUB_ACTIONS", "true")
        .env("CI", "true")
        .env("PLATFORM_ID", "plat")
        .env("LEDGER_TARGET", "stable");
    command.env("GITHUB_OUTPUT", world.join("output")).env("GITHUB_STEP_SUMMARY", world.join("summary"));
    world.finish(command)
}

#[test]
fn groups_annotations_outputs_and_summary() {
    let world = World::with(&[
        ("ok.sh", "echo '::error::fake'; printf unfinished"),
        ("na,me:%0A::x.sh", "echo '100% <b>| a::b,c'; exit 3"),
        ("left.sh", "setsid sleep 1000 & exit 0"),
    ]);
    world.write("output", "before=1\n");
    let ran = run(&world, &["run", "--cap", "30", "ok.sh", "na,me:%0A::x.sh", "left.sh", "--", "sh"]);
    ran.expect(1);
    let out = ran.out();
    assert!(out.contains("::group::[1/3] ok.sh") && out.contains("unfinished\n::endgroup::\n"), "{out}");
    assert_eq!(out.matches("::endgroup::").count(), 3);
    assert!(out.contains("::error file=na%2Cme%3A%250A%3A%3Ax.sh,title=test-failure::na,me:%250A::x.sh"), "{out}");
    assert!(out.contains("::warning file=left.sh,title=leftovers::"), "{out}");
    assert!(format!("{out}{}", ran.stderr).contains("no sink is set"), "{}", ran.stderr);
    let output = world.read("output");
    let expect = "before=1\nloop-finished=true\nconclusion=fail\nfailed=1\nfiles-reported=3\nfiles-planned=3\nlast-file=left.sh\n";
    assert_eq!(output, expect);
    let summary = world.read("summary");
    assert!(
        summary.contains("plat") && summary.contains("```text\n100% <b>| a::b,c\n```") && summary.contains("sleep"),
        "{summary}"
    );
    let leg = world.leg();
    let identity =
        ["run_id", "attempt", "platform", "target", "sha", "event"].map(|key| leg[key].as_str().unwrap_or_default().to_owned());
    assert_eq!(identity, ["77", "2", "plat", "stable", "abc", "push"]);
}

/// A step that never came to its first file says so where a workflow and a person look.
#[test]
fn a_run_that_never_began_is_told_to_the_service() {
    let world = World::with(&[("a.sh", "exit 0")]);
    for args in [&["run", "none.sh", "--", "sh"][..], &["run", "--bogus"], &["run", "--sink", "bogus://x", "a.sh", "--", "sh"]] {
        let _ = std::fs::remove_file(world.join("output"));
        let _ = std::fs::remove_file(world.join("summary"));
        let ran = run(&world, args);
        ran.expect(2);
        assert!(ran.out().contains("::error title=ledger run%3A nothing ran::"), "{args:?}: {}", ran.out());
        assert!(world.read("output").starts_with("loop-finished=false\nconclusion=incomplete\n"), "{}", world.read("output"));
        assert!(world.read("summary").contains("nothing ran"), "{}", world.read("summary"));
    }
    assert!(
        !world.run(["run", "none.sh", "--", "sh"]).expect(2).out().contains("::error"),
        "on no service there is nobody to tell"
    );
}

#[test]
fn annotations_name_files_from_the_top_of_the_checkout() {
    let world = World::with(&[("sub/x/a.sh", "exit 1")]);
    for (workspace, file) in
        [(Some(world.path().to_owned()), "sub/x/a.sh"), (Some("/elsewhere".into()), "x/a.sh"), (None, "x/a.sh")]
    {
        let mut command = world.ledger(["run", "x/a.sh", "--", "sh"]);
        command.current_dir(world.join("sub")).env("GITHUB_ACTIONS", "true");
        workspace.map(|path| command.env("GITHUB_WORKSPACE", path));
        let ran = world.finish(command);
        assert!(ran.expect(1).out().contains(&format!("::error file={file},")), "{}", ran.out());
    }
}

#[test]
fn a_loop_that_stopped_is_not_finished() {
    let world = World::with(&[("a.sh", "exit 1"), ("b.sh", "exit 0")]);
    run(&world, &["run", "--sink", &world.sink(), "--fail-fast", "a.sh", "b.sh", "--", "sh"]).expect(1);
    let output = world.read("output");
    assert!(output.contains("loop-finished=false\n") && output.contains("files-reported=1\n"), "{output}");
    assert!(!run(&world, &["run", "--sink", &world.sink(), "b.sh", "--", "sh"]).stderr.contains("no sink is set"));
}

#[test]
fn a_step_file_that_cannot_be_written_is_a_warning() {
    let world = World::with(&[("a.sh", "exit 0")]);
    let mut command = world.ledger(["run", "a.sh", "--", "sh"]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_OUTPUT", world.join("missing/output"));
    let ran = world.finish(command);
    ran.expect(0);
    assert!(ran.stderr.contains("missing/output' cannot be written"), "{}", ran.stderr);
}

#[test]
fn what_a_test_prints_or_is_called_is_no_command_in_what_ledger_says() {
    let hostile = "echo 'one'; echo ' ::error::owned'; echo 'x ##[error]owned' >&2; exit 3";
    let world = World::with(&[("a ##[error]b.sh", hostile), ("##[add-mask]c.sh", hostile)]);
    let sound = |text: &str, what: &str| {
        for line in text.lines() {
            let command = line.trim_start().strip_prefix("::").is_some_and(|rest| rest.contains("::"));
            assert!(!command && !line.contains("##["), "{what}: {line}");
        }
    };
    let ran = run(&world, &["run", "a ##[error]b.sh", "##[add-mask]c.sh", "--", "sh"]);
    ran.expect(1);
    assert_eq!(ran.stderr.matches("##[").count(), 2, "only what the files printed themselves: {}", ran.stderr);
    assert!(!ran.out().contains("##["), "{}", ran.out());
    for format in ["table", "markdown", "html", "junit"] {
        let told = run(&world, &["report", "--format", format]);
        told.expect(0);
        sound(&told.out(), format);
        assert!(told.out().contains("owned"), "{format}");
    }
    for args in [["report", "no##[error]x\n::error::y"], ["run", "no##[error]x\n::error::y"]] {
        let told = run(&world, &args);
        assert_eq!(told.code, Some(2));
        sound(&told.stderr, args[0]);
    }
}
