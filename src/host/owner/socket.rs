//! The owner's end of the socket to ledger. It must not wait: whoever waits for it waits for children as well.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::wire::{Command, Hello, Reply};

pub struct Link {
    stream: UnixStream,
    unread: Vec<u8>,
    pub pending: VecDeque<Command>,
    /// ledger is gone.
    pub closed: bool,
}

impl Link {
    /// Standard input becomes the null device: nothing that is started later may hold the socket.
    pub fn take_stdin() -> io::Result<Self> {
        let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        rustix::net::sockopt::socket_type(&own)?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        Ok(Self { stream: UnixStream::from(own), unread: Vec::new(), pending: VecDeque::new(), closed: false })
    }

    pub fn hello(&mut self) -> io::Result<Hello> {
        while !self.unread.contains(&b'\n') {
            if !self.fill() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let line = self.take_line().unwrap_or_default();
        // The first command may have come in one piece with it.
        self.take_commands();
        Ok(serde_json::from_slice(&line)?)
    }

    pub fn receive(&mut self) {
        if !self.fill() {
            self.closed = true;
            return;
        }
        self.take_commands();
    }

    fn take_commands(&mut self) {
        while let Some(line) = self.take_line() {
            // ledger is this very program, so a whole line that cannot be read is a defect. To pass over it would leave ledger waiting for
            // an answer; to hang up ends the tree here, and ledger finds its owner lost.
            match serde_json::from_slice(&line) {
                Ok(command) => self.pending.push_back(command),
                Err(_) => self.closed = true,
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut chunk = [0_u8; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(count) if count > 0 => {
                self.unread.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            _ => false,
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.unread.iter().position(|&byte| byte == b'\n')?;
        let rest = self.unread.split_off(end + 1);
        Some(std::mem::replace(&mut self.unread, rest))
    }

    pub fn take_kill_now(&mut self) -> bool {
        let before = self.pending.len();
        self.pending.retain(|command| !matches!(command, Command::KillNow));
        self.pending.len() < before
    }

    pub fn send(&mut self, reply: &Reply) {
        let Ok(mut line) = serde_json::to_vec(reply) else { return };
        line.push(b'\n');
        // A write that fails means that ledger is gone, which the next read says too.
        let _ = self.stream.write_all(&line);
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_line_that_cannot_be_read_ends_the_talk_and_a_torn_one_waits() {
        let (stream, _other) = UnixStream::pair().expect("a pair");
        let mut link = Link { stream, unread: b"\"pause\"\n{\"sweep\":{\"grace".to_vec(), pending: VecDeque::new(), closed: false };
        link.take_commands();
        assert!(matches!(link.pending.pop_front(), Some(Command::Pause)) && !link.closed);
        link.unread.extend_from_slice(b"\":1e300}}\n");
        link.take_commands();
        assert!(link.pending.is_empty() && link.closed);
    }
}
