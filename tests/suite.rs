<<<<<<< HEAD
//! The one integration test binary.

mod tidy;
=======
//! One binary for every integration test.

#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not as it should be")]

mod fault;
>>>>>>> 7fcf5ea (store: one database per leg and epoch, its writer, reader and verify)
