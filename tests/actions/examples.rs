//! The example workflows, whole: every job on a machine of its own, the reconcile job with nothing but the sink and the service's job list.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::files::root;
use super::scenes::{Scene, write_suite};
use super::workflow::{self, Ran};

const SUITE: [(&str, &str); 3] = [("a.test.sh", "exit 0"), ("b.test.sh", "exit 0"), ("c.test.sh", "exit 0")];

fn find<'r>(ran: &'r [Ran], name: &str) -> &'r Ran {
    let names: Vec<&str> = ran.iter().map(|ran| ran.name.as_str()).collect();
    ran.iter().find(|ran| ran.name == name).unwrap_or_else(|| panic!("no job '{name}' in {names:?}"))
}

fn branch_file(scene: &Scene, name: &str) -> Value {
    let shown =
        Command::new("git").arg("-C").arg(scene.path("remote.git")).args(["show", &format!("ci-data:{name}")]).output().unwrap();
    assert!(shown.status.success(), "{name}: {}", String::from_utf8_lossy(&shown.stderr));
    serde_json::from_slice(&shown.stdout).unwrap()
}

fn scene() -> Scene {
    let scene = Scene::new();
    let remote = scene.path("remote.git");
    assert!(Command::new("git").args(["init", "-q", "--bare"]).arg(&remote).status().unwrap().success());
    fs::create_dir_all(scene.path("sink")).unwrap();
    write_suite(&scene.path("project"), &SUITE);
    scene
}

#[test]
fn ten_lines() {
    let scene = scene();
    let outside = scene.outside(10);
    let ran = workflow::run(&root().join("ci/examples/ten-lines.yml"), &outside, &scene.service, &scene.path("project"), |_| None);
    assert_eq!(ran[0].result, "success", "{}", ran[0].log);
}

/// Four legs, two of them shards of one: all pass, then one machine is lost in its second file, then it passes again.
#[test]
fn plan_legs_reconcile() {
    let scene = scene();
    let example = root().join("ci/examples/integration.yml");
    let lost = "Integration (macos/x86_64 2/2 · stable)";
    let remote = scene.path("remote.git").display().to_string();
    let run = |run_id: u64, fate: &dyn Fn(&str) -> Option<&'static str>| {
        let mut outside = scene.outside(run_id);
        outside.extra_inputs.insert("remote".into(), remote.clone());
        workflow::run(&example, &outside, &scene.service, &scene.path("project"), fate)
    };

    let ran = run(20, &|_| None);
    let results: Vec<_> = ran.iter().map(|ran| (ran.name.as_str(), ran.result)).collect();
    assert!(results.iter().all(|(_, result)| *result == "success"), "{results:?} {}", find(&ran, "reconcile").log);
    let tested = branch_file(&scene, "tested-versions.json");
    assert_eq!(tested["7.23.2"]["macos-x86"]["conclusion"], json!("pass"), "{tested}");
    assert_eq!(branch_file(&scene, "attempted-legs.json")["20"]["complete"], json!(4));

    fs::remove_dir_all(scene.path("caches")).unwrap();
    // The last leg's machine dies in b; the legs on Linux fail c.
    let dies = "touch b-runs\ncase $PWD in *legs-3*) sleep 300 ;; esac";
    let fails = "case $PWD in *legs-0* | *legs-1*) exit 1 ;; esac";
    write_suite(&scene.path("project"), &[("b.test.sh", dies), ("c.test.sh", fails)]);
    let ran = run(21, &|name| (name == lost).then_some("b-runs"));
    assert_eq!(find(&ran, lost).result, "failure");
    let reconcile = find(&ran, "reconcile");
    assert_eq!(reconcile.result, "success", "reconcile is never red: {}", reconcile.log);
    assert_eq!(reconcile.steps["reconcile"]["outputs"]["problems"], json!("0"), "{}", reconcile.log);
    let attempted = branch_file(&scene, "attempted-legs.json");
    let row = &attempted["21"]["incomplete"]["macos-x86|stable|2/2"];
    assert_eq!((&row["terminal"], &row["stalled_step"]), (&json!("runner-lost"), &json!("Run the suite")), "{attempted}");
    assert_eq!(row["current_file"], json!("test/b.test.sh"), "{attempted}");
    assert_eq!(attempted["20"]["complete"], json!(4), "the older run is still there");
    let tested = branch_file(&scene, "tested-versions.json");
    assert_eq!(tested["7.23.2"]["macos-x86"]["conclusion"], json!("pass"), "what is known stays: {tested}");
    assert_eq!(tested["7.23.2"]["macos-x86"]["last_attempt"]["run_id"], json!("21"), "{tested}");
    // A leg that failed a test owns its cache key; the one that was lost wrote nothing under its own.
    let mut caches: Vec<_> = fs::read_dir(scene.path("caches")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    caches.sort();
    assert_eq!(caches, ["images-linux-x86-7.23.2", "images-linux-x86-7.24rc1", "images-macos-x86-7.23.2"]);
    assert_eq!(find(&ran, "gate").result, "failure");
    for file in ["report.html", "report.md", "attempted-legs.json", "tested-versions.json", "jobs.json", "plan.json"] {
        assert!(scene.path("artifacts/ledger-report").join(file).exists(), "{file}");
    }
    assert!(reconcile.summary.contains("runner-lost"), "{}", reconcile.summary);
}

/// The service takes a required check that was skipped for a success.
#[test]
fn without_a_plan_the_gate_is_shut() {
    let scene = scene();
    let text = fs::read_to_string(root().join("ci/examples/integration.yml")).unwrap();
    let without = text.replace("echo 'matrix<<end'", "exit 1");
    assert_ne!(text, without);
    let path = scene.path("integration.yml");
    fs::write(&path, without).unwrap();
    let ran = workflow::run(&path, &scene.outside(60), &scene.service, &scene.path("project"), |_| None);
    let results: Vec<_> = ran.iter().map(|ran| (ran.name.as_str(), ran.result)).collect();
    assert_eq!((find(&ran, "plan").result, find(&ran, "gate").result), ("failure", "failure"), "{results:?}");
}

/// Twice on one machine: checkout takes away what is in the checkout, and the ledger is not in there.
#[test]
fn a_mac_of_ones_own_reaps_before_its_first_run_and_after() {
    let scene = scene();
    for run_id in [70, 71] {
        let outside = scene.outside(run_id);
        let path = root().join("ci/examples/self-hosted-mac.yml");
        let ran = workflow::run(&path, &outside, &scene.service, &scene.path("project"), |_| None);
        assert_eq!(ran[0].result, "success", "{}", ran[0].log);
        assert!(ran[0].log.contains("there is no ledger folder"), "{}", ran[0].log);
    }
}

/// The same workflow as it stands, with check runs as its only sink: the reconcile job has nothing but the service.
#[test]
fn a_lost_leg_is_told_and_finalised_through_its_check_run() {
    let scene = scene();
    let lost = "Integration (macos/x86_64 2/2 · stable)";
    scene.service.allow_check_runs();
    write_suite(&scene.path("project"), &[("b.test.sh", "touch b-runs\ncase $PWD in *legs-3*) sleep 300 ;; esac")]);
    let mut outside = scene.outside(50);
    outside.vars.remove("LEDGER_SINKS");
    outside.extra_inputs.insert("remote".into(), scene.path("remote.git").display().to_string());
    let example = root().join("ci/examples/integration.yml");
    let ran = workflow::run(&example, &outside, &scene.service, &scene.path("project"), |name| (name == lost).then_some("b-runs"));
    let reconcile = find(&ran, "reconcile");
    assert_eq!(reconcile.steps["reconcile"]["outputs"]["problems"], json!("0"), "{}", reconcile.log);
    let attempted = branch_file(&scene, "attempted-legs.json");
    let row = &attempted["50"]["incomplete"]["macos-x86|stable|2/2"];
    assert_eq!((&row["terminal"], &row["current_file"]), (&json!("runner-lost"), &json!("test/b.test.sh")), "{attempted}");
    assert_eq!(attempted["50"]["complete"], json!(3), "{attempted}");
    let checks = scene.service.check_runs();
    assert_eq!(checks.len(), 4, "one for each leg");
    let check = checks.iter().find(|check| check["external_id"].as_str().unwrap().ends_with("2/2")).unwrap();
    assert_eq!((&check["status"], &check["conclusion"]), (&json!("completed"), &json!("neutral")));
    assert!(check["output"].to_string().contains("runner-lost"), "{check}");
}

#[test]
fn a_fork_hands_its_evidence_over_and_a_lost_one_is_told_by_the_job_list() {
    let scene = scene();
    let project = scene.path("project");
    for (run_id, dies) in [(30, false), (31, true)] {
        let mut outside = scene.outside(run_id);
        outside.event_name = "pull_request".into();
        if dies {
            fs::remove_dir_all(scene.path("artifacts")).unwrap();
            write_suite(&project, &[("b.test.sh", "touch b-runs; sleep 300")]);
        }
        let fate = |_: &str| dies.then_some("b-runs");
        let ran = workflow::run(&root().join("ci/examples/fork-pull-request.yml"), &outside, &scene.service, &project, fate);
        assert_eq!(ran[0].result == "success", !dies, "{}", ran[0].log);
        let mut after = scene.outside(run_id + 100);
        after.event = json!({"workflow_run": {"id": run_id, "run_attempt": 1, "head_sha": "f00d"}});
        let path = root().join("ci/examples/fork-pull-request-reconcile.yml");
        let ran = workflow::run(&path, &after, &scene.service, &project, |_| None);
        let gate = &ran[0].steps["reconcile"]["outputs"]["gate"];
        assert_eq!(gate, if dies { "3" } else { "0" }, "{}", ran[0].log);
        assert_eq!(ran[0].summary.contains("runner-lost"), dies, "{}", ran[0].summary);
    }
}

#[test]
fn what_cannot_be_done_is_loud_and_never_red() {
    let scene = scene();
    let mut outside = scene.outside(40);
    outside.extra_inputs.insert("remote".into(), scene.path("no-such.git").display().to_string());
    // A sink that can be no folder, and no service.
    fs::write(scene.path("plain"), "").unwrap();
    let sinks = format!("{} file://{}", scene.sink(), scene.path("plain/below").display());
    outside.vars.insert("LEDGER_SINKS".into(), json!(sinks));
    outside.api = "http://127.0.0.1:1".into();
    let ran =
        workflow::run(&root().join("ci/examples/integration.yml"), &outside, &scene.service, &scene.path("project"), |_| None);
    let reconcile = find(&ran, "reconcile");
    assert_eq!(reconcile.result, "success", "{}", reconcile.log);
    for said in ["plain/below' cannot be read", "cannot be listed", "does not have this run"] {
        assert!(reconcile.log.contains(said) && reconcile.summary.contains(said), "{said}: {}", reconcile.log);
    }
    let outputs = &reconcile.steps["reconcile"]["outputs"];
    assert_eq!((&outputs["pushed"], &outputs["gate"], &outputs["problems"]), (&json!("false"), &json!("0"), &json!("3")));
    assert_eq!(find(&ran, "gate").result, "success", "what there is speaks");
}
