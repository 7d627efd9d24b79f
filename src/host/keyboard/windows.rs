//! Windows: no file has a terminal, so nothing is relayed. The Enter key of ledger's own console is waited for on a thread, which ends
//! with the process.

use std::io::{BufRead as _, IsTerminal as _};

use tokio::sync::mpsc;

use crate::host::owner::Writer;

/// Never made.
#[derive(Debug)]
pub enum Keyboard {}

impl Keyboard {
    pub fn relay_to(terminal: Writer) -> Option<Self> {
        match terminal {}
    }

    pub fn continued(&self) {
        match *self {}
    }
}

/// Tells when Enter is pressed at ledger's own console.
#[derive(Debug, Default)]
pub struct EnterKey {
    lines: Option<mpsc::Receiver<()>>,
}

impl EnterKey {
    /// Listens where standard input is a console; elsewhere no key is ever pressed.
    pub fn listen() -> Self {
        if !std::io::stdin().is_terminal() {
            return Self { lines: None };
        }
        let (pressed, lines) = mpsc::channel(1);
        let reading = move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_err() || pressed.blocking_send(()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("ledger-keys".to_owned()).spawn(reading);
        Self { lines: thread.is_ok().then_some(lines) }
    }

    pub fn is_heard(&self) -> bool {
        self.lines.is_some()
    }

    /// The next time that Enter is pressed; never, where there is no console.
    pub async fn pressed(&mut self) {
        if let Some(lines) = &mut self.lines
            && lines.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
