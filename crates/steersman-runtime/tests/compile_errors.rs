//! What the compiler says to a user who gets the signature of a reconciler wrong: words that a person can use.

#[test]
fn a_mistake_in_a_signature_gives_an_error_that_a_person_can_read() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
