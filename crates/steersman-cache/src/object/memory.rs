//! How much memory the allocator takes at a time, and how much of what is freed it keeps.
//!
//! The only module of the workspace with `unsafe` in it: no safe function tells the C library.

use std::cell::Cell;
use std::sync::Once;

/// So much is taken at a time: glibc treats larger blocks in another way.
const ROOM: usize = 60 << 10;

thread_local! {
    /// About how much of it this thread has left.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Has the allocator take room for this many bytes and many more like them from the system.
///
/// glibc enlarges the memory of every thread but the first by one block at a time, as if it were the last one: a call into the kernel
/// for nearly every object of a list, which also holds up the other threads. What is freed here is still the thread's own. It is not
/// touched, so it takes no memory until it is used.
pub(crate) fn make_room(bytes: usize) {
    if cfg!(all(target_os = "linux", target_env = "gnu")) && bytes < ROOM {
        // While a thread ends, there is no need for it.
        let _ = LEFT.try_with(|left| match left.get().checked_sub(bytes) {
            Some(rest) => left.set(rest),
            None => {
                drop(std::hint::black_box(Vec::<u8>::with_capacity(ROOM)));
                left.set(ROOM - bytes);
            }
        });
    }
}

/// Has the allocator give back what is freed, from a megabyte on.
///
/// glibc takes the largest block that was ever freed for a sign of what will be needed again, and keeps twice as much for the life of
/// the process, for each thread. Training a dictionary frees some megabytes, once; kept, they are more than the dictionary saves on ten
/// thousand objects. Somebody who has set the thresholds in the environment knows better. Other allocators do not mind.
pub(crate) fn keep_little() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            const KEPT_MAX: i32 = 1 << 20;
            const VARIABLES: [&str; 3] = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"];
            if VARIABLES.iter().all(|name| std::env::var_os(name).is_none()) {
                #[allow(unsafe_code)]
                // SAFETY: any thread may call it at any time; it takes the allocator's own locks. What it sets is a number.
                unsafe {
                    libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_MAX);
                }
            }
        }
    });
}
