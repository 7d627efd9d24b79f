//! Evidence in the formats that others write and read: what is in it is not lost, whatever the order and the folder it comes in.

use serde_json::{Value, json};

use crate::support::World;

const PASS: &str =
    r#"<testsuites><testsuite name="a.test.ts" tests="1" time="2"><testcase name="t" time="2"/></testsuite></testsuites>"#;
const FAIL: &str =
    r#"<testsuites tests="4" failures="2"><testsuite name="a.test.ts" tests="4" failures="2" time="9"/></testsuites>"#;

/// The legs of sources, by what a reader would compare: key, attempt, class, counts and files.
fn legs(world: &World, sources: &[&str]) -> Vec<Value> {
    let told = world.report(sources);
    let row = |leg: &Value| {
        let files: Vec<_> = leg["files"].as_array().unwrap().iter().map(|file| json!([file["file"], file["outcome"]])).collect();
        let fields = [
            "target",
            "attempt",
            "terminal",
            "stopped_by",
            "conclusion",
            "files_planned",
            "files_reported",
            "files_failed",
            "resolved",
        ];
        json!([fields.map(|field| leg[field].clone()), files])
    };
    told["legs"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_count_that_nobody_listed_shuts_the_gate() {
    let world = World::new();
    for (name, text, code) in
        [("good", PASS, 0), ("counted", FAIL, 1), ("crashed", "<testsuites errors=\"1\"/>", 1), ("empty", "<testsuites/>", 3)]
    {
        let (xml, db) = (format!("{name}.xml"), format!("{name}.db"));
        world.write(&xml, text);
        world.run(["report", &xml, "--gate"]).expect(code);
        world.run(["import", &xml, "--into", &db]).expect(0);
        world.run(["report", &db, "--gate"]).expect(code);
    }
}

#[test]
fn no_order_of_sources_decides() {
    let world = World::new();
    for (folder, xml, timing, day) in [("linux", PASS, "a 1s pass", 29), ("mac", FAIL, "a 1s fail", 30)] {
        std::fs::create_dir_all(world.join(format!("m/{folder}/runs"))).unwrap();
        world.write(format!("m/{folder}/junit.xml"), xml);
        world.write(format!("m/{folder}/timing.txt"), timing);
        let word = if day == 29 { "pass" } else { "fail" };
        let suite = json!({"kind": "suite", "ts": format!("2026-11-{day}T19:00:00.000Z"), "run_id": "7", "platform": "p", "scope": "full", "conclusion": word, "target": "t", "files": 1, "failed": day - 29});
        world.write(format!("m/{folder}/runs/7-p-t.ndjson"), &format!("{suite}\n"));
    }
    for (name, rows) in [("junit.xml", 2), ("timing.txt", 2), ("runs", 1)] {
        let (one, other) = (format!("m/linux/{name}"), format!("m/mac/{name}"));
        for sources in [[&one, &other], [&other, &one]] {
            assert_eq!(legs(&world, &sources.map(String::as_str)).len(), rows, "{sources:?}");
            world.run(["report", sources[0], sources[1], "--gate"]).expect(1);
            let db = format!("{}.db", sources[0].replace('/', "-"));
            world.run(["import", sources[0], sources[1], "--into", &db]).expect(0);
            world.run(["report", &db, "--gate"]).expect(1);
            assert_eq!(legs(&world, &[&db]).len(), rows, "{sources:?}");
        }
    }
    // One source after the other into one archive, the older one last.
    for name in ["m/mac/runs", "m/linux/runs"] {
        world.run(["import", name, "--into", "one-by-one.db"]).expect(0);
    }
    world.run(["report", "one-by-one.db", "--gate"]).expect(1);
}

#[test]
fn a_leg_that_did_not_end_survives_ci_data_and_junit() {
    let world = World::with(&[("a.sh", "exit 0"), ("b.sh", "exit 3"), ("c.sh", "exit 0")]);
    let run = |attempt: &str, target: &str, more: &[&str], code: i32| {
        let leg = [
            "run",
            "--run-id",
            "7",
            "--attempt",
            attempt,
            "--platform",
            "p",
            "--target",
            target,
            "--resolved",
            "7.1",
            "--caps",
            "none",
        ];
        world.run([&leg[..], more].concat()).expect(code);
    };
    run("1", "whole", &["a.sh", "c.sh", "--", "sh"], 0);
    run("1", "fast", &["--fail-fast", "a.sh", "b.sh", "c.sh", "--", "sh"], 1);
    run("1", "spent", &["--deadline", "+10", "--reserve", "8", "--min-viable", "5", "a.sh", "c.sh", "--", "sh"], 4);
    let out = legs(&world, &[]);
    for target in ["one.ndjson", "new/", "report.xml"] {
        let format = if target == "report.xml" { "junit" } else { "ci-data" };
        world.run(["report", "--format", format, "--out", target]).expect(0);
        assert_eq!(legs(&world, &[target]), out, "{target}");
        world.run(["report", target, "--gate"]).expect(1);
    }
    assert_eq!(std::fs::read_dir(world.join("new")).unwrap().count(), 3);
    // A second attempt does not take the place of the first.
    run("2", "fast", &["--deadline", "+10", "--reserve", "8", "--min-viable", "5", "a.sh", "b.sh", "c.sh", "--", "sh"], 4);
    world.run(["report", "--target", "fast", "--format", "ci-data", "--out", "new"]).expect(0);
    assert_eq!(std::fs::read_dir(world.join("new")).unwrap().count(), 4);
    let both = world.report(["new", "--target", "fast"]);
    let leg = &both["legs"][0];
    assert_eq!((&leg["attempt"], &leg["stopped_by"]), (&json!("2"), &json!("budget")), "{both:#}");
    assert_eq!((leg["attempts"].as_array().unwrap().len(), &leg["attempts"][0]["conclusion"]), (1, &json!("fail")), "{both:#}");
    world.run(["report", "new", "--gate"]).expect(1);
    std::fs::write(world.join("new/7-p-gone.ndjson"), "").unwrap();
    let told = world.run(["report", "new"]);
    assert!(told.stderr.contains("7-p-gone.ndjson: no line in it is evidence"), "{}", told.stderr);
}

#[test]
fn a_folder_of_artifacts_is_looked_into() {
    let world = World::with(&[("a.sh", "exit 0")]);
    let run = [
        "run",
        "--run-id",
        "7",
        "--platform",
        "p",
        "--target",
        "t",
        "--caps",
        "none",
        "--ledger",
        "artifacts/leg/.ledger",
        "a.sh",
        "--",
        "sh",
    ];
    world.run(run).expect(0);
    for folder in ["artifacts/x", "artifacts/y/out", "nothing/in/it"] {
        std::fs::create_dir_all(world.join(folder)).unwrap();
    }
    world.write("artifacts/x/junit.xml", PASS);
    world.write("artifacts/y/out/junit.xml", FAIL);
    world.write("artifacts/y/pom.xml", "<project/>");
    let told = world.report(["artifacts"]);
    assert_eq!(
        (told["legs"].as_array().unwrap().len(), &told["warnings"]),
        (3, &json!(["artifacts/y/out/junit.xml: 4 tests are counted in it and not listed; what the counts say holds"])),
        "{told:#}"
    );
    world.run(["report", "artifacts", "--gate"]).expect(1);
    let nothing = world.run(["report", "nothing"]);
    nothing.expect(2);
    assert!(nothing.stderr.contains("nothing in it is evidence"), "{}", nothing.stderr);
}

#[test]
fn an_import_takes_all_of_its_sources_or_none() {
    let world = World::new();
    world.write("good.xml", PASS);
    let refused = world.run(["import", "good.xml", "nosuch", "--into", "part.db"]);
    refused.expect(2);
    assert!(refused.stderr.contains("nosuch") && refused.stderr.contains("nothing was imported"), "{}", refused.stderr);
    assert!(!world.join("part.db").exists());
    let refused = world.run(["caps", "derive", "--from", "good.xml", "--since", "yesterday"]);
    assert!(refused.stderr.contains("--since yesterday: ") && !refused.stderr.contains("--now"), "{}", refused.stderr);
}

#[test]
fn a_mark_before_the_text_is_no_part_of_it() {
    let world = World::new();
    world.write("timing.txt", "\u{feff}a.test.ts 2s pass\nb.test.ts 0s not-run\n");
    let told = world.report(["timing.txt"]);
    let files = &told["legs"][0]["files"];
    assert_eq!((&files[0]["file"], &files[1]["duration_s"]), (&json!("a.test.ts"), &Value::Null), "{told:#}");
    world.write(
        "tested.json",
        "\u{feff}{\"7.1\":{\"p\":{\"conclusion\":\"pass\",\"date\":\"2026-01-01T00:00:00.000Z\",\"run_id\":\"1\"}}}",
    );
    world.run(["report", "timing.txt", "--format", "tested-versions", "--out", "tested.json"]).expect(0);
    assert!(world.read("tested.json").contains("7.1"));
}
