//! Whether a sink can be written and read back: what `ledger sink check` asks, with the very calls that a run makes.

use crate::core::chain::Stored;
use crate::core::ids::{Digest, Seq};
use crate::core::moment::Wall;

use super::error::{SinkError, Trouble};
use super::source::{FoundLeg, Narrow, open_source};
use super::{Batch, SinkContext, Takes, open};

/// Writes a plan, an event and a marker for this leg, which must be one of its own and not a run's, and reads them back. The reader's
/// view comes back; it has the marker's age by the sink's clock in it.
pub async fn check(url: &str, context: &SinkContext, now: Wall) -> Result<FoundLeg, SinkError> {
    let mut backend = open(url, context)?;
    let run = context.leg.run_id.as_str();
    let line = serde_json::json!({ "seq": 1, "run_id": run, "kind": "sink-check" }).to_string();
    let event = Stored { seq: Seq(1), digest: Digest::of(line.as_bytes()), line: line.as_str().into(), progress: false };
    let marker = line.clone().into_bytes();
    let takes = backend.capabilities().takes;
    backend.position().await?;
    backend.put_plan(line.as_bytes()).await?;
    let events = if takes == Takes::EventsAndMarker { vec![event] } else { Vec::new() };
    backend.send(&Batch { events, marker: marker.clone() }).await?;

    let differs =
        |what: &str| SinkError::new(backend.url(), Trouble::Refused, format!("{what} does not read back as it was written"));
    let source = open_source(url, &context.variables)?;
    let narrow = Narrow {
        run_id: Some(context.leg.run_id.clone()),
        attempt: Some(context.leg.attempt.clone()),
        variables: context.variables.clone(),
        ..Narrow::default()
    };
    let found = source.legs(&narrow, now).await?.pop().ok_or_else(|| differs("the leg"))?;
    if found.marker.as_ref().is_none_or(|there| there.bytes != marker) {
        return Err(differs("the marker"));
    }
    if takes == Takes::EventsAndMarker {
        let name = found.segments.first().ok_or_else(|| differs("the event"))?;
        if source.segment(&found, name).await? != format!("{line}\n").into_bytes() {
            return Err(differs("the event"));
        }
    }
    Ok(found)
}
