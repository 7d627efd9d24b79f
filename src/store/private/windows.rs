//! Windows: who may read is inherited from the folder, which is the user's own unless somebody chose another.

use std::fs::{DirBuilder, OpenOptions};

pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub fn private_folder(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}
