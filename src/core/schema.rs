//! The JSON Schemas of everything that leaves a ledger: each event kind's body, the envelope around it, the marker.
//!
//! `schema/` holds them as files, `ledger schema` prints them, and a test compares the two.

use schemars::{Schema, schema_for};

use super::event::{
    Cancelled, CapExpired, Envelope, FileFinished, FileStarted, Heartbeat, HostSampled, LeftoverFound, LoopFinished, RunFinished,
    RunStarted, SinkDegraded, SinkRecovered, SlotHeld, SlotQuarantined, SlotWaiting, Suspended,
};
use super::marker::Marker;

/// One schema, as the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaDocument {
    /// `file-finished`, `envelope`: the file is `NAME.schema.json`.
    pub name: &'static str,
    pub text: String,
}

impl SchemaDocument {
    pub fn file_name(&self) -> String {
        format!("{}.schema.json", self.name)
    }
}

/// Every schema: the envelope, which has all kinds in it, the marker, then one per event kind, in the order in which a run meets them.
pub fn documents() -> Vec<SchemaDocument> {
    let named = |name: &'static str, schema: Schema| SchemaDocument { name, text: render(schema, name) };
    vec![
        named("envelope", schema_for!(Envelope)),
        named("marker", schema_for!(Marker)),
        named("run-started", schema_for!(RunStarted)),
        named("slot-waiting", schema_for!(SlotWaiting)),
        named("slot-acquired", schema_for!(SlotHeld)),
        named("file-started", schema_for!(FileStarted)),
        named("heartbeat", schema_for!(Heartbeat)),
        named("host-sampled", schema_for!(HostSampled)),
        named("suspended", schema_for!(Suspended)),
        named("cap-expired", schema_for!(CapExpired)),
        named("leftover-found", schema_for!(LeftoverFound)),
        named("file-finished", schema_for!(FileFinished)),
        named("sink-degraded", schema_for!(SinkDegraded)),
        named("sink-recovered", schema_for!(SinkRecovered)),
        named("cancelled", schema_for!(Cancelled)),
        named("slot-released", schema_for!(SlotHeld)),
        named("slot-quarantined", schema_for!(SlotQuarantined)),
        named("loop-finished", schema_for!(LoopFinished)),
        named("run-finished", schema_for!(RunFinished)),
    ]
}

fn render(mut schema: Schema, title: &str) -> String {
    schema.insert("title".to_owned(), title.into());
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema has string keys only");
    text.push('\n');
    text
}
