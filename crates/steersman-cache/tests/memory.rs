//! What the allocator retains. Alone in its program, because the setting is for the whole process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use serde_json::Value;
use steersman_cache::{Storage, StorageMode, StorageOptions, release_freed_memory};

/// Resident memory in megabytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line VmRSS");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") >> 10
}

/// Megabytes that stay resident after large blocks were freed.
fn retained() -> usize {
    let before = resident();
    for megabytes in [24, 16] {
        drop(std::hint::black_box(vec![1_u8; megabytes << 20]));
    }
    resident().saturating_sub(before)
}

#[test]
fn only_the_program_decides_whether_freed_memory_goes_back_to_the_system() {
    let options = StorageOptions { mode: StorageMode::Compressed, ..StorageOptions::default() };
    let _storage = Storage::<Value>::new(options);
    let before = retained();
    assert!(before >= 8, "a storage does not configure the allocator, but only {before} MB are retained");
    assert!(release_freed_memory());
    let after = retained();
    assert!(after < 8, "{after} MB are retained");
}
