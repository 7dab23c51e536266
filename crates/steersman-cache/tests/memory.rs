//! What the allocator keeps. Alone in its program: the allocator is everybody's.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use serde_json::Value;
use steersman_cache::{Storage, StorageMode, StorageOptions};

/// Megabytes of memory in use.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for it");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") >> 10
}

/// Uses so many megabytes for a moment.
fn use_and_free(megabytes: usize) {
    drop(std::hint::black_box(vec![1_u8; megabytes << 20]));
}

#[test]
fn a_storage_that_compresses_does_not_let_the_allocator_keep_what_was_freed() {
    let options = StorageOptions { mode: StorageMode::Compressed, ..StorageOptions::default() };
    let _storage = Storage::<Value>::new(options);
    let before = resident();
    // After the first of these, glibc would keep what the second one frees.
    use_and_free(24);
    use_and_free(16);
    let kept = resident().saturating_sub(before);
    assert!(kept < 8, "{kept} MB are kept");
}
