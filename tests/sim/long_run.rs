//! A repro of thousands of files: the leg that runs stays small, what counts stays right.

use ci_ledger::core::event::Envelope;
use ci_ledger::core::fold::Leg;
use ci_ledger::core::ids::{Digest, Seq};
use ci_ledger::core::marker::Marker;
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::core::row::Head;
use serde_json::{Value, json};

struct Writing {
    seq: u64,
    leg: Option<Leg>,
}

impl Writing {
    fn put(&mut self, kind: &str, body: Value) {
        self.seq += 1;
        let line = json!({
            "v": 1, "run_id": "1", "attempt": "1", "platform": "p", "target": "t", "epoch": "e", "seq": self.seq,
            "ts": "2026-07-01T00:00:00.000Z", "mono_ms": self.seq, "prev": Digest::genesis(), "kind": kind, "body": body,
        });
        let envelope: Envelope = serde_json::from_value(line).unwrap();
        let head = Head { seq: Seq(self.seq), digest: Digest::genesis() };
        match &mut self.leg {
            Some(leg) => leg.apply(&envelope, head).unwrap(),
            None => self.leg = Some(Leg::begin(&envelope, head).unwrap()),
        }
        self.leg.as_mut().unwrap().forget_details();
    }
}

#[test]
fn a_leg_of_thousands_of_files_stays_small_and_counts_right() {
    let mut writing = Writing { seq: 0, leg: None };
    writing.put(
        "run-started",
        json!({
            "plan": [], "files_planned": null, "scope": "full", "legs": 1, "command": ["sh"],
            "host": {"os": "linux", "arch": "x86_64"}, "containment": "subreaper", "versions": {},
            "writer": {"pid": 100, "start": 5}, "deadline": null, "heartbeat_s": 1
        }),
    );
    let output = "x".repeat(2000);
    for round in 1..=3000 {
        let outcome = if round % 10 == 0 { "test-failure" } else { "pass" };
        let at = json!({"index": 1, "round": round, "file": "a.sh"});
        let with = |mut more: Value| {
            more.as_object_mut().unwrap().extend(at.as_object().unwrap().clone());
            more
        };
        writing.put("file-started", with(json!({"cap_s": 60, "cap_basis": null, "token": "t", "owner": null, "log": null})));
        writing.put(
            "file-finished",
            with(json!({
                "outcome": outcome, "status": if outcome == "pass" { "pass" } else { "fail" }, "started_at": null, "duration_s": 1,
                "suspended_s": 0, "cap_s": 60, "cap_basis": null, "exit_code": 0, "signal": null, "escalated": false, "containment": null,
                "cleanup": "clean", "cleanup_verified": true, "leftovers": [], "foreign": [], "log": null, "output_bytes": 2000,
                "last_output": output
            })),
        );
    }
    let leg = writing.leg.unwrap();
    assert_eq!(leg.counts(), (3000, 300));
    let kept =
        leg.files().iter().filter(|row| row.outcome == Some(ci_ledger::core::outcome::Outcome::Pass) && row.last_output.is_some());
    assert!(kept.count() <= 64, "passes of long ago still hold their output");
    let failures = leg.files().iter().filter(|row| row.outcome != Some(ci_ledger::core::outcome::Outcome::Pass));
    assert!(failures.clone().count() == 300 && failures.clone().all(|row| row.last_output.is_some()));
    assert!(leg.files().iter().rev().take(64).all(|row| row.last_output.is_some()), "the newest files have lost theirs");
    // What goes out at every heartbeat does not grow with the run either, and counts all of it.
    let marker = Marker::of(&leg, Secs::from_secs(90), Wall(0));
    assert_eq!((marker.row.files.len(), marker.files_omitted), (128, 2872));
    assert_eq!((marker.row.files_reported, marker.row.files_failed), (3000, 300));
    assert_eq!(marker.row.files.last().unwrap().round, 3000);
}
