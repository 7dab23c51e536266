//! Runs one case under callgrind: `cargo xtask bench --instructions` starts it.

use anyhow::Result;
use clap::Parser;
use steersman_bench::instructions::{CASES, Case};

/// Does the work of one case and prints how many operations it was, or lists the cases.
#[derive(Parser)]
struct Args {
    /// The case
    #[arg(required_unless_present = "list")]
    case: Option<String>,
    /// List the cases, one a line: the name, a tab, and what one operation is
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.list {
        CASES.iter().for_each(|case| println!("{}\t{}", case.name, case.unit));
    }
    if let Some(name) = args.case {
        println!("{}", Case::named(&name)?.run()?);
    }
    Ok(())
}
