//! macOS: there is no setsid(1), and perl comes with the system. No Mac has run this.

use super::line;
use crate::host::owner::SpawnSpec;

/// A program that ends at once and leaves a daemon behind, as a virtual machine does.
pub fn leaver() -> SpawnSpec {
    line("exec perl -MPOSIX -e 'fork and exit; POSIX::setsid(); exec qw(sleep 300)' </dev/null >/dev/null 2>&1".into())
}
