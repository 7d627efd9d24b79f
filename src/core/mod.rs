//! The pure part: decisions and shapes.
//!
//! Nothing in here reads a clock, a file, the environment, a database or a socket, and nothing in here imports another layer.
//! Time is always a parameter. A tidy test holds this.

pub mod backtest;
pub mod cap;
pub mod capcheck;
pub mod capfile;
pub mod chain;
pub mod cidata;
pub mod classify;
pub mod ending;
pub mod event;
pub mod fold;
pub mod history;
pub mod ids;
pub mod job;
pub mod lease;
pub mod legline;
pub mod marker;
pub mod moment;
pub mod outcome;
pub mod pattern;
pub mod plan;
pub mod process;
pub mod redact;
pub mod resource;
pub mod retention;
pub mod row;
pub mod sample;
pub mod scan;
pub mod schema;
pub mod slot;
pub mod stop;
pub mod tail;
pub mod trend;
pub mod verdict;
pub mod version;
pub mod watch;
