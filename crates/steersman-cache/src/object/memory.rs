//! How much memory glibc's allocator takes at a time, and how much freed memory it retains.
//!
//! The only module of the workspace with `unsafe` code: no safe function configures the C library.

use std::cell::Cell;

/// Size of one reservation. glibc maps larger blocks separately.
const RESERVATION: usize = 60 << 10;

thread_local! {
    /// About how much of its reservation this thread has left.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Has the allocator take memory for this allocation and the next ones from the system at once.
///
/// glibc extends the heap of every thread but the first by one block at a time: a call into the
/// kernel for nearly every object of a list, which also blocks the other threads. The reservation
/// is freed at once and stays with the thread. It is not touched, so it takes no memory until it is
/// used.
pub(crate) fn reserve(bytes: usize) {
    if cfg!(all(target_os = "linux", target_env = "gnu")) && bytes < RESERVATION {
        // Fails only while the thread ends.
        let _ = LEFT.try_with(|left| match left.get().checked_sub(bytes) {
            Some(rest) => left.set(rest),
            None => {
                drop(std::hint::black_box(Vec::<u8>::with_capacity(RESERVATION)));
                left.set(RESERVATION - bytes);
            }
        });
    }
}

/// Has glibc's allocator return freed memory to the system when more than a megabyte of it is at
/// the end of a heap. Returns whether it did.
///
/// The setting is for the whole process, so no library calls this: call it at the start of `main`,
/// in programs that use `StorageMode::Compressed` or whose memory
/// matters after large lists. glibc retains twice the largest block that was ever freed, per
/// thread, for the life of the process. Training a dictionary frees some megabytes once; retained,
/// they outweigh what the dictionary saves on ten thousand objects.
///
/// Does nothing and returns `false` with another C library, or if `MALLOC_TRIM_THRESHOLD_`,
/// `MALLOC_MMAP_THRESHOLD_` or `GLIBC_TUNABLES` is in the environment. Other allocators ignore it.
pub fn release_freed_memory() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const RETAINED_MAX: i32 = 1 << 20;
        const VARIABLES: [&str; 3] = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"];
        if VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
            return false;
        }
        #[allow(unsafe_code)]
        // SAFETY: any thread may call it at any time, because it takes the allocator's own locks.
        // It sets a number.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, RETAINED_MAX) == 1
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}
