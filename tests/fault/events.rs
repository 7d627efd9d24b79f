//! Events and ledgers for the tests of this folder.

use ci_ledger::core::event::{Body, Cancelled, HostSampled, RunFinished, SampledAt};
use ci_ledger::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Seq, Target};
use ci_ledger::core::moment::{Moment, Wall};
use ci_ledger::core::sample::HostSample;
use ci_ledger::store::{Event, LedgerFolder, Reader, StoreError, WriteFaults, Writer, WriterOptions};

pub const START: Wall = Wall(1_760_000_000_000);

pub fn leg() -> LegId {
    LegId {
        run_id: RunId::from("1738"),
        attempt: Attempt::from("1"),
        platform: Platform::from("linux-x64"),
        target: Target::from("stable"),
        shard: None,
    }
}

pub fn moment(ms: u64) -> Moment {
    Moment { wall: Wall(START.0 + ms as i64), mono_ms: ms, boot_ms: ms }
}

/// An event that must never be dropped, recognisable by its text.
pub fn needed(text: &str) -> Body {
    Body::Cancelled(Cancelled { signal: text.to_owned(), file: None })
}

pub fn expendable() -> Body {
    Body::HostSampled(HostSampled { at: SampledAt::Heartbeat, sample: HostSample { load_1m: Some(0.5), ..HostSample::default() } })
}

pub fn run_finished() -> Body {
    Body::RunFinished(RunFinished { exit_code: 0, sinks: Vec::new(), dropped: 0 })
}

pub fn writer(folder: &LedgerFolder, epoch: &str) -> Writer {
    Writer::create(folder, leg(), Epoch::parse(epoch).unwrap(), START, WriterOptions::default()).unwrap()
}

pub fn failing_writer(folder: &LedgerFolder, faults: impl WriteFaults + 'static) -> Result<Writer, StoreError> {
    Writer::create(folder, leg(), Epoch::parse("e").unwrap(), START, WriterOptions { faults: Box::new(faults) })
}

/// The texts of every needed event of a ledger, with their numbers.
pub fn stored_texts(path: &std::path::Path) -> Vec<(u64, String)> {
    let reader = Reader::open(path).unwrap();
    let mut texts = Vec::new();
    for line in reader.lines_after(Seq(0)) {
        let Event::Known(envelope) = Event::from(line.unwrap()) else { panic!("an unreadable line") };
        if let Body::Cancelled(cancelled) = envelope.body {
            texts.push((envelope.seq.0, cancelled.signal));
        }
    }
    texts
}
