//! Who allocates, by samples and call stacks, in the format of pprof.

use crate::{sys, OutOfMemory};
use core::ffi::c_int;

/// What a profile tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By call stack: allocated, live at the peak, live.
    Heap,
    /// Each live sample, with its thread, heap and age.
    Blocks,
    /// What was freed: where it was allocated and freed, and how long it lived.
    Lifetimes,
}

/// Samples one block in about `interval` bytes from now on; 512 KiB is a good choice. Not for
/// signal handlers: the first call may wait for a thread that loads a library.
pub fn start(interval: usize) -> Result<(), OutOfMemory> {
    // SAFETY: any number will do
    match unsafe { sys::fh_profile_start(interval) } {
        true => Ok(()),
        false => Err(OutOfMemory),
    }
}

/// Samples nothing any more. What is known stays.
pub fn stop() {
    // SAFETY: as above
    unsafe { sys::fh_profile_start(0) };
}

/// Writes a profile to an open file descriptor. False: sampling was never started, memory is short,
/// or not all could be written.
///
/// # Safety
///
/// `file` is the caller's to write to, as for `BorrowedFd::borrow_raw`. A number that is not open is
/// no mistake: the call fails.
pub unsafe fn write(file: c_int, kind: Kind) -> bool {
    let kind = match kind {
        Kind::Heap => sys::FH_PROFILE_HEAP,
        Kind::Blocks => sys::FH_PROFILE_BLOCKS,
        Kind::Lifetimes => sys::FH_PROFILE_LIFETIMES,
    };
    // SAFETY: the caller says so
    unsafe { sys::fh_profile_write(file, kind) }
}
