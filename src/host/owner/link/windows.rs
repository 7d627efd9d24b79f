//! Windows: a thread of ledger at the other end of two queues.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};

use super::super::output::FarEnds;
use super::super::system::{self, News};
use super::super::wire::{Command, Hello, Reply};
use super::super::{OwnerError, OwnerSettings};
use super::LAST_RITES;
use crate::core::process::ProcessId;
use crate::host::{clock, identity};

/// An owner is told a handful of things in its life, and tells as many.
const ROOM: usize = 64;

/// The owner and the queues to and from it. Nothing is lost when `exchange` is dropped half-way: what was said stays here.
#[derive(Debug)]
pub struct Link {
    id: ProcessId,
    thread: Option<JoinHandle<()>>,
    commands: SyncSender<News>,
    replies: Receiver<Reply>,
    heard: VecDeque<Reply>,
    closed: bool,
}

impl Link {
    /// Starts the owner.
    pub fn launch(_: &OwnerSettings, ends: FarEnds, hello: &Hello) -> Result<Self, OwnerError> {
        let (commands, inbox) = sync_channel(ROOM);
        let (outbox, replies) = channel(ROOM);
        let (hello, news) = (hello.clone(), commands.clone());
        let thread = std::thread::Builder::new()
            .name("ledger-owner".to_owned())
            .spawn(move || system::serve(hello, ends, &inbox, news, outbox))
            .map_err(|source| OwnerError::Launch { program: "a thread".to_owned(), source })?;
        Ok(Self { id: identity::own_id(), thread: Some(thread), commands, replies, heard: VecDeque::new(), closed: false })
    }

    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// The owner has ended or cannot be spoken to.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it has ended, asked at this moment and without waiting.
    pub fn is_gone(&self) -> bool {
        self.closed || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub fn queue(&mut self, command: &Command) {
        // An owner that takes nothing any more is gone, which its replies say too.
        if self.commands.try_send(News::Told(command.clone())).is_err() {
            self.closed = true;
        }
    }

    /// A thread cannot be ended; no file can stop it either. From here on ledger ends the tree by itself.
    pub fn give_up(&mut self) {
        self.closed = true;
    }

    /// Says no more, which an owner takes for the end. The answer waits until it has ended; one that has not swept kills its tree first.
    pub fn hang_up(&mut self) -> Option<impl FnOnce() + Send + 'static> {
        let thread = self.thread.take()?;
        let commands = self.commands.clone();
        Some(move || {
            if !ends_within(&thread, &commands, LAST_RITES) {
                tracing::warn!("the owner of a file does not end, and is left");
            }
        })
    }

    /// Waits until something was said.
    pub async fn exchange(&mut self) {
        if self.closed {
            return pending().await;
        }
        match self.replies.recv().await {
            Some(reply) => self.heard.push_back(reply),
            None => self.closed = true,
        }
    }

    pub fn take_reply(&mut self) -> Option<Reply> {
        self.heard.pop_front()
    }
}

/// Tells an owner that nobody listens any more, and waits until it has ended. One that hangs takes nothing out of its queue, which may be
/// full.
fn ends_within(thread: &JoinHandle<()>, commands: &SyncSender<News>, bound: Duration) -> bool {
    let (began, mut pause) = (clock::now(), Duration::from_millis(1));
    let mut told = false;
    while !thread.is_finished() {
        // One that has ended meanwhile takes it no more, and that is as good.
        told = told || !matches!(commands.try_send(News::HungUp), Err(TrySendError::Full(_)));
        if clock::now().since(began).duration() > bound {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_hangs_is_not_waited_for_and_one_that_listens_is() {
        let (commands, inbox) = sync_channel(1);
        let (wake, woken) = sync_channel::<()>(0);
        let owner = std::thread::spawn(move || {
            let _ = woken.recv();
            while !matches!(inbox.recv(), Ok(News::HungUp) | Err(_)) {}
        });
        // Nothing more goes into its queue.
        commands.send(News::Told(Command::KillNow)).expect("there is room");
        assert!(!ends_within(&owner, &commands, Duration::from_millis(200)));
        drop(wake);
        assert!(ends_within(&owner, &commands, LAST_RITES));
    }
}
