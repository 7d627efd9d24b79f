//! Every interleaving of some processes at one pool, breadth first, over the same `admit` and `Hold::step` that run live.
//!
//! The world around them is what the operating system does: a lock dies with its process, the gate makes a look and its lock one step,
//! and what a holder has to do after a step is done one effect at a time, so that a kill or another's admission falls in between.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;

use super::{Admission, Answer, Effect, Hold, Holder, Input, Party, Phase, PoolView, Quarantine, Reason, Slot, Teardown, Waiter};
use crate::core::moment::Wall;
use crate::core::process::ProcessId;

/// What runs in a process of this world: the real machine, or a naive one that must be refuted.
pub trait Machine: Copy + Eq + Hash + fmt::Debug {
    fn waiting(teardown: Teardown) -> Self;
    fn phase(&self) -> Phase;
    fn is_tracked(&self) -> bool;
    fn step(&mut self, input: Input) -> Vec<Effect>;
}

impl Machine for Hold {
    fn waiting(teardown: Teardown) -> Self {
        Hold::waiting(teardown)
    }

    fn phase(&self) -> Phase {
        Hold::phase(self)
    }

    fn is_tracked(&self) -> bool {
        Hold::is_tracked(self)
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        Hold::step(self, input).expect("the world offers only what can happen")
    }
}

pub type Admit = fn(&PoolView, u64) -> Admission;

/// How large a world is explored.
#[derive(Clone, Copy)]
pub struct Size {
    pub processes: usize,
    pub capacity: u8,
    /// Capacities that somebody may set, and how often.
    pub capacities: &'static [u8],
    pub changes: u8,
    pub teardown: Teardown,
}

/// Slots and processes of the largest world.
const SLOTS: usize = 3;
const PROCESSES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Lock {
    by: Option<u8>,
    quarantined: bool,
    /// Destroy failed or gave no answer, and time has not passed yet: whoever is let in meets a device that may still run.
    may_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Life {
    Absent,
    Alive,
    Stalled,
    /// Killed, or done with all it had to do: nothing of it can be seen any more.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Process<M> {
    life: Life,
    machine: M,
    /// Effects not yet performed.
    owed: [Option<Effect>; 3],
    slot: Option<u8>,
    /// Somebody else claimed the device after the boot's own claim was given back.
    claimed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World<M> {
    capacity: u8,
    changes: u8,
    locks: [Lock; SLOTS],
    processes: [Process<M>; PROCESSES],
    /// Live waiters in the order of arrival.
    queue: [Option<u8>; PROCESSES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Arrives(u8),
    Looks(u8),
    Stalls(u8),
    Wakes(u8),
    Told(u8, Input),
    Performs(u8),
    ClaimedByAnother(u8),
    Killed(u8),
    Expires(u8),
    CapacityIs(u8),
}

/// What went wrong, and the shortest way there.
#[derive(Debug)]
pub struct Refuted {
    pub what: String,
    pub trace: Vec<Event>,
}

#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub transitions: usize,
    pub depth: usize,
}

/// Visits every state that can be reached, and stops at the first that breaks a promise.
pub fn explore<M: Machine>(size: Size, admit: Admit) -> Result<Explored, Refuted> {
    let first = World::<M>::begin(size);
    let mut numbers: HashMap<World<M>, usize> = HashMap::from([(first, 0)]);
    let mut order: Vec<World<M>> = vec![first];
    let mut parents: Vec<Option<(usize, Event)>> = vec![None];
    let (mut next, mut transitions, mut depth) = (0, 0, 0);
    let mut depths = vec![0_usize];
    let refute = |what: String, at: usize, last: Option<Event>, parents: &[Option<(usize, Event)>]| {
        let mut trace: Vec<Event> = last.into_iter().collect();
        let mut at = at;
        while let Some((before, event)) = parents[at] {
            trace.push(event);
            at = before;
        }
        trace.reverse();
        Refuted { what, trace }
    };
    while next < order.len() {
        let world = order[next];
        world.check(admit).map_err(|what| refute(what, next, None, &parents))?;
        for event in world.events(size) {
            transitions += 1;
            let mut after = world;
            after.take(event, admit).map_err(|what| refute(what, next, Some(event), &parents))?;
            if let Entry::Vacant(new) = numbers.entry(after) {
                new.insert(order.len());
                order.push(after);
                parents.push(Some((next, event)));
                depths.push(depths[next] + 1);
                depth = depth.max(depths[next] + 1);
            }
        }
        next += 1;
    }
    // No slot is lost for good: from every state, when everybody just does what is due and time passes, all ends free.
    let mut settles = vec![false; order.len()];
    for start in 0..order.len() {
        let mut path = Vec::new();
        let mut at = start;
        while !settles[at] {
            path.push(at);
            if path.len() > 200 {
                return Err(refute("it never comes to rest".to_owned(), start, None, &parents));
            }
            let Some(event) = order[at].due() else {
                order[at].check_rest().map_err(|what| refute(what, start, None, &parents))?;
                break;
            };
            let mut after = order[at];
            after.take(event, admit).map_err(|what| refute(what, at, Some(event), &parents))?;
            at = numbers[&after];
        }
        path.into_iter().for_each(|index| settles[index] = true);
    }
    Ok(Explored { states: order.len(), transitions, depth })
}

impl<M: Machine> World<M> {
    fn begin(size: Size) -> Self {
        let mut processes = [Process::gone(); PROCESSES];
        for process in processes.iter_mut().take(size.processes) {
            *process = Process { life: Life::Absent, machine: M::waiting(size.teardown), ..Process::gone() };
        }
        Self {
            capacity: size.capacity,
            changes: size.changes,
            locks: [Lock::default(); SLOTS],
            processes,
            queue: [None; PROCESSES],
        }
    }

    fn view(&self) -> PoolView {
        let party = |who: u8| Party { id: ProcessId { pid: i32::from(who), start: 0 }, run_id: None, leg: None, since: Wall(0) };
        let slot = |(index, lock): (usize, &Lock)| Slot {
            number: index as u32 + 1,
            holder: lock.by.map(|who| Holder { party: Some(party(who)), is_tracked: true }),
            quarantine: lock.quarantined.then(|| Quarantine { reason: String::new(), since: Wall(0), expires: Wall(1) }),
        };
        let waiter = |(position, who): (usize, u8)| Waiter {
            ticket: position as u64,
            party: Some(party(who)),
            is_stalled: self.processes[usize::from(who)].life == Life::Stalled,
        };
        PoolView {
            name: String::new(),
            capacity: u32::from(self.capacity),
            is_damaged: false,
            slots: self.locks.iter().enumerate().map(slot).collect(),
            waiters: self.waiting().enumerate().map(waiter).collect(),
        }
    }

    fn waiting(&self) -> impl Iterator<Item = u8> {
        self.queue.into_iter().flatten()
    }

    fn ticket(&self, who: u8) -> Option<u64> {
        self.waiting().position(|other| other == who).map(|position| position as u64)
    }

    fn leaves_queue(&mut self, who: u8) {
        if let Some(position) = self.queue.iter().position(|&other| other == Some(who)) {
            self.queue[position] = None;
            self.queue[position..].rotate_left(1);
        }
    }

    /// Everything that can happen now.
    fn events(&self, size: Size) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            let who = index as u8;
            match process.life {
                // Processes are alike until they arrive: the first to arrive may as well be the first in the list.
                Life::Absent if index > 0 && self.processes[index - 1].life == Life::Absent => {}
                Life::Absent => events.push(Event::Arrives(who)),
                Life::Gone => {}
                Life::Stalled => events.extend([Event::Wakes(who), Event::Killed(who)]),
                Life::Alive => {
                    events.push(Event::Killed(who));
                    if process.owes() {
                        events.push(Event::Performs(who));
                    } else {
                        events.extend(process.told(who));
                    }
                    if process.machine.phase() == Phase::Waiting && !process.owes() {
                        events.extend([Event::Looks(who), Event::Stalls(who)]);
                    }
                }
            }
        }
        for (index, lock) in self.locks.iter().enumerate() {
            if lock.quarantined {
                events.push(Event::Expires(index as u8));
            }
        }
        if self.changes > 0 {
            events.extend(size.capacities.iter().filter(|&&new| new != self.capacity).map(|&new| Event::CapacityIs(new)));
        }
        events
    }

    /// One thing that must happen sooner or later by itself: the answers are the worst there are.
    fn due(&self) -> Option<Event> {
        for (index, process) in self.processes.iter().enumerate() {
            let who = index as u8;
            match process.life {
                Life::Absent | Life::Gone => continue,
                Life::Stalled => return Some(Event::Wakes(who)),
                Life::Alive if process.owes() => return Some(Event::Performs(who)),
                Life::Alive => {}
            }
            match process.machine.phase() {
                Phase::Running => return Some(Event::Told(who, Input::Failed)),
                Phase::Ending(_) => return Some(Event::Told(who, Input::SweptUnknown)),
                Phase::Destroying(_) => {
                    return Some(Event::Told(who, Input::Destroyed(Answer::NoAnswer)));
                }
                _ => {}
            }
        }
        if let Some(kept) = self.locks.iter().position(|lock| lock.quarantined) {
            return Some(Event::Expires(kept as u8));
        }
        self.queue[0].map(Event::Looks)
    }

    fn take(&mut self, event: Event, admit: Admit) -> Result<(), String> {
        match event {
            Event::Arrives(who) => {
                self.processes[usize::from(who)].life = Life::Alive;
                let place = self.queue.iter().position(Option::is_none).expect("there is a place for every process");
                self.queue[place] = Some(who);
            }
            Event::Looks(who) => return self.look(who, admit),
            Event::Stalls(who) => self.processes[usize::from(who)].life = Life::Stalled,
            Event::Wakes(who) => self.processes[usize::from(who)].life = Life::Alive,
            Event::Told(who, input) => self.told(who, input),
            Event::Performs(who) => self.perform(who),
            Event::ClaimedByAnother(who) => self.processes[usize::from(who)].claimed = true,
            Event::Killed(who) => self.kill(who),
            Event::Expires(slot) => {
                let lock = &mut self.locks[usize::from(slot)];
                (lock.quarantined, lock.may_run) = (false, false);
            }
            Event::CapacityIs(capacity) => {
                self.capacity = capacity;
                self.changes -= 1;
            }
        }
        Ok(())
    }

    fn look(&mut self, who: u8, admit: Admit) -> Result<(), String> {
        let Some(ticket) = self.ticket(who) else { return Err(format!("process {who} looks without a place in the queue")) };
        let view = self.view();
        let Admission::Take(number) = admit(&view, ticket) else { return Ok(()) };
        let occupied = view.held() + view.quarantined();
        if occupied >= view.capacity {
            return Err(format!("one too many: {occupied} of {} are occupied, and process {who} goes in", view.capacity));
        }
        let lock = &mut self.locks[number as usize - 1];
        match lock {
            Lock { by: Some(other), .. } => return Err(format!("process {who} is sent to slot {number}, which {other} holds")),
            Lock { may_run: true, .. } => {
                return Err(format!("process {who} is let into slot {number}, whose device may still run"));
            }
            _ => lock.by = Some(who),
        }
        self.leaves_queue(who);
        self.processes[usize::from(who)].slot = Some(number as u8 - 1);
        self.told(who, Input::Admitted);
        Ok(())
    }

    fn told(&mut self, who: u8, input: Input) {
        let process = &mut self.processes[usize::from(who)];
        if let (Input::Destroyed(Answer::Failed | Answer::NoAnswer), Some(slot)) = (input, process.slot) {
            self.locks[usize::from(slot)].may_run = true;
        }
        // What begins something only matters by its answer; what touches the pool is a step of its own.
        let owed = process.machine.step(input).into_iter();
        let touching = owed.filter(|effect| matches!(effect, Effect::GiveWay | Effect::Quarantine(_) | Effect::Release));
        for (place, effect) in process.owed.iter_mut().zip(touching) {
            *place = Some(effect);
        }
    }

    fn perform(&mut self, who: u8) {
        let process = &mut self.processes[usize::from(who)];
        let Some(effect) = process.owed[0].take() else { return };
        process.owed.rotate_left(1);
        match (effect, process.slot) {
            (Effect::Quarantine(reason), Some(slot)) => {
                let lock = &mut self.locks[usize::from(slot)];
                lock.quarantined = true;
                // Survivors of a tree without a destroy command are a device like any other.
                lock.may_run |= reason == Reason::Survivors;
            }
            (Effect::Release, Some(slot)) => {
                process.slot = None;
                self.locks[usize::from(slot)].by = None;
            }
            (Effect::GiveWay, _) => self.leaves_queue(who),
            _ => {}
        }
        let process = &mut self.processes[usize::from(who)];
        if matches!(process.machine.phase(), Phase::Over(_)) && !process.owes() && process.slot.is_none() {
            *process = Process::gone();
        }
    }

    /// The system closes what the process had open, and that is all it does.
    fn kill(&mut self, who: u8) {
        self.leaves_queue(who);
        let process = &mut self.processes[usize::from(who)];
        if let Some(slot) = process.slot.take() {
            let lock = &mut self.locks[usize::from(slot)];
            lock.by = None;
            // A slot that nobody lived to put away is free at once (CASES 45); one that was put away stays so.
            lock.may_run &= lock.quarantined;
        }
        *process = Process::gone();
    }

    /// What holds in every state.
    fn check(&self, admit: Admit) -> Result<(), String> {
        for (index, process) in self.processes.iter().enumerate() {
            let holds = self.locks.iter().any(|lock| lock.by == Some(index as u8));
            if holds && !process.machine.is_tracked() && !process.owes() {
                return Err(format!(
                    "a lost slot: process {index} is tracked no more ({:?}) and keeps its slot",
                    process.machine.phase()
                ));
            }
            if process.machine.is_tracked() && !holds {
                return Err(format!("process {index} works without a slot ({:?})", process.machine.phase()));
            }
        }
        let view = self.view();
        // One that is about to give way leaves by itself, and its place with it.
        let leaving = self.waiting().any(|who| self.processes[usize::from(who)].owes());
        let awake = self.waiting().filter(|&who| self.processes[usize::from(who)].life == Life::Alive && !leaving);
        let mut places = awake.filter_map(|who| self.ticket(who)).peekable();
        if view.free() > 0 && places.peek().is_some() && !places.any(|ticket| matches!(admit(&view, ticket), Admission::Take(_))) {
            return Err(format!("a lost slot: {} are free, and no waiter may go in", view.free()));
        }
        Ok(())
    }

    /// What holds when all that is due has happened.
    fn check_rest(&self) -> Result<(), String> {
        match self.locks.iter().position(|lock| *lock != Lock::default()) {
            Some(slot) => Err(format!("a lost slot: {} is never free again", slot + 1)),
            None if self.queue[0].is_some() => Err("a waiter is never admitted".to_owned()),
            None => Ok(()),
        }
    }
}

impl<M: Machine> Process<M> {
    fn gone() -> Self {
        let machine = M::waiting(Teardown::TreeOnly);
        Self { life: Life::Gone, machine, owed: [None; 3], slot: None, claimed: false }
    }

    fn owes(&self) -> bool {
        self.owed[0].is_some()
    }

    /// What a live process may hear now. Deadlines, signals and late ends come whenever they like.
    fn told(&self, who: u8) -> Vec<Event> {
        let any_time = [Input::Succeeded, Input::Failed, Input::DeadlinePassed, Input::Cancelled];
        let mut inputs: Vec<Input> = match self.machine.phase() {
            Phase::Waiting => vec![Input::Cancelled],
            Phase::Running => any_time.to_vec(),
            Phase::Ending(_) => vec![Input::SweptClean, Input::SweptDirty, Input::SweptUnknown],
            Phase::Destroying(_) => {
                let whose = if self.claimed { Answer::NotMine } else { Answer::Gone };
                [whose, Answer::Failed, Answer::NoAnswer].map(Input::Destroyed).to_vec()
            }
            _ => Vec::new(),
        };
        if matches!(self.machine.phase(), Phase::Ending(_) | Phase::Destroying(_) | Phase::Over(_)) {
            inputs.extend(any_time);
        }
        let mut events: Vec<Event> = inputs.into_iter().map(|input| Event::Told(who, input)).collect();
        let between_boot_and_destroy = matches!(self.machine.phase(), Phase::Ending(_));
        if between_boot_and_destroy && !self.claimed {
            events.push(Event::ClaimedByAnother(who));
        }
        events
    }
}
