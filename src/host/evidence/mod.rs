//! A look at a tree before it is killed: enough to tell a spin from a blocking prompt.
//!
//! It blocks, so it runs on a thread of its own; whatever it has when the time is up is what there is.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::core::process::{Evidence, ProcessId, ProcessRow};

/// All evidence is taken within 2 s (DESIGN §5), and has come before `core::watch` waits no longer.
pub const BOUND: Duration = Duration::from_millis(1_800);

/// Long enough for a spin to show in the ticks of every system (10 ms, 16 ms), short enough for the bound.
const INTERVAL: Duration = Duration::from_millis(300);
/// More rows than this tell nobody more.
const TREE_ROWS: usize = 60;
const TOP_ROWS: usize = 5;

/// Whose tree to look at.
#[derive(Debug, Clone)]
pub struct Subject {
    pub owner: ProcessId,
    pub leader: Option<ProcessId>,
    pub leaf: Option<PathBuf>,
}

/// What has been seen so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft(Arc<Mutex<Evidence>>);

impl Draft {
    pub(super) fn edit(&self, act: impl FnOnce(&mut Evidence)) {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The rows of the tree that are shown, of `whole` in all, and the busiest of the host.
    fn show(&self, tree: Vec<ProcessRow>, whole: usize, top: Vec<ProcessRow>) {
        self.edit(|evidence| {
            evidence.tree = tree;
            evidence.top = top;
            if whole > TREE_ROWS {
                evidence.missing.push(format!("{TREE_ROWS} of {whole} processes are shown, the busiest"));
            }
            if whole == 0 {
                evidence.missing.push("the file has no process".to_owned());
            }
        });
    }

    fn take(&self) -> Evidence {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Takes the evidence, in 2 s at most.
pub async fn take(subject: Subject) -> Evidence {
    let draft = Draft::default();
    let writing = draft.clone();
    let (done, told) = tokio::sync::oneshot::channel();
    let look = move || {
        system::look(&subject, &writing);
        let _ = done.send(());
    };
    // Never one of the few threads that sweeps need: a look that is stuck in the kernel keeps its thread for as long as that lasts.
    let begun = std::thread::Builder::new().name("ledger-evidence".to_owned()).spawn(look);
    let why = match begun {
        Err(error) => format!("the look could not begin: {error}"),
        Ok(_) => match tokio::time::timeout(BOUND, told).await {
            Ok(Ok(())) => return draft.take(),
            Ok(Err(_)) => "the look broke off".to_owned(),
            Err(_) => "not everything could be read within 2 s".to_owned(),
        },
    };
    let mut evidence = draft.take();
    evidence.missing.push(why);
    evidence
}
