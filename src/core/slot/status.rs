//! `ledger pool status --json`.

use serde::Serialize;

use super::{Party, PoolView, Slot};
use crate::core::moment::Wall;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolsDocument {
    pub v: u32,
    pub pools: Vec<PoolRow>,
}

impl PoolsDocument {
    pub fn of(pools: &[PoolView]) -> Self {
        Self { v: 1, pools: pools.iter().map(PoolRow::of).collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolRow {
    pub name: String,
    pub capacity: u32,
    pub held: u32,
    pub quarantined: u32,
    pub waiting: u32,
    pub holders: Vec<HolderRow>,
    pub waiters: Vec<WaiterRow>,
    pub quarantines: Vec<QuarantineRow>,
    /// Everything is held or kept, and nothing tracked runs: this host admits nothing and looks idle.
    pub black_hole: bool,
    /// The pool's record cannot be read: its capacity is taken as 1 until the next run states one.
    pub damaged: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HolderRow {
    pub slot: u32,
    pub pid: Option<i32>,
    pub run_id: Option<String>,
    pub leg: Option<String>,
    pub since: Option<Wall>,
    pub tracked: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaiterRow {
    pub pid: Option<i32>,
    pub run_id: Option<String>,
    pub leg: Option<String>,
    pub since: Option<Wall>,
    pub stalled: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuarantineRow {
    pub slot: u32,
    pub reason: String,
    pub since: Wall,
    pub expires: Wall,
}

impl PoolRow {
    pub fn of(pool: &PoolView) -> Self {
        Self {
            name: pool.name.clone(),
            capacity: pool.capacity,
            held: pool.held(),
            quarantined: pool.quarantined(),
            waiting: u32::try_from(pool.waiters.len()).unwrap_or(u32::MAX),
            holders: pool.slots.iter().filter_map(holder).collect(),
            waiters: pool.waiters.iter().map(|waiter| row_of(waiter.party.as_ref(), waiter.is_stalled)).collect(),
            quarantines: pool.slots.iter().filter_map(quarantine).collect(),
            black_hole: is_black_hole(pool),
            damaged: pool.is_damaged,
        }
    }
}

fn holder(slot: &Slot) -> Option<HolderRow> {
    let holder = slot.holder.as_ref()?;
    let who = row_of(holder.party.as_ref(), false);
    Some(HolderRow {
        slot: slot.number,
        pid: who.pid,
        run_id: who.run_id,
        leg: who.leg,
        since: who.since,
        tracked: holder.is_tracked,
    })
}

fn row_of(party: Option<&Party>, stalled: bool) -> WaiterRow {
    WaiterRow {
        pid: party.map(|party| party.id.pid),
        run_id: party.and_then(|party| party.run_id.clone()),
        leg: party.and_then(|party| party.leg.clone()),
        since: party.map(|party| party.since),
        stalled,
    }
}

fn quarantine(slot: &Slot) -> Option<QuarantineRow> {
    let kept = slot.quarantine.as_ref()?;
    Some(QuarantineRow { slot: slot.number, reason: kept.reason.clone(), since: kept.since, expires: kept.expires })
}

/// The failure that a count of jobs hides: nothing more goes in, and nothing that anybody tracks is inside.
pub fn is_black_hole(pool: &PoolView) -> bool {
    pool.free() == 0 && !pool.slots.iter().any(|slot| slot.holder.as_ref().is_some_and(|holder| holder.is_tracked))
}
