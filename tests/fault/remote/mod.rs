//! Sinks across a network, against real servers on loopback: ours that go wrong on purpose, and those that people run.

mod cases;
mod collector;
#[cfg(target_os = "linux")]
mod cut;
mod failing;
mod fake_github;
mod front;
mod github;
mod https;
mod killed;
mod listings;
mod lost;
mod objects;
mod requests;
mod servers;
#[cfg(target_os = "linux")]
mod stopped;
mod witnesses;

use ci_ledger::core::chain::Stored;
use ci_ledger::core::event::HostInfo;
use ci_ledger::core::ids::{Digest, Epoch, LegId, Seq};
use ci_ledger::core::marker::{MARKER_VERSION, Marker};
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::core::outcome::{Conclusion, Terminal};
use ci_ledger::core::process::ProcessId;
use ci_ledger::core::row::{Head, LegRow};
use ci_ledger::sink::{Batch, SinkContext, Variables};

pub fn leg_id() -> LegId {
    LegId { run_id: "77".into(), attempt: "1".into(), platform: "macos x86/é".into(), target: "stable".into(), shard: None }
}

pub fn context(variables: &Variables) -> SinkContext {
    let mut context = SinkContext::new(leg_id(), Epoch::parse("01990000-0000-7000-8000-000000000001").unwrap());
    context.sha = Some("abc".into());
    context.variables = variables.clone();
    context
}

/// A marker of this context that knows events up to `seq`.
pub fn marker(context: &SinkContext, seq: u64, closed: bool) -> Marker {
    let mut row = LegRow::named(context.leg.clone());
    row.epoch = Some(context.epoch.clone());
    row.lease_s = Some(Secs::from_secs(90));
    row.head = Some(Head { seq: Seq(seq), digest: Digest::genesis() });
    row.current_file = (!closed).then(|| format!("file-{seq}.test"));
    row.last_output = Some("last line é</details>\n```\n@team ::error::x".to_owned());
    row.files_planned = Some(12);
    if closed {
        row.terminal = Terminal::Complete;
        row.conclusion = Some(Conclusion::Pass);
    }
    Marker {
        v: MARKER_VERSION,
        if_silent: Terminal::RunnerLost,
        written_at: Wall(1_700_000_000_000),
        host: HostInfo::default(),
        writer: ProcessId { pid: 1, start: 1 },
        closed,
        files_omitted: 0,
        row,
    }
}

pub fn event(seq: u64) -> Stored {
    let line = format!("{{\"seq\":{seq},\"kind\":\"needed\",\"text\":\"é{seq}\"}}");
    Stored { seq: Seq(seq), digest: Digest::of(line.as_bytes()), line: line.into(), progress: true }
}

pub fn batch(context: &SinkContext, seqs: std::ops::RangeInclusive<u64>) -> Batch {
    let last = *seqs.end();
    Batch { events: seqs.map(event).collect(), marker: marker(context, last, false).render(60_000) }
}
