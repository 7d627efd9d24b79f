//! One holder from its wait to the end of its slot. `step` takes what has happened and answers with what to do next.

/// How the destroy command answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Exit 0.
    Gone,
    /// Exit 75: somebody else has claimed the device. It is theirs to count now, so ours is given back.
    NotMine,
    /// Any other end, or a command that could not be started.
    Failed,
    /// Not in time.
    NoAnswer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// The slot's lock is ours.
    Admitted,
    /// The work ended with success.
    Succeeded,
    /// The work ended otherwise, or could not be started.
    Failed,
    DeadlinePassed,
    /// A signal, or the work was done elsewhere meanwhile.
    Cancelled,
    /// Nothing of the work's own processes is left.
    SweptClean,
    /// Some survived.
    SweptDirty,
    /// Nobody can say, or nobody said in time.
    SweptUnknown,
    Destroyed(Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Leave the queue; nothing was taken.
    GiveWay,
    Start,
    /// Bring the work's own processes to their end, bounded.
    Sweep,
    /// Run the destroy command, bounded.
    Destroy(Why),
    /// Put the slot's record away before its lock is given back.
    Quarantine(Reason),
    /// Give the lock back. Always the last.
    Release,
}

/// Why the work is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    Success,
    Failure,
    Deadline,
    Cancelled,
}

/// Why a slot is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    DestroyFailed,
    NoAnswer,
    /// There is no destroy command, and processes outlived KILL.
    Survivors,
}

/// What there is to bring a device to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Teardown {
    Command,
    /// The processes of the work are all there is.
    TreeOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    GaveWay,
    Released(Why),
    Quarantined(Why, Reason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Waiting,
    Running,
    Ending(Why),
    Destroying(Why),
    Over(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a slot's holder cannot take {input:?} while it is {phase:?}")]
pub struct Illegal {
    pub phase: Phase,
    pub input: Input,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hold {
    phase: Phase,
    teardown: Teardown,
}

impl Hold {
    pub fn waiting(teardown: Teardown) -> Self {
        Self { phase: Phase::Waiting, teardown }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether this hold has a right to its slot's lock.
    pub fn is_tracked(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Ending(_) | Phase::Destroying(_))
    }

    /// Takes what has happened. On an error nothing has changed.
    pub fn step(&mut self, input: Input) -> Result<Vec<Effect>, Illegal> {
        let (phase, effects) = match (self.phase, input) {
            (Phase::Waiting, Input::Admitted) => (Phase::Running, vec![Effect::Start]),
            (Phase::Waiting, Input::Cancelled) => (Phase::Over(End::GaveWay), vec![Effect::GiveWay]),
            (Phase::Running, Input::Succeeded) => (Phase::Ending(Why::Success), vec![Effect::Sweep]),
            (Phase::Running, Input::Failed) => (Phase::Ending(Why::Failure), vec![Effect::Sweep]),
            (Phase::Running, Input::DeadlinePassed) => (Phase::Ending(Why::Deadline), vec![Effect::Sweep]),
            (Phase::Running, Input::Cancelled) => (Phase::Ending(Why::Cancelled), vec![Effect::Sweep]),
            (Phase::Ending(why), Input::SweptClean | Input::SweptUnknown | Input::SweptDirty) => self.swept(why, input),
            (Phase::Destroying(why), Input::Destroyed(answer)) => destroyed(why, answer),
            // What is over needs no deadline, and the end of a command that was just told to end is no news.
            (
                Phase::Ending(_) | Phase::Destroying(_) | Phase::Over(_),
                Input::Succeeded | Input::Failed | Input::DeadlinePassed | Input::Cancelled,
            ) => (self.phase, Vec::new()),
            (phase, input) => return Err(Illegal { phase, input }),
        };
        self.phase = phase;
        Ok(effects)
    }

    fn swept(self, why: Why, found: Input) -> (Phase, Vec<Effect>) {
        let survivors = found == Input::SweptDirty;
        match self.teardown {
            _ if why == Why::Success && !survivors => (Phase::Over(End::Released(why)), vec![Effect::Release]),
            Teardown::Command => (Phase::Destroying(why), vec![Effect::Destroy(why)]),
            Teardown::TreeOnly if survivors => kept(why, Reason::Survivors),
            Teardown::TreeOnly => (Phase::Over(End::Released(why)), vec![Effect::Release]),
        }
    }
}

fn destroyed(why: Why, answer: Answer) -> (Phase, Vec<Effect>) {
    match answer {
        Answer::Gone | Answer::NotMine => (Phase::Over(End::Released(why)), vec![Effect::Release]),
        Answer::Failed => kept(why, Reason::DestroyFailed),
        Answer::NoAnswer => kept(why, Reason::NoAnswer),
    }
}

fn kept(why: Why, reason: Reason) -> (Phase, Vec<Effect>) {
    (Phase::Over(End::Quarantined(why, reason)), vec![Effect::Quarantine(reason), Effect::Release])
}
