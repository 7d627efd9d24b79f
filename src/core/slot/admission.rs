//! Who may go in. The caller holds the pool's gate, so that nobody else is admitted between the look and the lock.

use super::PoolView;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Lock this slot, now.
    Take(u32),
    Wait,
}

/// Whether the waiter with this ticket goes in.
///
/// What counts is how many slots are occupied, not which: holders above a capacity that has shrunk still count, and so do slots in
/// quarantine. A waiter further back goes in too when there are enough free slots for all ahead of it.
pub fn admit(pool: &PoolView, ticket: u64) -> Admission {
    if pool.free() <= pool.ahead_of(ticket) {
        return Admission::Wait;
    }
    let taken: Vec<u32> = pool.slots.iter().filter(|slot| !slot.is_free()).map(|slot| slot.number).collect();
    // Fewer than `capacity` are occupied, so one of the first `capacity` numbers is free.
    match (1..=pool.capacity).find(|number| !taken.contains(number)) {
        Some(number) => Admission::Take(number),
        None => Admission::Wait,
    }
}
