//! What is proved on Windows, or under Wine: trees in Job Objects, runs from outside, slots.
//!
//! The files of these tests are played by this very program, because a bare Windows has few programs that wait or fork when told.

mod children;
mod runs;
mod slots;
mod trees;
