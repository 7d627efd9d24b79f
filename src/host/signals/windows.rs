//! Windows: console control events. A console that is closed, a session that ends and a shutdown end ledger some seconds later, whatever it
//! does until then; there is no Ctrl-Z.

use std::future::pending;
use std::io;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown,
};

use super::Signal;
use crate::core::ending::EndSignal;

/// Nothing is inherited here.
pub fn at_start() {}

/// What ledger does about them, in words.
pub const HEARD: &str = "Ctrl-C, Ctrl-Break, a closed console, logoff and shutdown end the run in order";

#[derive(Debug)]
pub struct Signals {
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// To be called once, inside the runtime, before the first file is started.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// The next signal. May be dropped and called again without losing one.
    pub async fn next(&mut self) -> Signal {
        let (signal, heard) = tokio::select! {
            heard = self.stop.recv() => (EndSignal::Term, heard),
            heard = self.shutdown.recv() => (EndSignal::Term, heard),
            heard = self.interrupt.recv() => (EndSignal::Int, heard),
            heard = self.close.recv() => (EndSignal::Hup, heard),
            heard = self.logoff.recv() => (EndSignal::Hup, heard),
        };
        // The streams end only with the runtime.
        if heard.is_none() {
            pending::<()>().await;
        }
        Signal::End(signal)
    }
}

/// Nobody can stop and continue a process of Windows from its console, so `Signals` never asks for this.
pub fn stop_self() {}
