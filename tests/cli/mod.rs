//! The command line as people and scripts use it: the built program, its output, its exit codes.

mod people;
