//! glibc gives every thread that allocates a heap of its own, raises the size from which memory goes straight back to the system
//! whenever some of that size is freed, and keeps what is free below it. Over a soak of half an hour that came to several MiB which
//! nobody used: each thread had drawn a marker, or looked at three thousand processes, once.

use libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, c_int};

/// As glibc begins with; setting it keeps it.
const THRESHOLD: c_int = 128 * 1024;

/// One heap, and what is free goes back. Called before a run starts its threads; a report of many legs is better off without.
pub fn keep_small() {
    for (parameter, value) in [(M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, THRESHOLD), (M_TRIM_THRESHOLD, THRESHOLD)] {
        // SAFETY: it takes two numbers and may be called at any time; what it refuses stays as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}
