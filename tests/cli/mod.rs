//! ledger from outside: the built program, its exit status, what it prints, and what its evidence says afterwards.

mod actions;
mod bounds;
mod deaths;
mod endings;
mod history;
mod leftovers;
mod names;
mod output;
mod people;
mod refusals;
mod signals;
mod words;
