//! What people are told of a pool.

use super::{Holder, Party, PoolView, Slot};
use crate::core::moment::{Secs, Wall};

/// A waiter's line.
pub fn waiting(pool: &PoolView, ticket: Option<u64>, waited: Secs, now: Wall) -> String {
    let ahead = ticket.map_or(0, |ticket| pool.ahead_of(ticket));
    let mut text = format!("waiting for a slot of pool '{}' for {waited}: {}", pool.name, standing(pool));
    if ahead > 0 {
        text.push_str(&format!(", {ahead} waiting before this one"));
    }
    for line in holders(pool, now) {
        text.push_str("; ");
        text.push_str(&line);
    }
    text
}

/// `2 of 3 held, 1 in quarantine`.
pub fn standing(pool: &PoolView) -> String {
    let quarantined = pool.quarantined();
    let kept = if quarantined > 0 { format!(", {quarantined} in quarantine") } else { String::new() };
    format!("{} of {} held{kept}", pool.held(), pool.capacity)
}

/// For one who looks at a pool whose record is damaged.
pub fn damaged(pool: &str) -> String {
    format!(
        "the record of pool '{pool}' (pool.json) is damaged: its capacity is not known and is taken as 1; the next `ledger pool run --pool \
         NAME --slots N` writes it anew"
    )
}

/// For one who has written it anew.
pub fn mended(pool: &str, capacity: u32, stated: bool) -> String {
    let next = if stated { "" } else { "; say --slots N if it has more" };
    let slots = if capacity == 1 { "slot" } else { "slots" };
    format!("the record of pool '{pool}' was damaged and is written anew, with {capacity} {slots}{next}")
}

/// One line for each slot that is not free.
pub fn holders(pool: &PoolView, now: Wall) -> Vec<String> {
    pool.slots.iter().filter_map(|slot| line(slot, now)).collect()
}

fn line(slot: &Slot, now: Wall) -> Option<String> {
    if let Some(holder) = &slot.holder {
        return Some(format!("slot {}: {}", slot.number, held_by(holder, now)));
    }
    let kept = slot.quarantine.as_ref()?;
    let left = kept.expires.since(now);
    Some(format!("slot {}: in quarantine for {left} more, until {}: {}", slot.number, kept.expires, kept.reason))
}

fn held_by(holder: &Holder, now: Wall) -> String {
    let Some(party) = &holder.party else { return "held by a process that has not signed for it".to_owned() };
    let gone = if holder.is_tracked { "" } else { ", which is gone: something it started still holds the lock" };
    format!("held by {}{gone}, for {}", who(party), now.since(party.since))
}

fn who(party: &Party) -> String {
    let mut text = format!("pid {}", party.id.pid);
    if let Some(run_id) = &party.run_id {
        text.push_str(&format!(", run {run_id}"));
    }
    if let Some(leg) = &party.leg {
        text.push_str(&format!(", {leg}"));
    }
    text
}
