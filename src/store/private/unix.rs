//! Unix: the mode says who may read.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

pub fn private_folder(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder.mode(0o700)
}
