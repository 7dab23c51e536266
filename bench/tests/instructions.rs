//! The program whose instructions are counted does the same in every run.

use std::process::Command;

/// The standard library takes the seeds of its hashers from the system. The program replaces that
/// function; if the standard library finds another way to the system, this fails.
#[test]
fn hashers_have_the_same_seed_in_every_run() {
    let hash = || {
        let output = Command::new(env!("CARGO_BIN_EXE_instructions")).arg("--hash").output().expect("the program runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("a hash is text")
    };
    let first = hash();
    assert_eq!(first.trim().len(), 16, "{first:?} is no hash");
    assert_eq!(first, hash());
}
