//! Slots by table and by walking through every order of events.

use super::explore::{Admit, Event, Machine, Refuted, Size, explore};
use super::*;
use crate::core::moment::{Moment, Secs};

const SMALL: Size = Size { processes: 2, capacity: 1, capacities: &[1, 2], changes: 2, teardown: Teardown::Command };

#[test]
fn no_interleaving_loses_a_slot_or_admits_one_too_many() {
    let states = explore_all(&[
        ("2 processes, 3 slots, capacity changed", Size { capacity: 2, capacities: &[1, 3], changes: 1, ..SMALL }),
        ("3 processes, 1 slot", Size { processes: 3, changes: 0, ..SMALL }),
        ("3 processes, no destroy command", Size { processes: 3, changes: 0, teardown: Teardown::TreeOnly, ..SMALL }),
    ]);
    assert!(states > 35_000, "the worlds have shrunk: {states} states");
}

/// Two to three minutes without optimisation: `cargo test --lib larger_world -- --ignored --nocapture`.
#[test]
#[ignore = "the same with more changes of capacity; minutes without optimisation"]
fn no_interleaving_of_a_larger_world_does_either() {
    let states = explore_all(&[
        ("2 processes, 3 slots, capacity changed 3 times", Size { capacity: 2, capacities: &[1, 2, 3], changes: 3, ..SMALL }),
        ("3 processes, 2 slots, capacity changed twice", Size { processes: 3, capacity: 2, ..SMALL }),
        ("3 processes, no destroy command", Size { processes: 3, teardown: Teardown::TreeOnly, ..SMALL }),
    ]);
    assert!(states > 600_000, "the worlds have shrunk: {states} states");
}

fn explore_all(sizes: &[(&str, Size)]) -> usize {
    let mut states = 0;
    for (what, size) in sizes {
        let explored = explore::<Hold>(*size, admit).unwrap_or_else(|refuted| panic!("{what}: {}", told(&refuted)));
        eprintln!("{what}: {} states, {} transitions, depth {}", explored.states, explored.transitions, explored.depth);
        states += explored.states;
    }
    eprintln!("{states} states in all");
    states
}

/// (a): past the deadline the device is destroyed and the job untracked, and the reservation stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct DeadlineKeepsSlot(Hold);

/// (b): "not yours" is treated as a failure, and the fence is skipped because somebody else has the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NotMineKeepsSlot(Hold);

/// The lock is given back before the record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ReleasesBeforeTheRecord(Hold);

/// A destroy that failed is taken for one that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TrustsADestroyThatFailed(Hold);

macro_rules! naive {
    ($name:ident, $step:expr) => {
        impl Machine for $name {
            fn waiting(teardown: Teardown) -> Self {
                Self(Hold::waiting(teardown))
            }

            fn phase(&self) -> Phase {
                self.0.phase()
            }

            fn is_tracked(&self) -> bool {
                self.0.is_tracked()
            }

            fn step(&mut self, input: Input) -> Vec<Effect> {
                let effects = Machine::step(&mut self.0, input);
                let change: fn(Phase, Input, Vec<Effect>) -> Vec<Effect> = $step;
                change(self.0.phase(), input, effects)
            }
        }
    };
}

naive!(DeadlineKeepsSlot, |phase, _, effects| match phase {
    Phase::Over(End::Released(Why::Deadline)) => Vec::new(),
    _ => effects,
});
naive!(NotMineKeepsSlot, |_, input, effects| match input {
    Input::Destroyed(Answer::NotMine) => Vec::new(),
    _ => effects,
});
naive!(ReleasesBeforeTheRecord, |_, _, mut effects| {
    effects.reverse();
    effects
});
naive!(TrustsADestroyThatFailed, |_, _, mut effects| {
    effects.retain(|effect| !matches!(effect, Effect::Quarantine(_)));
    effects
});

#[test]
fn the_naive_deadline_of_28_silent_hours_is_refuted() {
    refuted::<DeadlineKeepsSlot>(SMALL, admit, "a lost slot", |events| {
        events.contains(&Event::Told(0, Input::DeadlinePassed)) && events.contains(&Event::Told(0, Input::Destroyed(Answer::Gone)))
    });
}

#[test]
fn the_naive_answer_to_not_yours_is_refuted() {
    refuted::<NotMineKeepsSlot>(SMALL, admit, "a lost slot", |events| events.contains(&Event::ClaimedByAnother(0)));
}

#[test]
fn a_device_that_may_still_run_is_met_by_nobody() {
    refuted::<ReleasesBeforeTheRecord>(SMALL, admit, "may still run", |events| events.contains(&Event::Looks(1)));
    refuted::<TrustsADestroyThatFailed>(SMALL, admit, "may still run", |events| events.contains(&Event::Looks(1)));
}

#[test]
fn naive_admissions_are_refuted() {
    // The first free lock up to N: whoever sits above a capacity that has shrunk is forgotten.
    let by_number: Admit = |pool, _| {
        let free = |number: &u32| pool.slots.iter().all(|slot| slot.number != *number || slot.is_free());
        (1..=pool.capacity).find(free).map_or(Admission::Wait, Admission::Take)
    };
    let size = Size { processes: 3, capacity: 2, capacities: &[1], changes: 1, ..SMALL };
    refuted::<Hold>(size, by_number, "one too many", |events| events.contains(&Event::CapacityIs(1)));
    // Strict order: a waiter that is stopped keeps everybody out.
    let strict: Admit = |pool, ticket| {
        if pool.waiters.iter().any(|waiter| waiter.ticket < ticket) { Admission::Wait } else { admit(pool, ticket) }
    };
    refuted::<Hold>(SMALL, strict, "no waiter may go in", |events| events.contains(&Event::Stalls(0)));
}

fn refuted<M: Machine>(size: Size, admit: Admit, what: &str, way: fn(&[Event]) -> bool) {
    let found = explore::<M>(size, admit).expect_err("the naive variant must be refuted");
    eprintln!("{}: {}", std::any::type_name::<M>(), told(&found));
    assert!(found.what.contains(what), "{}", told(&found));
    assert!(way(&found.trace), "{}", told(&found));
}

fn told(refuted: &Refuted) -> String {
    let steps: Vec<String> = refuted.trace.iter().map(|event| format!("{event:?}")).collect();
    format!("{} after {}", refuted.what, steps.join(" → "))
}

#[test]
fn every_end_gives_back_what_was_taken() {
    let table: &[(Teardown, &[Input], &[Effect], End)] = &[
        (Teardown::Command, &[Input::Cancelled], &[Effect::GiveWay], End::GaveWay),
        (
            Teardown::Command,
            &[Input::Admitted, Input::Succeeded, Input::SweptClean],
            &[Effect::Start, Effect::Sweep, Effect::Release],
            End::Released(Why::Success),
        ),
        (
            Teardown::Command,
            &[Input::Admitted, Input::DeadlinePassed, Input::Failed, Input::SweptUnknown, Input::Destroyed(Answer::Gone)],
            &[Effect::Start, Effect::Sweep, Effect::Destroy(Why::Deadline), Effect::Release],
            End::Released(Why::Deadline),
        ),
        (
            Teardown::Command,
            &[Input::Admitted, Input::Failed, Input::SweptClean, Input::Destroyed(Answer::NotMine)],
            &[Effect::Start, Effect::Sweep, Effect::Destroy(Why::Failure), Effect::Release],
            End::Released(Why::Failure),
        ),
        (
            Teardown::Command,
            &[Input::Admitted, Input::Cancelled, Input::SweptClean, Input::Cancelled, Input::Destroyed(Answer::NoAnswer)],
            &[Effect::Start, Effect::Sweep, Effect::Destroy(Why::Cancelled), Effect::Quarantine(Reason::NoAnswer), Effect::Release],
            End::Quarantined(Why::Cancelled, Reason::NoAnswer),
        ),
        (
            Teardown::TreeOnly,
            &[Input::Admitted, Input::Failed, Input::SweptDirty],
            &[Effect::Start, Effect::Sweep, Effect::Quarantine(Reason::Survivors), Effect::Release],
            End::Quarantined(Why::Failure, Reason::Survivors),
        ),
        (
            Teardown::TreeOnly,
            &[Input::Admitted, Input::Failed, Input::SweptUnknown],
            &[Effect::Start, Effect::Sweep, Effect::Release],
            End::Released(Why::Failure),
        ),
    ];
    for (teardown, inputs, effects, end) in table {
        let mut hold = Hold::waiting(*teardown);
        let done: Vec<Effect> = inputs.iter().flat_map(|&input| hold.step(input).expect("the step is allowed")).collect();
        assert_eq!((done.as_slice(), hold.phase()), (*effects, Phase::Over(*end)), "{inputs:?}");
    }
    let mut waiting = Hold::waiting(Teardown::Command);
    let illegal = waiting.step(Input::Destroyed(Answer::Gone)).expect_err("it is refused");
    assert_eq!(illegal.phase, Phase::Waiting);
}

#[test]
fn pool_names_make_one_harmless_folder_each() {
    for name in ["mac", "../../etc/passwd", "/", ".", "..", "CON", "a b", "é", "a/b", "a\\b", &"x".repeat(200)] {
        let folder = name.parse::<PoolName>().expect("it is well formed").folder();
        assert!(folder.len() <= 60 && folder.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')), "{folder}");
    }
    let folder = |name: &str| name.parse::<PoolName>().expect("it is well formed").folder();
    assert_ne!(folder("mac").to_lowercase(), folder("MAC").to_lowercase());
    assert_ne!(folder("a/b"), folder("a_b"));
    for name in ["", "a\nb", "a\0b", "\u{1b}[31m", &"x".repeat(201)] {
        assert!(name.parse::<PoolName>().is_err(), "{name:?}");
    }
}

#[test]
fn a_waiter_speaks_at_once_and_then_every_30_seconds() {
    let at = |seconds: u64| Moment { wall: Wall(0), mono_ms: seconds * 1000, boot_ms: 0 };
    let mut pacing = Pacing::default();
    let said: Vec<u64> = (100..200).filter(|&second| pacing.due(at(second)) == Due::Now).collect();
    assert_eq!(said, [100, 130, 160, 190]);
}

#[test]
fn a_quarantine_ends_whatever_the_clock_did() {
    let kept = Quarantine::begin("no answer".to_owned(), Wall(1_000_000), Secs::from_secs(600));
    assert_eq!(kept.standing(Wall(1_599_999)), Standing::Stands);
    assert_eq!(kept.standing(Wall(1_600_000)), Standing::Expired);
    let ahead = Quarantine::begin("no answer".to_owned(), Wall(9_000_000_000), Secs::from_secs(600));
    let Standing::Rebased(anew) = ahead.standing(Wall(1_000_000)) else { panic!("it would stand for months") };
    assert_eq!((anew.since, anew.expires), (Wall(1_000_000), Wall(1_600_000)));
}

#[test]
fn a_black_hole_is_told_from_a_busy_pool() {
    let party = Party { id: ProcessId { pid: 7, start: 1 }, run_id: Some("5".to_owned()), leg: None, since: Wall(0) };
    let held = |is_tracked| Some(Holder { party: Some(party.clone()), is_tracked });
    let kept = || Some(Quarantine::begin("no answer".to_owned(), Wall(0), Secs::from_secs(60)));
    let pool = |slots: Vec<(Option<Holder>, Option<Quarantine>)>| PoolView {
        name: "vm".to_owned(),
        capacity: 2,
        is_damaged: false,
        slots: (1..).zip(slots).map(|(number, (holder, quarantine))| Slot { number, holder, quarantine }).collect(),
        waiters: Vec::new(),
    };
    let table = [
        ("nothing in it", vec![], false),
        ("one free", vec![(None, kept())], false),
        ("all kept", vec![(None, kept()), (None, kept())], true),
        ("one runs", vec![(held(true), None), (None, kept())], false),
        ("held by nobody we know", vec![(held(false), None), (None, kept())], true),
    ];
    for (what, slots, expect) in table {
        assert_eq!(is_black_hole(&pool(slots)), expect, "{what}");
    }
    let words = waiting(&pool(vec![(held(true), None), (None, kept())]), None, Secs::from_secs(30), Wall(30_000));
    assert!(words.contains("1 of 2 held, 1 in quarantine") && words.contains("slot 1: held by pid 7, run 5, for 30 s"), "{words}");
}
