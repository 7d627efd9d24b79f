//! Parse, call, print the failure, exit.

fn main() {}
