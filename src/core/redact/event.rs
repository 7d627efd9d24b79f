//! Events without masked values: every field that carries what other programs wrote.

use super::Redactor;
use crate::core::event::Body;
use crate::core::pattern::Patterns;
use crate::core::process::{Evidence, Foreign, Leftover, ProcessRow};

/// Hides secrets in command lines, names, notes and output. File names stay: they are the plan's own.
pub fn body(mut body: Body, redactor: &Redactor) -> Body {
    match &mut body {
        Body::RunStarted(started) => {
            started.command = redactor.command(&started.command);
            lines(&mut started.warnings, redactor);
            lines(&mut started.recovered, redactor);
            // A pattern that is changed names another program: it goes whole. The obituary beside the ledger has it all the same.
            let patterns: Vec<String> = std::mem::take(&mut started.allow_leftover).into();
            let shown = patterns.into_iter().filter(|pattern| redactor.text(pattern) == *pattern);
            started.allow_leftover = Patterns::new(shown).unwrap_or_default();
        }
        Body::CapExpired(expired) => evidence(&mut expired.evidence, redactor),
        Body::LeftoverFound(found) => leftovers(&mut found.leftovers, redactor),
        Body::FileFinished(finished) => {
            leftovers(&mut finished.leftovers, redactor);
            foreign(&mut finished.foreign, redactor);
            lines(&mut finished.notes, redactor);
            optional(&mut finished.last_output, redactor);
            for component in &mut finished.components {
                component.name = redactor.text(&component.name);
            }
        }
        Body::Heartbeat(beat) => {
            optional(&mut beat.last_output, redactor);
            if let Some(seen) = &mut beat.evidence {
                evidence(seen, redactor);
            }
        }
        Body::SinkDegraded(sink) => sink.error = redactor.text(&sink.error),
        Body::LoopFinished(finished) => optional(&mut finished.why, redactor),
        Body::RunFinished(finished) => finished.sinks.iter_mut().for_each(|sink| optional(&mut sink.error, redactor)),
        Body::SlotQuarantined(slot) => slot.reason = redactor.text(&slot.reason),
        Body::FileStarted(_)
        | Body::HostSampled(_)
        | Body::Suspended(_)
        | Body::SinkRecovered(_)
        | Body::SlotWaiting(_)
        | Body::SlotAcquired(_)
        | Body::SlotReleased(_)
        | Body::Cancelled(_) => {}
    }
    body
}

fn optional(text: &mut Option<String>, redactor: &Redactor) {
    if let Some(text) = text {
        *text = redactor.text(text);
    }
}

fn argv(line: &mut Option<String>, redactor: &Redactor) {
    if let Some(line) = line {
        *line = redactor.command_line(line);
    }
}

fn lines(texts: &mut [String], redactor: &Redactor) {
    texts.iter_mut().for_each(|text| *text = redactor.text(text));
}

fn leftovers(leftovers: &mut [Leftover], redactor: &Redactor) {
    for leftover in leftovers {
        leftover.comm = redactor.text(&leftover.comm);
        optional(&mut leftover.exe, redactor);
        argv(&mut leftover.argv, redactor);
    }
}

fn foreign(foreign: &mut [Foreign], redactor: &Redactor) {
    for foreign in foreign {
        optional(&mut foreign.exe, redactor);
        argv(&mut foreign.argv, redactor);
    }
}

fn evidence(evidence: &mut Evidence, redactor: &Redactor) {
    rows(&mut evidence.tree, redactor);
    rows(&mut evidence.top, redactor);
    lines(&mut evidence.missing, redactor);
    optional(&mut evidence.stack, redactor);
}

fn rows(rows: &mut [ProcessRow], redactor: &Redactor) {
    for row in rows {
        row.comm = redactor.text(&row.comm);
        argv(&mut row.argv, redactor);
    }
}
