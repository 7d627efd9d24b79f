//! How ledger speaks to an owner. What is said is in `wire`; nothing here knows what it means.

use std::time::Duration;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::Link;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::Link;

/// So long an owner may take to end its tree and itself when nobody speaks to it any more. One that takes longer hangs in a call of the
/// kernel, and is left.
const LAST_RITES: Duration = Duration::from_secs(30);
