//! The operator on an API server in this process, with the objects of `samples/`. It is a package
//! of its own, so that the program in the image has no API server.

use std::process::ExitCode;

fn main() -> ExitCode {
    website_operator::program().develop()
}
