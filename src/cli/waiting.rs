//! How `ledger report --wait-lease` waits: aloud, and not for ever.
//!
//! Nothing in here looks at a source or sleeps.

use crate::core::moment::{Moment, Secs};
use crate::core::outcome::Terminal;
use crate::core::row::{LegRow, Summary};
use crate::report::escape;

/// What says nothing for longer than this beyond its lease will not say anything: the service takes up to 45 minutes to notice that a
/// runner is gone, and a job that is queued that long has no runner to come.
const UNHEARD: Secs = Secs::from_secs(45 * 60);
/// Between two lines about it.
const SAY_EVERY: Secs = Secs::from_secs(30);
/// So many legs are named.
const NAMED: usize = 3;

/// A wait for legs that run.
#[derive(Debug, Default)]
pub struct Waiting {
    /// What the running legs said last, and since when they say no more.
    said: Option<(Vec<Said>, Moment)>,
    told: Option<Moment>,
}

/// The leg, and how far it is; where there is no lease, also what is known of its job.
type Said = (String, Option<u64>, Option<u64>, Option<String>);

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// Nothing runs any more.
    Over,
    /// Look again; what is to be said of it now, if anything.
    Goes(Option<String>),
    /// Nobody has said anything for too long.
    GivenUp(String),
}

impl Waiting {
    pub fn look(&mut self, summary: &Summary, now: Moment) -> Wait {
        let running: Vec<&LegRow> = summary.legs.iter().filter(|leg| leg.terminal == Terminal::Running).collect();
        if running.is_empty() {
            return Wait::Over;
        }
        let said: Vec<Said> = running.iter().map(|leg| said(leg)).collect();
        let since = match &self.said {
            Some((before, since)) if *before == said => *since,
            _ => {
                self.said = Some((said, now));
                now
            }
        };
        let lease = running.iter().filter_map(|leg| leg.lease_s).max().unwrap_or(Secs::ZERO);
        let (bound, quiet) = (lease.saturating_add(UNHEARD), now.since(since));
        if quiet >= bound {
            return Wait::GivenUp(format!("nothing was heard for {quiet} of {}; it is not waited for any longer", names(&running)));
        }
        if self.told.is_some_and(|told| now.since(told) < SAY_EVERY) {
            return Wait::Goes(None);
        }
        self.told = Some(now);
        let until = now.wall.plus(bound.saturating_sub(quiet));
        Wait::Goes(Some(format!("waiting for {}; until {until} if nothing more is heard", names(&running))))
    }
}

fn said(leg: &LegRow) -> Said {
    let of_the_job = leg.lease_s.is_none().then(|| leg.why.clone());
    (format!("{} {:?}", leg.leg(), leg.epoch), leg.progress_seq, leg.heartbeat_seq, of_the_job)
}

fn names(running: &[&LegRow]) -> String {
    let named: Vec<String> = running.iter().take(NAMED).map(|leg| format!("{} ({})", leg.leg().key(), leg.why)).collect();
    let more = running.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    escape::sentence(&format!("{}{more}", named.join(", "))).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Wall;

    fn at(seconds: u64) -> Moment {
        Moment { wall: Wall(seconds as i64 * 1000), mono_ms: seconds * 1000, boot_ms: seconds * 1000 }
    }

    fn summary(legs: Vec<LegRow>) -> Summary {
        Summary::of(Wall(0), legs)
    }

    fn running(beats: Option<u64>, lease: Option<u64>) -> LegRow {
        let leg = crate::core::ids::LegId {
            run_id: "1".into(),
            attempt: "1".into(),
            platform: "linux".into(),
            target: "stable".into(),
            shard: None,
        };
        let mut row = LegRow::named(leg);
        row.terminal = Terminal::Running;
        (row.heartbeat_seq, row.lease_s) = (beats, lease.map(Secs::from_secs));
        row.why = "its job is queued".to_owned();
        row
    }

    #[test]
    fn it_says_at_once_what_it_waits_for_and_then_every_half_minute() {
        let mut waiting = Waiting::default();
        let queued = summary(vec![running(None, None)]);
        let Wait::Goes(Some(text)) = waiting.look(&queued, at(0)) else { panic!("nothing was said") };
        assert_eq!(text, "waiting for linux|stable (its job is queued); until 1970-01-01T00:45:00.000Z if nothing more is heard");
        assert_eq!(waiting.look(&queued, at(29)), Wait::Goes(None));
        assert!(matches!(waiting.look(&queued, at(30)), Wait::Goes(Some(_))));
        assert_eq!(waiting.look(&summary(Vec::new()), at(31)), Wait::Over);
    }

    #[test]
    fn a_leg_that_says_nothing_more_is_not_waited_for_beyond_its_lease_and_the_services_time() {
        let mut waiting = Waiting::default();
        for seconds in [0, 3_000, 6_000] {
            let alive = summary(vec![running(Some(seconds), Some(90)), running(None, None)]);
            assert!(matches!(waiting.look(&alive, at(seconds)), Wait::Goes(Some(_))), "a leg that lives is waited for, {seconds}");
        }
        let silent = summary(vec![running(Some(6_000), Some(90)), running(None, None)]);
        assert!(matches!(waiting.look(&silent, at(6_000 + 2_789)), Wait::Goes(Some(_))));
        assert!(matches!(waiting.look(&silent, at(6_000 + 2_790)), Wait::GivenUp(_)));
    }
}
