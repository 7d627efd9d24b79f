//! From how the loop went to the leg's own last record and ledger's exit status.

use super::outcome::{Conclusion, StoppedBy};

/// A signal that ends ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndSignal {
    Hup,
    Int,
    Term,
}

impl EndSignal {
    pub fn name(self) -> &'static str {
        match self {
            EndSignal::Hup => "HUP",
            EndSignal::Int => "INT",
            EndSignal::Term => "TERM",
        }
    }

    pub fn exit_code(self) -> i32 {
        match self {
            EndSignal::Hup => 129,
            EndSignal::Int => 130,
            EndSignal::Term => 143,
        }
    }
}

/// What has become true of a loop. Several may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopState {
    pub ledger_failed: bool,
    pub dirty: bool,
    pub signal: Option<EndSignal>,
    pub budget_spent: bool,
    pub failed_fast: bool,
    pub files_failed: u32,
    /// A file was ended by the signal.
    pub cut_short: bool,
    /// Every planned file had its turn, in every round.
    pub all_had_their_turn: bool,
}

impl LoopState {
    /// Whether another file may start.
    pub fn must_stop(&self) -> bool {
        self.ledger_failed || self.dirty || self.signal.is_some() || self.budget_spent || self.failed_fast
    }

    /// The signal that ended the loop. One that came when every file had had its turn ended nothing.
    fn ended_by(&self) -> Option<EndSignal> {
        self.signal.filter(|_| !self.all_had_their_turn)
    }

    /// When several hold: 5, 3, signal, 4, 1.
    pub fn exit_code(&self) -> i32 {
        match self.ended_by() {
            _ if self.ledger_failed => 5,
            _ if self.dirty => 3,
            Some(signal) => signal.exit_code(),
            None if self.budget_spent => 4,
            None if self.files_failed > 0 => 1,
            None => 0,
        }
    }

    pub fn cancelled(&self) -> bool {
        !self.ledger_failed && !self.dirty && self.ended_by().is_some()
    }

    pub fn stopped_by(&self) -> Option<StoppedBy> {
        match () {
            () if self.ledger_failed => Some(StoppedBy::Ledger),
            () if self.dirty => Some(StoppedBy::Dirty),
            () if self.ended_by().is_some() => None,
            () if self.budget_spent => Some(StoppedBy::Budget),
            () if self.failed_fast && !self.all_had_their_turn => Some(StoppedBy::FailFast),
            () => None,
        }
    }

    /// True also when a test failed: what a cache owner needs. False whenever the loop stopped early, or may have been poisoned.
    pub fn loop_finished(&self) -> bool {
        self.all_had_their_turn && self.stopped_by().is_none()
    }

    pub fn conclusion(&self) -> Conclusion {
        match () {
            () if self.cancelled() => Conclusion::Incomplete,
            () if self.files_failed > 0 => Conclusion::Fail,
            () if self.loop_finished() => Conclusion::Pass,
            () => Conclusion::Incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_exit_codes() {
        let done = LoopState { all_had_their_turn: true, ..LoopState::default() };
        let begun = LoopState::default();
        let failed = LoopState { files_failed: 1, ..done };
        let int = Some(EndSignal::Int);
        let table = [
            ("all passed", done, 0, None, true, Conclusion::Pass),
            ("one failed", failed, 1, None, true, Conclusion::Fail),
            (
                "budget, and one failed",
                LoopState { budget_spent: true, all_had_their_turn: false, ..failed },
                4,
                Some(StoppedBy::Budget),
                false,
                Conclusion::Fail,
            ),
            (
                "budget",
                LoopState { budget_spent: true, ..LoopState::default() },
                4,
                Some(StoppedBy::Budget),
                false,
                Conclusion::Incomplete,
            ),
            (
                "signal and budget",
                LoopState { signal: int, budget_spent: true, files_failed: 1, ..begun },
                130,
                None,
                false,
                Conclusion::Incomplete,
            ),
            (
                "dirty and signal",
                LoopState { dirty: true, signal: int, ..done },
                3,
                Some(StoppedBy::Dirty),
                false,
                Conclusion::Incomplete,
            ),
            (
                "ledger and dirty",
                LoopState { ledger_failed: true, dirty: true, ..failed },
                5,
                Some(StoppedBy::Ledger),
                false,
                Conclusion::Fail,
            ),
            (
                "dirty after the last file",
                LoopState { dirty: true, ..done },
                3,
                Some(StoppedBy::Dirty),
                false,
                Conclusion::Incomplete,
            ),
            (
                "fail-fast in the middle",
                LoopState { failed_fast: true, files_failed: 1, ..LoopState::default() },
                1,
                Some(StoppedBy::FailFast),
                false,
                Conclusion::Fail,
            ),
            ("fail-fast at the last file", LoopState { failed_fast: true, ..failed }, 1, None, true, Conclusion::Fail),
            ("HUP", LoopState { signal: Some(EndSignal::Hup), ..begun }, 129, None, false, Conclusion::Incomplete),
            ("TERM", LoopState { signal: Some(EndSignal::Term), ..begun }, 143, None, false, Conclusion::Incomplete),
            ("TERM after the last file", LoopState { signal: Some(EndSignal::Term), ..done }, 0, None, true, Conclusion::Pass),
            ("TERM after the last, and one failed", LoopState { signal: int, ..failed }, 1, None, true, Conclusion::Fail),
        ];
        for (what, state, code, stopped_by, finished, conclusion) in table {
            assert_eq!(state.exit_code(), code, "{what}");
            assert_eq!(state.stopped_by(), stopped_by, "{what}");
            assert_eq!(state.loop_finished(), finished, "{what}");
            assert_eq!(state.conclusion(), conclusion, "{what}");
        }
    }
}
