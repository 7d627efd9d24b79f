//! Real processes that misbehave, and the owner that ends them (CASES.md 1-24, 27).

mod driver;
mod owner;
