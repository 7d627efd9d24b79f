//! `--format ctrf`: the common test report format, one JSON document.
//!
//! A planned file without a record counts as failed there, because `"failed": 0` beside missing results would be read as success.

use serde_json::{Map, Value, json};

use crate::core::row::{LegRow, Summary};
use crate::report::cases::{self, Case, Kind};
use crate::report::escape;
use crate::report::words::{self, Verdict};

/// The version of the format that this file was written against.
const SPEC_VERSION: &str = "0.1.0";

pub fn render(summary: &Summary) -> String {
    let tests: Vec<Value> = summary.rows().flat_map(|leg| cases::of(leg).into_iter().map(|case| test(leg, &case))).collect();
    let count = |word: &str| tests.iter().filter(|test| test["status"] == word).count();
    let start = summary.legs.iter().filter_map(|leg| leg.started_at).min().unwrap_or(summary.generated_at);
    let ends = summary.legs.iter().filter_map(|leg| leg.ended_at.max(leg.last_checkpoint_ts).max(leg.last_heartbeat_ts));
    let stop = ends.max().unwrap_or(summary.generated_at);
    let legs: Vec<Value> = summary.legs.iter().map(leg_extra).collect();
    let mut document = json!({
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "timestamp": summary.generated_at,
        "generatedBy": "ledger",
        "results": {
            "tool": {"name": "ledger", "version": env!("CARGO_PKG_VERSION")},
            "summary": {
                "tests": tests.len(), "passed": count("passed"), "failed": count("failed"), "skipped": 0, "pending": count("pending"), "other": 0,
                "suites": summary.legs.len(), "start": start.0, "stop": stop.0
            },
            "environment": environment(summary),
            "extra": {"legs": legs}
        }
    });
    document["results"]["tests"] = Value::Array(tests);
    let mut text = serde_json::to_string_pretty(&document).expect("a value has a JSON form");
    text.push('\n');
    text
}

fn environment(summary: &Summary) -> Value {
    let mut environment = Map::new();
    environment.insert("healthy".to_owned(), summary.legs.iter().all(|leg| Verdict::of(leg) == Verdict::Pass).into());
    // Only what all legs share says something of the whole.
    let shared = |of: fn(&LegRow) -> Option<&str>| {
        let first = summary.legs.first().and_then(of)?;
        summary.legs.iter().all(|leg| of(leg) == Some(first)).then(|| escape::name(first))
    };
    let facts = [
        ("buildId", shared(|leg| Some(leg.run_id.as_str()))),
        ("commit", shared(|leg| leg.sha.as_deref())),
        ("osPlatform", shared(|leg| Some(leg.platform.as_str()))),
        ("appVersion", shared(|leg| leg.resolved.as_deref())),
    ];
    environment.extend(facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
    Value::Object(environment)
}

fn leg_extra(leg: &LegRow) -> Value {
    let facts = cases::leg_facts(leg).into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    Value::Object(facts.collect())
}

fn test(leg: &LegRow, case: &Case) -> Value {
    let status = match case.kind {
        Kind::Passed => "passed",
        Kind::Failed | Kind::Error => "failed",
        Kind::Pending => "pending",
    };
    let mut test = Map::new();
    let mut put = |name: &str, value: Value| drop(test.insert(name.to_owned(), value));
    put("name", case.name.as_str().into());
    put("status", status.into());
    put("rawStatus", case.word.as_str().into());
    // The format wants a number; a duration that is not known is `null` under `extra`.
    put("duration", case.duration.map_or(0, |duration| duration.millis()).into());
    put("suite", json!([words::leg_title(leg)]));
    put("type", "integration".into());
    if let Some(path) = &case.path {
        put("filePath", path.as_str().into());
    }
    if let Some(started) = case.started_at {
        put("start", started.0.into());
        if let Some(duration) = case.duration {
            put("stop", started.plus(duration).0.into());
        }
    }
    if case.kind != Kind::Passed {
        put("message", case.message.as_str().into());
    }
    if !case.output.is_empty() {
        put(if case.kind == Kind::Passed { "stdout" } else { "trace" }, output(case));
    }
    let mut extra = Map::from_iter([("duration_s".to_owned(), json!(case.duration))]);
    for (name, value) in &case.facts {
        match extra.get_mut(*name) {
            Some(Value::Array(values)) => values.push(value.as_str().into()),
            Some(one) => *one = json!([one.take(), value]),
            None => drop(extra.insert((*name).to_owned(), value.as_str().into())),
        }
    }
    put("extra", Value::Object(extra));
    Value::Object(test)
}

fn output(case: &Case) -> Value {
    if case.kind == Kind::Passed { case.output.lines().collect() } else { case.output.as_str().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    /// The rules of the public schema that a document of ours can break, written down from its documentation.
    fn rules() -> Value {
        let statuses = json!({"enum": ["passed", "failed", "skipped", "pending", "other"]});
        let (text, whole, object) = (json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "object"}));
        let name = json!({"type": "string", "minLength": 1});
        let lines = json!({"type": "array", "items": text});
        let test = json!({
            "type": "object", "required": ["name", "status", "duration"], "additionalProperties": false,
            "properties": {"name": name, "status": statuses, "duration": whole, "start": whole, "stop": whole, "message": text, "trace": text,
                "rawStatus": text, "type": text, "filePath": text, "suite": {"type": "array", "minItems": 1, "items": text}, "stdout": lines, "extra": object}
        });
        let counts = ["tests", "passed", "failed", "skipped", "pending", "other", "start", "stop"];
        let mut summary: Map<String, Value> = counts.iter().map(|name| ((*name).to_owned(), whole.clone())).collect();
        summary.insert("suites".to_owned(), whole.clone());
        let environment = json!({"type": "object", "additionalProperties": false, "properties": {"buildId": text, "commit": text, "osPlatform": text,
            "appVersion": text, "healthy": {"type": "boolean"}, "extra": object}});
        json!({
            "type": "object", "required": ["results", "reportFormat", "specVersion"], "additionalProperties": false,
            "properties": {
                "reportFormat": {"const": "CTRF"}, "specVersion": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$"},
                "timestamp": {"type": "string", "format": "date-time"}, "generatedBy": text, "extra": object,
                "results": {
                    "type": "object", "required": ["tool", "summary", "tests"], "additionalProperties": false,
                    "properties": {
                        "tool": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {"name": name, "version": text, "extra": object}},
                        "summary": {"type": "object", "required": counts, "additionalProperties": false, "properties": summary},
                        "tests": {"type": "array", "items": test}, "environment": environment, "extra": object
                    }
                }
            }
        })
    }

    #[test]
    fn documents_keep_the_rules_of_the_schema() {
        let validator = jsonschema::validator_for(&rules()).expect("it is well formed");
        for summary in [fixtures::night(), fixtures::hostile(), fixtures::empty()] {
            let document: Value = serde_json::from_str(&render(&summary)).expect("JSON that fits");
            let errors: Vec<String> =
                validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{errors:#?}");
            let counts = &document["results"]["summary"];
            let sum = ["passed", "failed", "skipped", "pending", "other"]
                .iter()
                .map(|name| counts[*name].as_u64().expect("a value of that kind"))
                .sum::<u64>();
            assert_eq!(sum, counts["tests"].as_u64().expect("a value of that kind"));
        }
    }

    #[test]
    fn a_night() {
        let text = render(&fixtures::night()).replace(env!("CARGO_PKG_VERSION"), "[version]");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn hostile_text_is_inert() {
        let document = render(&fixtures::hostile());
        assert!(document.chars().all(|c| c == '\n' || !c.is_control()));
        assert!(!document.contains("\\u001b") && !document.contains('\u{202e}') && !document.contains("\\u0000"));
    }
}
