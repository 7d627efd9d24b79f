//! Owners of files: started one ahead, so that no boundary waits for one.

use std::path::Path;

use super::session::Session;
use crate::core::ids::Token;
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

/// Starts the first owner, which tells what can hold a tree on this host.
pub async fn first_owner(
    settings: &RunSettings,
    disabled: &[Mechanism],
    table: &SharedTable,
    obituary: &Path,
) -> (Option<Ready>, String) {
    match start(settings, disabled, table, obituary) {
        Ok(mut ready) => {
            let containment = ready.owner.ready().await.to_owned();
            (Some(ready), containment)
        }
        Err(error) => (None, format!("none: {error}")),
    }
}

/// Starts the owner of the file after this one. It is called while a file runs, so that no boundary waits for it.
pub fn launch_next(session: &mut Session) {
    session.next_owner = launch(session).ok();
}

/// Starts an owner for a file of this run.
pub fn launch(session: &Session) -> Result<Ready, String> {
    start(&session.settings, &session.disabled, &session.table, &session.obituary)
}

fn start(run: &RunSettings, disabled: &[Mechanism], table: &SharedTable, obituary: &Path) -> Result<Ready, String> {
    let token = Token::new(uuid::Uuid::new_v4().simple().to_string());
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
