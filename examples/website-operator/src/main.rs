//! The operator in a cluster. `website-operator --help` lists its flags and subcommands.

use std::process::ExitCode;

fn main() -> ExitCode {
    website_operator::program().main()
}
