//! Owners of files: started one ahead, so that no boundary waits for one.

use std::path::Path;
use std::time::Duration;

use super::session::Session;
use crate::core::ids::Token;
use crate::host::cgroup::remove_dead_leaves;
use crate::host::owner::{Owner, OwnerSettings, Terminal};
use crate::host::reap::ReapScope;
use crate::host::table::SharedTable;
use crate::host::tree::Mechanism;
use crate::settings::{ReapScopeArg, RunSettings};

/// An owner that was started ahead, with the token it watches for.
pub struct Ready {
    pub owner: Owner,
    pub token: Token,
}

impl Ready {
    pub async fn close(self) {
        self.owner.close().await;
    }
}

/// Starts the first owner, which tells what can hold a tree on this host. What owners that were killed left empty is taken away before.
pub async fn first_owner(
    settings: &RunSettings,
    disabled: &[Mechanism],
    table: &SharedTable,
    obituary: &Path,
) -> (Option<Ready>, String) {
    remove_dead_leaves();
    match start(settings, disabled, table, obituary) {
        Ok(mut ready) => match tokio::time::timeout(FIRST_AT_WORK, ready.owner.ready()).await.map(str::to_owned) {
            Ok(containment) => (Some(ready), containment),
            Err(_) => (None, format!("none: the first owner was not at work within {} s", FIRST_AT_WORK.as_secs())),
        },
        Err(error) => (None, format!("none: {error}")),
    }
}

/// Starts the owner of the file after this one. It is called while a file runs, so that no boundary waits for it.
pub fn launch_next(session: &mut Session) {
    session.next_owner = launch(session).ok();
}

/// The owner of the next file.
pub fn take(session: &mut Session) -> Result<Ready, String> {
    let next = session.next_owner.take();
    next.map_or_else(|| launch(session), Ok)
}

/// The first one is waited for longer: the record of the run says what holds trees here.
const FIRST_AT_WORK: Duration = Duration::from_secs(30);
/// An owner is at work within milliseconds.
const AT_WORK: Duration = Duration::from_secs(2);
/// How often an owner is replaced that was found dead: whoever kills one more time than this kills them all.
const REPLACED: u32 = 2;

/// An owner that is there, under the same token. One that was killed before its file was started has not run it, and the file must not
/// pay for that.
pub async fn alive(session: &Session, mut ready: Ready) -> Result<Ready, String> {
    for _ in 0..REPLACED {
        if !ready.owner.is_gone() {
            return Ok(ready);
        }
        session
            .console
            .say("ledger: warning: the owner process of the next file was killed before its start; it gets another".to_owned());
        let token = ready.token.clone();
        ready.close().await;
        remove_dead_leaves();
        ready = start_with(token, &session.settings, &session.disabled, &session.table, &session.obituary)?;
        // Seen at work, so that the next look means something; one that was stopped is another matter.
        let _ = tokio::time::timeout(AT_WORK, ready.owner.ready()).await;
    }
    if ready.owner.is_gone() {
        ready.close().await;
        return Err(format!("its owner process was killed before its start, {} times", REPLACED + 1));
    }
    Ok(ready)
}

fn launch(session: &Session) -> Result<Ready, String> {
    start(&session.settings, &session.disabled, &session.table, &session.obituary)
}

fn start(run: &RunSettings, disabled: &[Mechanism], table: &SharedTable, obituary: &Path) -> Result<Ready, String> {
    start_with(Token::new(uuid::Uuid::new_v4().simple().to_string()), run, disabled, table, obituary)
}

fn start_with(
    token: Token,
    run: &RunSettings,
    disabled: &[Mechanism],
    table: &SharedTable,
    obituary: &Path,
) -> Result<Ready, String> {
    let mut settings = OwnerSettings::new(token.clone());
    settings.disabled = disabled.to_vec();
    settings.allow_leftover = run.allow_leftover.clone();
    settings.reap_scope = match run.reap_scope {
        ReapScopeArg::Owned => ReapScope::Owned,
        ReapScopeArg::Host => ReapScope::Host,
    };
    settings.table = table.clone();
    settings.obituary = Some(obituary.to_owned());
    settings.terminal = if run.tty { Terminal::Pseudo } else { Terminal::None };
    let owner = Owner::launch(&settings).map_err(|error| error.to_string())?;
    Ok(Ready { owner, token })
}
