//! Real processes that misbehave, and the owner that ends them (CASES.md 1-24, 27).

mod deaths;
mod driver;
mod endings;
mod escapes;
mod mechanisms;
mod owner;
mod pausing;
mod privileges;
mod qemu;
mod slots;
mod strangers;
mod terminal;
