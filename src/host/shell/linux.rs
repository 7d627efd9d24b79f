//! Linux: setsid(1) is everywhere.

use super::line;
use crate::host::owner::SpawnSpec;

/// A program that ends at once and leaves a daemon behind, as a virtual machine does.
pub fn leaver() -> SpawnSpec {
    line("(setsid sh -c 'exec sleep 300' </dev/null >/dev/null 2>&1 &)".into())
}
