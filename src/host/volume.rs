//! macOS: how much room a volume can make, purgeable files included, as Core Foundation tells it.
//!
//! `statvfs` counts a local snapshot or a cached film as used, though the system gives both up as soon as somebody needs the room.
//! Compiled only; no Mac has run it.

use std::ffi::{c_long, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

type Reference = *const c_void;
/// kCFNumberSInt64Type.
const SIGNED_64: c_long = 4;

#[link(name = "CoreFoundation", kind = "framework")]
unsafe extern "C" {
    static kCFAllocatorDefault: Reference;
    static kCFURLVolumeAvailableCapacityForImportantUsageKey: Reference;
    fn CFURLCreateFromFileSystemRepresentation(allocator: Reference, path: *const u8, length: c_long, is_folder: u8) -> Reference;
    fn CFURLCopyResourcePropertyForKey(url: Reference, key: Reference, value: *mut Reference, error: *mut Reference) -> u8;
    fn CFNumberGetValue(number: Reference, kind: c_long, value: *mut c_void) -> u8;
    fn CFRelease(object: Reference);
}

/// An object that this process has to give back.
struct Owned(Reference);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is never null, and nobody else gives this reference back.
        unsafe { CFRelease(self.0) }
    }
}

fn owned(object: Reference) -> Option<Owned> {
    (!object.is_null()).then_some(Owned(object))
}

/// `None` where the volume does not say: it is no local one, or says 0, which some do for "not known".
pub fn available(path: &Path) -> Option<u64> {
    let bytes = std::path::absolute(path).ok()?;
    let bytes = bytes.as_os_str().as_bytes();
    let length = c_long::try_from(bytes.len()).ok()?;
    // SAFETY: the bytes live through the call, which copies them; what it makes is ours to release.
    let url = owned(unsafe { CFURLCreateFromFileSystemRepresentation(kCFAllocatorDefault, bytes.as_ptr(), length, 0) })?;
    let mut value: Reference = std::ptr::null();
    // SAFETY: the key is a constant of the framework, the result goes to `value`, and no error object is asked for.
    let told = unsafe {
        CFURLCopyResourcePropertyForKey(
            url.0,
            kCFURLVolumeAvailableCapacityForImportantUsageKey,
            &raw mut value,
            std::ptr::null_mut(),
        )
    };
    let number = owned(value).filter(|_| told != 0)?;
    let mut room = 0_i64;
    // SAFETY: the value of this key is a number, and the kind that is asked for is as wide as `room`.
    let exact = unsafe { CFNumberGetValue(number.0, SIGNED_64, (&raw mut room).cast()) };
    u64::try_from(room).ok().filter(|&room| exact != 0 && room > 0)
}
