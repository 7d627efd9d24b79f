//! The pure part: decisions and shapes.
//!
//! Nothing in here reads a clock, a file, the environment, a database or a socket, and nothing in here imports another layer.
//! Time is always a parameter. A tidy test holds this.

pub mod event;
pub mod ids;
pub mod moment;
pub mod outcome;
pub mod process;
pub mod sample;
