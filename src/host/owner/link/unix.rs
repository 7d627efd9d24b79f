//! Unix: a process of its own at the other end of a socket.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command as Program};
use std::time::Duration;

use tokio::net::UnixStream;

use super::super::output::FarEnds;
use super::super::wire::{Command, Hello, Reply};
use super::super::{OWNER_WORD, OwnerError, OwnerSettings};
use super::LAST_RITES;
use crate::core::process::ProcessId;
use crate::host::deliver::{Signal, deliver};
use crate::host::{adopted, clock, process};

/// The owner and the socket to it. Nothing is lost when `exchange` is dropped half-way: what was read and what is unsent stay here.
#[derive(Debug)]
pub struct Link {
    id: ProcessId,
    child: Option<Child>,
    stream: Option<UnixStream>,
    unread: Vec<u8>,
    unsent: VecDeque<u8>,
    closed: bool,
}

/// Half of it an owner may take that has to kill its tree first; then it is killed itself.
fn ends_within(mut child: Child, bound: Duration) -> bool {
    let (began, mut pause) = (clock::now(), Duration::from_millis(1));
    let mut killed = false;
    loop {
        // An error means that there is nobody to wait for.
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        let waited = clock::now().since(began).duration();
        if waited > bound && killed {
            return false;
        }
        if waited > bound / 2 && !killed {
            let _ = child.kill();
            killed = true;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

impl Link {
    /// Starts the owner.
    pub fn launch(settings: &OwnerSettings, ends: FarEnds, hello: &Hello) -> Result<Self, OwnerError> {
        let program = settings.program.clone().map_or_else(process::own_program, Ok);
        let program = program.map_err(|source| OwnerError::Launch { program: "ledger itself".to_owned(), source })?;
        let failed = |source| OwnerError::Launch { program: program.display().to_string(), source };
        adopted::take_in();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        let mut command = Program::new(&program);
        command.arg0("ledger").arg(OWNER_WORD).stdin(OwnedFd::from(theirs)).stdout(ends.stdout).stderr(ends.stderr);
        // What only the sinks need: a test that could write check runs could also write them over.
        command.env_remove("LEDGER_GITHUB_TOKEN").env_remove("LEDGER_HTTPS_TOKEN");
        let child = adopted::launch(|| command.spawn()).map_err(failed)?;
        // The command still holds the far ends of the pipes, and they must be the owner's alone.
        drop(command);
        let pid = child.id() as i32;
        let id = ProcessId { pid, start: process::stat(pid).map_or(0, |stat| stat.id.start) };
        ours.set_nonblocking(true).map_err(failed)?;
        let mut link = Self {
            id,
            child: Some(child),
            stream: Some(UnixStream::from_std(ours).map_err(failed)?),
            unread: Vec::new(),
            unsent: VecDeque::new(),
            closed: false,
        };
        link.write(hello);
        Ok(link)
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
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(stream) = self.stream.as_ref().filter(|_| !self.closed) else { return true };
        let mut end = [PollFd::new(stream, PollFlags::empty())];
        poll(&mut end, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && end[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    pub fn queue(&mut self, command: &Command) {
        // A file can stop its own owner, which would hear nothing then.
        let _ = deliver(self.id, Signal::Continue);
        self.write(command);
    }

    /// Ends an owner that does not answer. Its tree is ledger's from now on.
    pub fn give_up(&mut self) {
        let _ = deliver(self.id, Signal::Kill);
        self.closed = true;
    }

    /// Says no more, which an owner takes for the end. The answer waits until it has ended; one that has not swept kills its tree first.
    pub fn hang_up(&mut self) -> Option<impl FnOnce() + Send + 'static> {
        self.stream = None;
        let id = self.id;
        self.child.take().map(|child| {
            move || {
                // Stopped by its file, it would not see that the socket is closed.
                let _ = deliver(id, Signal::Continue);
                if !ends_within(child, LAST_RITES) {
                    tracing::warn!(pid = id.pid, "the owner of a file does not end, and is left");
                }
                adopted::remove_owner(id.pid);
            }
        })
    }

    fn write<T: serde::Serialize>(&mut self, message: &T) {
        let line = serde_json::to_vec(message).expect("commands are plain data with string keys");
        self.unsent.extend(line);
        self.unsent.push_back(b'\n');
        // What does not go now goes with the next exchange.
        let _ = self.send();
    }

    /// Sends as much as goes without waiting. It asks the socket itself, because tokio's answer may still be "not known" before the
    /// first wait, and a command should not wait for that.
    fn send(&mut self) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        while !self.unsent.is_empty() {
            // A closed socket is an error here and no SIGPIPE, which Rust's runtime has ignored from the start.
            match rustix::net::send(stream, self.unsent.as_slices().0, rustix::net::SendFlags::empty()) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                // The owner is gone, which reading says too.
                Err(_) => self.unsent.clear(),
            }
        }
        Ok(())
    }

    /// Waits until something could be read or written, and does it.
    pub async fn exchange(&mut self) {
        let Some(stream) = self.stream.as_ref().filter(|_| !self.closed) else { return pending().await };
        let mut interest = tokio::io::Interest::READABLE;
        if !self.unsent.is_empty() {
            interest |= tokio::io::Interest::WRITABLE;
        }
        let Ok(ready) = stream.ready(interest).await else {
            self.closed = true;
            return;
        };
        if ready.is_readable() {
            self.receive();
        }
        if ready.is_writable() && self.send().is_err() {
            // Tells tokio to wait for the socket again.
            if let Some(stream) = &self.stream {
                let _ = stream.try_io(tokio::io::Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
            }
        }
    }

    fn receive(&mut self) {
        let Some(stream) = &self.stream else { return };
        let mut chunk = [0_u8; 16 * 1024];
        match stream.try_read(&mut chunk) {
            Ok(0) => self.closed = true,
            Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.closed = true,
        }
    }

    pub fn take_reply(&mut self) -> Option<Reply> {
        loop {
            let end = self.unread.iter().position(|&byte| byte == b'\n')?;
            let rest = self.unread.split_off(end + 1);
            let line = std::mem::replace(&mut self.unread, rest);
            match serde_json::from_slice(&line) {
                Ok(reply) => return Some(reply),
                Err(error) => {
                    // Whoever waits for that answer waits no longer: the owner counts as lost, and its tree is swept without it.
                    tracing::warn!(%error, "a line of the owner could not be read");
                    self.give_up();
                }
            }
        }
    }
}
