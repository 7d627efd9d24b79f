//! schema/ says what the events really are.

mod bodies;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ci_ledger::core::event::{EVENT_VERSION, Envelope};
use ci_ledger::core::ids::{Digest, Epoch, Seq};
use ci_ledger::core::schema::documents;
use serde_json::Value;

use bodies::{every_body, leg};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema")
}

const AGAIN: &str = "run 'cargo test --test suite schemas::write_them_again -- --ignored' and look at the difference";

#[test]
fn the_files_are_the_types() {
    let mut expected = BTreeSet::new();
    for document in documents() {
        let path = folder().join(document.file_name());
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == document.text, "{} is out of date: {AGAIN}", path.display());
        expected.insert(document.file_name());
    }
    let names = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<_> = names.filter(|name| name.ends_with(".schema.json")).collect();
    assert_eq!(found, expected, "a schema of a kind that is gone: {AGAIN}");
}

#[test]
#[ignore = "writes schema/*.schema.json"]
fn write_them_again() {
    for document in documents() {
        fs::write(folder().join(document.file_name()), document.text).unwrap();
    }
}

#[test]
fn every_kind_has_a_schema_and_a_paragraph() {
    let kinds: BTreeSet<&str> = every_body().iter().map(|body| body.kind()).collect();
    let named: BTreeSet<&str> = documents().iter().map(|document| document.name).collect();
    assert!(kinds.is_subset(&named), "{kinds:?} {named:?}");
    assert_eq!(kinds.len() + 2, named.len());
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for kind in kinds {
        assert!(readme.contains(&format!("| `{kind}` |")), "schema/README.md says nothing of {kind}");
    }
}

#[test]
fn events_fit_their_schemas_and_come_back_as_they_were() {
    let document = |name: &str| -> Value {
        let document = documents().into_iter().find(|document| document.name == name).unwrap();
        serde_json::from_str(&document.text).unwrap()
    };
    let envelopes = jsonschema::validator_for(&document("envelope")).unwrap();
    for body in every_body() {
        let kind = body.kind();
        let leg = leg();
        let envelope = Envelope {
            v: EVENT_VERSION,
            run_id: leg.run_id,
            attempt: leg.attempt,
            platform: leg.platform,
            target: leg.target,
            shard: leg.shard,
            epoch: Epoch::parse("e").unwrap(),
            seq: Seq(1),
            ts: bodies::START,
            mono_ms: 17,
            body,
            prev: Digest::genesis(),
        };
        let line = serde_json::to_string(&envelope).unwrap();
        let value: Value = serde_json::from_str(&line).unwrap();
        let faults: Vec<String> = envelopes.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{kind}: {faults:?}\n{line}");
        let bodies = jsonschema::validator_for(&document(kind)).unwrap();
        let faults: Vec<String> = bodies.iter_errors(&value["body"]).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{kind}: {faults:?}\n{line}");
        assert_eq!(serde_json::from_str::<Envelope>(&line).unwrap(), envelope);
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected =
            ["v", "run_id", "attempt", "platform", "target", "shard", "epoch", "seq", "ts", "mono_ms", "kind", "body", "prev"]
                .to_vec();
        expected.sort_unstable();
        assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), expected.into_iter().collect::<BTreeSet<_>>());
    }
}
