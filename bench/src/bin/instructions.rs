//! Does the work of one case, to be counted by callgrind: `cargo xtask bench --instructions` runs
//! it.
#![allow(unsafe_code, reason = "seeds the hashers: see getrandom")]

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Result;
use clap::Parser;
use steersman_bench::instructions::{CASES, Case};

/// Does the work of one case and prints how many operations it was, or lists the cases.
#[derive(Parser)]
struct Args {
    /// The case
    #[arg(required_unless_present_any = ["list", "hash"])]
    case: Option<String>,
    /// List the cases, one a line: the name, a tab, and what one operation is
    #[arg(long)]
    list: bool,
    /// Print a hash, which is the same in every run because hashers are seeded
    #[arg(long)]
    hash: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.list {
        CASES.iter().for_each(|case| println!("{}\t{}", case.name, case.unit));
    }
    if args.hash {
        println!("{:016x}", RandomState::new().hash_one("a key"));
    }
    if let Some(name) = args.case {
        println!("{}", Case::named(&name)?.run()?);
    }
    Ok(())
}

/// Takes the place of the C library's function, from which the standard library seeds its hashers.
///
/// Collisions in a hash table depend on the seed, and so would counts. This program makes no
/// secrets.
///
/// # Safety
///
/// As that of the C library's function: `length` bytes at `buffer` must be writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    for offset in 0..length {
        // SAFETY: the caller says that these bytes are writable.
        unsafe { buffer.add(offset).write(NEXT.fetch_add(73, Ordering::Relaxed)) };
    }
    length.cast_signed()
}
