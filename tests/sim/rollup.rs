//! The shared rollups: the public data gives the public file byte for byte, and no order of folding shows.

use std::path::Path;

use ci_ledger::core::job::parse_listing;
use ci_ledger::core::moment::Wall;
use ci_ledger::core::outcome::{Conclusion, Scope, Terminal};
use ci_ledger::core::plan::parse_plan;
use ci_ledger::core::row::{LegRow, OtherEpoch, Summary};
use ci_ledger::report::attempted_legs::attempted_legs;
use ci_ledger::report::tested_versions::{IncompleteRows, due, tested_versions};
use ci_ledger::source;
use ci_ledger::source::Found;
use ci_ledger::source::assemble::{Question, assemble};
use ci_ledger::source::ci_data;
use proptest::prelude::*;
use serde_json::{Value, json};

const SHARED: &str = "/work/shared/ci-data";

fn summary(legs: Vec<LegRow>) -> Summary {
    Summary::of(Wall(0), legs)
}

fn tested(legs: &[LegRow], older: Option<&str>) -> String {
    tested_versions(&summary(legs.to_vec()), older.map(str::as_bytes), None, IncompleteRows::Row).unwrap().text
}

fn attempted(legs: &[LegRow], older: Option<&str>) -> String {
    attempted_legs(&summary(legs.to_vec()), older.map(str::as_bytes)).unwrap()
}

/// The public legs, or `None`, loudly, on a machine without them.
fn public_legs() -> Option<Vec<LegRow>> {
    if !Path::new(SHARED).exists() {
        eprintln!("SKIPPED: {SHARED} is not on this machine");
        return None;
    }
    let mut found = Found::default();
    source::read(SHARED, &Question::everything(Wall(0)), &mut found).unwrap();
    let summary = assemble(found, &Question::everything(Wall(0)));
    assert!(summary.warnings.is_empty(), "{:?}", summary.warnings);
    assert_eq!(summary.legs.len(), 220);
    Some(summary.legs)
}

#[test]
fn the_public_data_gives_the_public_rollup() {
    let Some(legs) = public_legs() else { return };
    let expect = std::fs::read_to_string(format!("{SHARED}/tested-versions.json")).unwrap();
    let once = tested(&legs, None);
    assert!(once == expect, "the rollup differs from {SHARED}/tested-versions.json");
    assert!(tested(&legs, Some(&once)) == expect, "folding again changes it");
    let (first, second) = legs.split_at(legs.len() / 3);
    assert!(tested(first, Some(&tested(second, None))) == expect);
    assert!(tested(second, Some(&tested(first, None))) == expect);
    let mut backwards = legs.clone();
    backwards.reverse();
    assert!(tested(&backwards, Some(&tested(first, None))) == expect);
}

/// What public projects write when a job is over with its suite still in progress.
#[test]
fn fifteen_planned_legs_with_twelve_records() {
    let platforms = ["linux-arm64", "linux-x86", "macos-arm64", "macos-x86", "windows-x86"];
    let targets = ["long-term", "stable", "testing"];
    let (mut plan, mut jobs, mut lines) = (Vec::new(), Vec::new(), String::new());
    for platform in platforms {
        for target in targets {
            let label = platform.replace('-', "/");
            plan.push(json!({"id": platform, "label": label, "target": target, "resolved": "7.23.2"}));
            let lost = platform == "macos-x86";
            let step = |name: &str, status: &str, conclusion: Option<&str>| json!({"name": name, "status": status, "conclusion": conclusion, "started_at": "2026-08-02T14:00:00Z"});
            let suite = if lost { step("Run suite", "in_progress", None) } else { step("Run suite", "completed", Some("success")) };
            jobs.push(json!({
                "id": jobs.len() + 1, "name": format!("Integration ({label} · {target})"), "status": "completed",
                "conclusion": if lost { "failure" } else { "success" },
                "started_at": "2026-08-02T13:56:16Z", "completed_at": "2026-08-02T15:00:20Z",
                "steps": [step("Set up job", "completed", Some("success")), suite, {"name": "Clean up", "status": "pending", "conclusion": null, "started_at": null}],
            }));
            if !lost {
                let suite = json!({"kind": "suite", "ts": "2026-08-02T14:30:00.000Z", "run_id": "77", "sha": "abc", "platform": platform, "host": "h", "scope": "full", "conclusion": "pass", "target": target, "files": 12, "failed": 0});
                lines.push_str(&format!("{suite}\n"));
            }
        }
    }
    // Two pages, one after the other.
    let pages = format!("{}{}", json!({"jobs": jobs[..8]}), json!({"jobs": jobs[8..]}));
    let mut found = Found::default();
    ci_data::read(lines.as_bytes(), "x", "x", &mut found).unwrap();
    let question = Question {
        plan: parse_plan(json!({ "include": plan }).to_string().as_bytes()).unwrap(),
        jobs: Some(parse_listing(pages.as_bytes()).unwrap().jobs),
        step_name: Some("Run suite".into()),
        ..Question::everything(Wall(0))
    };
    let summary = assemble(found, &question);
    assert!(summary.warnings.is_empty(), "{:?}", summary.warnings);
    let text = attempted_legs(&summary, None).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let run = &file["77"];
    assert_eq!((&run["planned"], &run["complete"]), (&json!(15), &json!(12)), "{text}");
    let incomplete = run["incomplete"].as_object().unwrap();
    assert_eq!(incomplete.keys().collect::<Vec<_>>(), ["macos-x86|long-term", "macos-x86|stable", "macos-x86|testing"]);
    for row in incomplete.values() {
        assert_eq!((&row["terminal"], &row["stalled_step"]), (&json!("runner-lost"), &json!("Run suite")));
        assert_eq!((&row["job_elapsed_s"], &row["job_matched"]), (&json!(3844), &json!(true)));
        assert_eq!(row["why"], "job reached a terminal state with 'Run suite' still in progress — the runner stopped reporting");
    }
    assert!(text.find("\"attempt\"") < text.find("\"complete\"") && text.find("\"complete\"") < text.find("\"incomplete\""));
    assert_eq!(attempted_legs(&summary, Some(text.as_bytes())).unwrap(), text, "folding again changes nothing");
    let versions = tested_versions(&summary, None, None, IncompleteRows::Row).unwrap().text;
    let versions: Value = serde_json::from_str(&versions).unwrap();
    assert_eq!(versions["7.23.2"]["macos-x86"]["conclusion"], "incomplete", "the version is the plan's");
}

fn leg(at: i64, version: &str, platform: &str, run: u8, kind: u8) -> LegRow {
    let id = ci_ledger::core::ids::LegId {
        run_id: format!("{run}").as_str().into(),
        attempt: "1".into(),
        platform: platform.into(),
        target: "stable".into(),
        shard: None,
    };
    let mut row = LegRow::named(id);
    row.resolved = Some(version.to_owned());
    row.scope = Some(Scope::Full);
    row.ended_at = Some(Wall(at * 1000));
    (row.terminal, row.conclusion) = match kind {
        0 => (Terminal::Complete, Some(Conclusion::Pass)),
        1 => (Terminal::Complete, Some(Conclusion::Fail)),
        2 => (Terminal::Running, None),
        _ => (Terminal::RunnerLost, Some(Conclusion::Incomplete)),
    };
    row.last_file = Some(format!("{kind}.test.ts"));
    row
}

fn legs() -> impl Strategy<Value = Vec<LegRow>> {
    let one = (0i64..6, 0usize..2, 0usize..2, 0u8..30, 0u8..5);
    proptest::collection::vec(one, 1..14).prop_map(|legs| {
        let row = |(at, version, platform, run, kind)| leg(at, ["7.1", "7.2"][version], ["a", "b"][platform], run, kind);
        let mut legs: Vec<LegRow> = legs.into_iter().map(row).collect();
        // One leg of one run is one row.
        legs.sort_by_key(|row| (row.run_id.clone(), row.platform.clone()));
        legs.dedup_by_key(|row| (row.run_id.clone(), row.platform.clone()));
        legs
    })
}

proptest! {
    #[test]
    fn no_order_of_folding_shows(legs in legs(), seed in any::<u64>(), cut in 0usize..14) {
        let expect = tested(&legs, None);
        let mut shuffled = legs.clone();
        let n = shuffled.len();
        for at in 0..n {
            shuffled.swap(at, (seed.rotate_left(at as u32 * 7) % n as u64) as usize);
        }
        let (first, second) = shuffled.split_at(cut.min(n));
        prop_assert_eq!(&tested(second, Some(&tested(first, None))), &expect);
        prop_assert_eq!(&tested(first, Some(&tested(&shuffled, Some(&tested(second, None))))), &expect);
        // Two runs that race: each folds its own onto the newest, one after the other, in either order.
        let mut one_by_one: Option<String> = None;
        for leg in &shuffled {
            one_by_one = Some(tested(std::slice::from_ref(leg), one_by_one.as_deref()));
        }
        prop_assert_eq!(one_by_one.as_ref(), Some(&expect));
        let by_run = |order: &[LegRow]| {
            let mut file: Option<String> = None;
            let mut runs: Vec<_> = order.iter().map(|row| row.run_id.clone()).collect();
            runs.dedup();
            for run in runs {
                let rows: Vec<LegRow> = legs.iter().filter(|row| row.run_id == run).cloned().collect();
                file = Some(attempted(&rows, file.as_deref()));
            }
            file
        };
        let expect = attempted(&legs, None);
        prop_assert_eq!(by_run(&shuffled), Some(expect.clone()));
        let mut leg_by_leg: Option<String> = None;
        for leg in shuffled.iter().chain(&legs) {
            leg_by_leg = Some(attempted(std::slice::from_ref(leg), leg_by_leg.as_deref()));
        }
        prop_assert_eq!(leg_by_leg, Some(expect));
    }
}

#[test]
fn a_lost_leg_never_erases_a_pass_and_a_pass_never_hides_a_later_loss() {
    let cell = |text: &str| serde_json::from_str::<Value>(text).unwrap()["7.1"]["a"].clone();
    let (pass, lost, fail) = (leg(10, "7.1", "a", 1, 0), leg(20, "7.1", "a", 2, 3), leg(30, "7.1", "a", 3, 1));
    let lost_alone = tested(std::slice::from_ref(&lost), None);
    assert_eq!((&cell(&lost_alone)["conclusion"], &cell(&lost_alone)["terminal"]), (&json!("incomplete"), &json!("runner-lost")));
    assert_eq!(due(&lost_alone, &["7.1".into(), "7.9".into()], "a").unwrap(), ["7.1", "7.9"]);
    let both = tested(&[lost.clone(), pass.clone()], None);
    assert_eq!((&cell(&both)["conclusion"], &cell(&both)["last_attempt"]["run_id"]), (&json!("pass"), &json!("2")));
    assert_eq!(due(&both, &["7.1".into(), "7.9".into()], "a").unwrap(), ["7.9"]);
    let made_up = tested(&[fail], Some(&both));
    assert_eq!(cell(&made_up), json!({"conclusion": "fail", "date": "1970-01-01T00:00:30.000Z", "run_id": "3"}));
    for (mode, row, sidecar) in
        [(IncompleteRows::Row, true, false), (IncompleteRows::Sidecar, false, true), (IncompleteRows::Omit, false, false)]
    {
        let folded = tested_versions(&summary(vec![lost.clone()]), None, None, mode).unwrap();
        assert_eq!(folded.text.contains("incomplete"), row, "{mode:?}");
        assert_eq!(folded.sidecar.is_some_and(|text| text.contains("runner-lost")), sidecar, "{mode:?}");
    }
}

#[test]
fn only_whole_legs_of_a_known_version_count() {
    let edit = |change: fn(&mut LegRow)| {
        let mut row = leg(10, "7.1", "a", 1, 0);
        change(&mut row);
        row
    };
    assert_eq!(tested(&[edit(|row| row.scope = Some(Scope::Filtered))], None), "{}\n");
    assert_eq!(tested(&[edit(|row| row.scope = None)], None), "{}\n");
    let unknown = edit(|row| row.resolved = None);
    let folded = tested_versions(&summary(vec![unknown.clone()]), None, None, IncompleteRows::Row).unwrap();
    assert_eq!((folded.text.as_str(), folded.warnings.len()), ("{}\n", 1));
    let mut sibling = leg(11, "7.1", "b", 1, 0);
    sibling.scope = Some(Scope::Full);
    assert!(tested(&[unknown, sibling], None).contains("\"a\""), "a sibling of the same run and target knows the version");
    let by_target = edit(|row| {
        row.resolved = None;
        row.target = "7.1".into();
    });
    assert!(tested(&[by_target], None).contains("\"7.1\""));
}

#[test]
fn shards_make_one_row() {
    let shard = |index: u32, kind: u8| {
        let mut row = leg(10 + i64::from(index), "7.1", "a", 1, kind);
        row.shard = Some(format!("{index}/3").parse().unwrap());
        row
    };
    let conclusion =
        |legs: &[LegRow]| serde_json::from_str::<Value>(&tested(legs, None)).unwrap()["7.1"]["a"]["conclusion"].clone();
    assert_eq!(conclusion(&[shard(1, 0), shard(2, 0), shard(3, 0)]), "pass");
    assert_eq!(conclusion(&[shard(1, 0), shard(2, 0)]), "incomplete", "one is missing");
    assert_eq!(conclusion(&[shard(1, 0), shard(2, 3), shard(3, 0)]), "incomplete");
    assert_eq!(conclusion(&[shard(1, 0), shard(2, 3), shard(3, 1)]), "fail");
    assert_eq!(conclusion(&[shard(1, 0), shard(2, 2), shard(3, 0)]), Value::Null, "one still runs");
}

#[test]
fn a_newer_attempt_counts_and_the_older_one_stays_beside_it() {
    let lost = leg(10, "7.1", "a", 1, 3);
    let first = attempted(std::slice::from_ref(&lost), None);
    let mut again = leg(20, "7.1", "a", 1, 0);
    again.attempt = "2".into();
    let alone = attempted(std::slice::from_ref(&again), Some(&first));
    again.attempts = vec![OtherEpoch::from(&lost)];
    let whole = attempted(std::slice::from_ref(&again), None);
    assert_eq!(alone, whole, "a fold that saw only the second attempt keeps what the file knew of the first");
    assert_eq!(attempted(&[again], Some(&first)), whole);
    assert_eq!(attempted(&[lost], Some(&whole)), whole, "an older attempt that comes late changes nothing");
    let run: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!((&run["1"]["attempt"], &run["1"]["complete"], run["1"].get("incomplete")), (&json!("2"), &json!(1), None));
    assert_eq!(run["1"]["attempts"]["a|stable"][0]["terminal"], "runner-lost");
}

#[test]
fn folds_that_each_saw_some_legs_come_together() {
    let at = |attempt: &str, platform: &str, kind: u8| {
        let mut row = leg(attempt.parse::<i64>().unwrap() * 10, "7.1", platform, 1, kind);
        row.attempt = attempt.into();
        row
    };
    let told = |text: &str| {
        let run = serde_json::from_str::<Value>(text).unwrap()["1"].clone();
        let lost: Vec<String> = run["incomplete"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        (run["planned"].clone(), run["complete"].clone(), lost.join(" "))
    };
    // Attempt 1 lost a and failed b, attempt 2 ran b again.
    let (a, b, again) = (at("1", "a", 3), at("1", "b", 1), at("2", "b", 0));
    let second = LegRow { attempts: vec![OtherEpoch::from(&b)], ..again.clone() };
    let at_once = attempted(&[a.clone(), second], None);
    assert_eq!(told(&at_once), (json!(2), json!(1), "a|stable".to_owned()), "{at_once}");
    let first = attempted(&[a.clone(), b.clone()], None);
    assert_eq!(attempted(std::slice::from_ref(&again), Some(&first)), at_once);
    assert_eq!(attempted(&[a.clone(), b], Some(&attempted(std::slice::from_ref(&again), None))), at_once);
    // A failure that a later attempt lost stays too.
    let gone = LegRow { attempts: vec![OtherEpoch::from(&at("1", "b", 1))], ..at("2", "b", 3) };
    let text = attempted(&[gone], None);
    assert!(text.contains("\"attempts\"") && text.contains("\"terminal\": \"complete\""), "{text}");
    // A file that names no completed leg keeps its counts.
    let plain = r#"{"1": {"ts": "1970-01-01T00:00:01.000Z", "planned": 3, "complete": 2, "incomplete": {"a|stable": {"attempt": "1"}}}, "$schema": "x"}"#;
    let onto = attempted(std::slice::from_ref(&again), Some(plain));
    assert_eq!(told(&onto), (json!(3), json!(2), "a|stable".to_owned()), "{onto}");
    assert!(onto.contains("\"$schema\": \"x\""), "{onto}");
    assert_eq!(
        told(&attempted(&[LegRow { attempt: "2".into(), ..at("2", "a", 0) }], Some(&onto))),
        (json!(3), json!(3), String::new())
    );
}

#[test]
fn an_earlier_attempt_keeps_its_word_beside_a_later_loss() {
    let at = |attempt: &str, kind: u8| LegRow {
        attempt: attempt.into(),
        ..leg(attempt.parse::<i64>().unwrap() * 10, "7.1", "a", 1, kind)
    };
    for (kind, word) in [(0, "pass"), (1, "fail")] {
        let lost = LegRow { attempts: vec![OtherEpoch::from(&at("1", kind))], ..at("2", 3) };
        let at_once = tested(&[lost], None);
        let cell = serde_json::from_str::<Value>(&at_once).unwrap()["7.1"]["a"].clone();
        assert_eq!((&cell["conclusion"], &cell["last_attempt"]["attempt"]), (&json!(word), &json!("2")), "{at_once}");
        assert_eq!(tested(&[at("2", 3)], Some(&tested(&[at("1", kind)], None))), at_once);
        assert!(due(&at_once, &["7.1".into()], "a").unwrap().is_empty());
    }
}

#[test]
fn what_is_no_row_of_the_file_stays_in_it() {
    let older = r#"{"$schema": "x", "constructor": {}, "7.1": {"b": {"conclusion": "pass", "date": "1970-01-01T00:00:01.000Z", "run_id": "0"}}, "7.1": {}}"#;
    let folded: Value = serde_json::from_str(&tested(&[leg(10, "7.1", "a", 1, 0)], Some(older))).unwrap();
    assert_eq!((&folded["$schema"], &folded["constructor"]), (&json!("x"), &json!({})), "{folded:#}");
    assert_eq!((&folded["7.1"]["a"]["run_id"], &folded["7.1"]["b"]["run_id"]), (&json!("1"), &json!("0")), "{folded:#}");
}

#[test]
fn a_planned_leg_without_a_trace_is_as_old_as_its_run_and_siblings_that_are_not_asked_for_count() {
    let mut missing = leg(0, "7.9", "d", 1, 4);
    (missing.ended_at, missing.scope, missing.terminal) = (None, None, Terminal::NotStarted);
    let text = tested(&[leg(10, "7.1", "a", 1, 0), missing.clone()], None);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["7.9"]["d"]["date"], "1970-01-01T00:00:10.000Z", "{text}");
    missing.resolved = None;
    let narrowed = Summary { others: vec![leg(10, "7.1", "a", 1, 0)], ..summary(vec![missing]) };
    let text = tested_versions(&narrowed, None, None, IncompleteRows::Row).unwrap().text;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["7.1"]["d"]["conclusion"], "incomplete", "{text}");
}

#[test]
fn an_older_file_that_cannot_be_read_is_never_written_over() {
    for older in ["<<<<<<< ours\n{}", "[]", "{\"7.1\":"] {
        assert!(tested_versions(&summary(Vec::new()), Some(older.as_bytes()), None, IncompleteRows::Row).is_err(), "{older}");
        assert!(attempted_legs(&summary(Vec::new()), Some(older.as_bytes())).is_err(), "{older}");
    }
}
