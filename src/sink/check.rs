//! Whether a sink can be written and read back: what `ledger sink check` asks, with the very calls that a run makes.

use serde_json::Value;

use crate::core::chain::Stored;
use crate::core::event::HostInfo;
use crate::core::ids::{Digest, LegId, Seq};
use crate::core::marker::{MARKER_VERSION, Marker};
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Terminal;
use crate::core::process::ProcessId;
use crate::core::row::{Head, LegRow};

use super::error::{SinkError, Trouble};
use super::source::{FoundLeg, Narrow, open_source};
use super::{Backend, Batch, Removed, SinkContext, Takes, open};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The reader's view; it has the marker's age by the sink's clock in it.
    pub leg: FoundLeg,
    /// A sink that can be written and read and not emptied does its work all the same.
    pub removed: Result<Removed, SinkError>,
}

/// How a check's leg is named where it must not be taken for a run's.
pub const CHECK: &str = "ledger-check";

/// Whether a run's id is a check's. Where a check was killed, or nothing may be deleted, its leg stays in the sink; it is no evidence of
/// a run, and no reader shows it unless it is asked for.
pub(super) fn is_check(run: &str) -> bool {
    run.strip_prefix(CHECK)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|id| uuid::Uuid::try_parse(id).is_ok()))
}

/// The leg of a check.
pub fn check_leg(run: &str) -> LegId {
    LegId { run_id: run.into(), attempt: "1".into(), platform: CHECK.into(), target: "sink".into(), shard: None }
}

/// Writes a plan, an event and a marker for this leg, which must be one of its own and not a run's, reads them back, and takes them away.
pub async fn check(url: &str, context: &SinkContext, now: Wall) -> Result<Checked, SinkError> {
    let mut backend = open(url, context)?;
    let read_back = write_and_read_back(url, backend.as_mut(), context, now).await;
    // Also after a failure: an answer that was lost says nothing of what was written.
    let wrong_url = matches!(&read_back, Err(error) if error.trouble == Trouble::Usage);
    let removed = if wrong_url { Ok(Removed::Gone) } else { backend.remove().await };
    Ok(Checked { leg: read_back?, removed })
}

async fn write_and_read_back(
    url: &str,
    backend: &mut dyn Backend,
    context: &SinkContext,
    now: Wall,
) -> Result<FoundLeg, SinkError> {
    let run = context.leg.run_id.as_str();
    let line = serde_json::json!({ "seq": 1, "run_id": run, "kind": "sink-check" }).to_string();
    let event = Stored { seq: Seq(1), digest: Digest::of(line.as_bytes()), line: line.as_str().into(), progress: false };
    let marker = marker(context, &event, now);
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
    let found = source.legs(&narrow, now).await?;
    // Equal as JSON: a collector may keep its marker parsed.
    let written = serde_json::from_slice::<Value>(&marker).ok();
    let same =
        |leg: &FoundLeg| leg.marker.as_ref().is_some_and(|there| serde_json::from_slice::<Value>(&there.bytes).ok() == written);
    let leg = found.into_iter().find(same);
    let leg = leg.ok_or_else(|| differs("the marker"))?;
    if takes == Takes::EventsAndMarker {
        let name = leg.segments.first().ok_or_else(|| differs("the event"))?;
        if source.segment(&leg, name).await? != format!("{line}\n").into_bytes() {
            return Err(differs("the event"));
        }
    }
    Ok(leg)
}

fn marker(context: &SinkContext, event: &Stored, now: Wall) -> Vec<u8> {
    let mut row = LegRow::named(context.leg.clone());
    row.epoch = Some(context.epoch.clone());
    row.terminal = Terminal::Complete;
    row.why = "a check of this sink, and no run".to_owned();
    row.lease_s = Some(Secs::ZERO);
    row.head = Some(Head { seq: event.seq, digest: event.digest.clone() });
    let marker = Marker {
        v: MARKER_VERSION,
        if_silent: Terminal::RunnerLost,
        written_at: now,
        host: HostInfo::default(),
        writer: ProcessId { pid: 0, start: 0 },
        closed: true,
        files_omitted: 0,
        row,
    };
    marker.render(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_that_a_check_makes_are_a_checks() {
        for (run, checks) in [
            ("ledger-check", true),
            ("ledger-check-0192f3a4-0000-7000-8000-000000000000", true),
            ("ledger-check-1", false),
            ("ledger-check-", false),
            ("ledger-checks", false),
            ("17384", false),
        ] {
            assert_eq!(is_check(run), checks, "{run}");
        }
    }
}
