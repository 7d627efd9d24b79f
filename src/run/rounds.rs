//! The loop: file after file, round after round, until the plan is through or something ends it.

use std::path::PathBuf;

use super::announce;
use super::file::{self, Ended};
use super::output::log_path;
use super::owners::{self, Ready};
use super::plan::{Planned, command_for};
use super::session::Session;
use crate::core::cap::{Bound, bound};
use crate::core::event::{Body, FileRef, FileStarted, HostSampled, SampledAt};
use crate::core::ids::Token;
use crate::core::moment::Moment;
use crate::core::outcome::{Cleanup, Outcome};
use crate::core::watch::Bounds;
use crate::host::clock;
use crate::host::owner::SpawnSpec;

pub async fn run(session: &mut Session) {
    let began = clock::now();
    // What is known and not yet recorded: the finish of N travels with the start of N+1.
    let mut carried: Vec<Body> = Vec::new();
    let mut round = 1;
    while !session.state.must_stop() && round_is_due(session, round, began) {
        for position in 0..session.plan.files.len() {
            session.look_for_signals().await;
            if session.state.must_stop() {
                break;
            }
            let planned = session.plan.files[position].clone();
            if session.plan.is_done(planned.index, round) {
                continue;
            }
            turn(session, &planned, round, &mut carried).await;
        }
        round += 1;
    }
    if !carried.is_empty() {
        session.record(carried).await;
    }
    session.state.all_had_their_turn = !session.state.must_stop() || last_turn_was_taken(session);
    session.all_parted().await;
}

fn round_is_due(session: &Session, round: u32, began: Moment) -> bool {
    let rounds = session.settings.rounds;
    let counted = rounds.count.is_none_or(|count| round <= count);
    let in_time = rounds.for_at_most.is_none_or(|span| round == 1 || clock::now().since(began) < span);
    let unbroken = !(rounds.until_fail && session.state.files_failed > 0);
    counted && in_time && unbroken
}

/// Whether the loop was ended only after its last file had run to its own end.
fn last_turn_was_taken(session: &Session) -> bool {
    let reported = session.book.leg().map_or(0, |leg| leg.counts().0);
    session.plan.total == Some(reported) && !session.state.cut_short
}

async fn turn(session: &mut Session, planned: &Planned, round: u32, carried: &mut Vec<Body>) {
    let settings = session.settings.clone();
    let now = clock::now();
    let (cap, cap_basis) = match bound(planned.choice.as_ref(), session.remaining(now), settings.reserve, settings.min_viable) {
        Bound::Whole { cap, basis } => (cap, basis),
        Bound::Shortened { cap, basis } => (Some(cap), Some(basis)),
        Bound::NotRun { left, needed } => {
            session.state.budget_spent = true;
            announce::budget_spent(session, planned, left, needed);
            return;
        }
    };
    let owner = match owners::take(session) {
        Ok(ready) => owners::alive(session, ready).await,
        failed => failed,
    };
    let at = FileRef::new(planned.index, round, &planned.path);
    let log = log_of(session, planned, round);
    let shown_log = log.strip_prefix(&settings.folder).unwrap_or(&log).display().to_string();
    let mut bodies = std::mem::take(carried);
    bodies.push(Body::FileStarted(FileStarted {
        at: at.clone(),
        cap_s: cap,
        cap_basis: cap_basis.clone(),
        token: owner.as_ref().map_or_else(|_| Token::new(""), |ready| ready.token.clone()),
        owner: owner.as_ref().ok().map(|ready| ready.owner.id()),
        log: Some(shown_log.clone()),
    }));
    session.record(bodies).await;
    if session.state.ledger_failed {
        // The start is not on record, so it must not happen.
        if let Ok(ready) = owner {
            ready.close().await;
        }
        return;
    }
    session.book.barrier().await;
    announce::file_begins(session, planned, round, cap).await;
    let bounds =
        Bounds { at, cap, cap_basis, grace: settings.grace, leftovers_fail: settings.leftovers_fail, log: Some(shown_log) };
    // The sinks were waited for meanwhile.
    let owner = match owner {
        Ok(ready) => owners::alive(session, ready).await,
        failed => failed,
    };
    let ended = match owner {
        Ok(Ready { owner, .. }) => file::run(session, owner, bounds, spawn_spec(session, planned), &log).await,
        Err(text) => file::never_spawned(session, bounds, text),
    };
    after(session, planned, ended, carried).await;
}

async fn after(session: &mut Session, planned: &Planned, ended: Ended, carried: &mut Vec<Body>) {
    session.state.cut_short |= ended.outcome == Outcome::Cancelled;
    if ended.outcome != Outcome::Pass {
        session.state.files_failed += 1;
        session.state.failed_fast |= session.settings.fail_fast;
    }
    session.state.dirty |= ended.cleanup == Cleanup::Dirty;
    let sample = session.sample();
    session.console.flush(std::time::Duration::from_millis(200)).await;
    announce::file_ended(session, planned, &ended.record, &sample).await;
    carried.push(ended.record);
    carried.push(Body::HostSampled(HostSampled { at: SampledAt::Boundary, sample }));
}

fn log_of(session: &Session, planned: &Planned, round: u32) -> PathBuf {
    let epoch = session.book.leg().map_or("", |leg| leg.epoch.as_str());
    log_path(&session.settings.logs.join(epoch), round, planned.index, planned.path.base_name())
}

fn spawn_spec(session: &Session, planned: &Planned) -> SpawnSpec {
    let settings = &session.settings;
    let (program, args) = command_for(&settings.command, planned, &settings.folder);
    SpawnSpec { program: program.into(), args, cwd: Some(settings.folder.clone()), env: Vec::new() }
}
