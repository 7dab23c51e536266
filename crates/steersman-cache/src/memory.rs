//! How much freed memory the allocator keeps.
//!
//! The only module of the workspace with `unsafe` in it: no safe function tells the C library.

use std::sync::Once;

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
