//! The messages of the compiler for mistakes in a reconciler or a controller. Each leads to the
//! fix.

#[test]
fn a_mistake_gives_an_error_that_leads_to_the_fix() {
    trybuild::TestCases::new().compile_fail("tests/ui/rejected/*.rs");
}

#[test]
fn what_a_first_controller_writes_compiles() {
    trybuild::TestCases::new().pass("tests/ui/accepted/*.rs");
}
