//! Writing to ledger's own stdout and stderr without ever waiting longer than is asked for. It must not decide what is given up.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::Outflow;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::Outflow;
