//! Existing Rust files: lines are inserted, and every other byte stays.

use super::{CREATE, Workplace};

/// A library that its author has given another form.
const LIBRARY: &str = r#"//! Mine: ä ö ü.
#![warn(missing_docs)]

use std::process::ExitCode; // first

pub mod api; pub mod controllers;

/// The flags.
#[derive(clap::Args)]
pub struct Flags { workers : usize }

/// Starts it.
pub fn start() -> ExitCode {
	let program = steersman_program::Program::with_flags("x", "1", |manager: &Manager, flags: &Flags| {
		other::add(manager, flags.workers)?;
		// All is added.
		Ok::<(), Error>(())
	})
		.about("x")
		// Two replicas.
		.operator(|operator| { operator.replicas = 2 });
	program.main()
}
"#;

const CREATED: &str = r#"//! Mine: ä ö ü.
#![warn(missing_docs)]

use std::process::ExitCode; // first

pub mod api; pub mod controllers;

/// The flags.
#[derive(clap::Args)]
pub struct Flags { workers : usize }

/// Starts it.
pub fn start() -> ExitCode {
	let program = steersman_program::Program::with_flags("x", "1", |manager: &Manager, flags: &Flags| {
		other::add(manager, flags.workers)?;
		controllers::page::add(manager)?;
		// All is added.
		Ok::<(), Error>(())
	})
		.crd(api::v1::page::crd)
		.samples(include_str!("../samples/page.yaml"))
		.about("x")
		// Two replicas.
		.operator(|operator| { operator.replicas = 2 });
	program.main()
}
"#;

#[test]
fn only_lines_are_inserted_into_existing_files() {
    for windows in [false, true] {
        let form = |text: &str| if windows { text.replace('\n', "\r\n") } else { text.to_owned() };
        let place = Workplace::with_project();
        place.write("src/lib.rs", &form(LIBRARY));
        let api = "//! Mine.\nmod other;\n// The newest.\npub(crate) mod v2;\n";
        let api_created = "//! Mine.\nmod other;\npub mod v1;\n// The newest.\npub(crate) mod v2;\n";
        place.write("src/api/mod.rs", &form(api));
        place.done(CREATE);
        assert_eq!(place.read("src/lib.rs"), form(CREATED));
        assert_eq!(place.read("src/api/mod.rs"), form(api_created));
        place.done("delete api --kind Page");
        assert_eq!(place.read("src/lib.rs"), form(LIBRARY));
        assert_eq!(place.read("src/api/mod.rs"), form(api));
    }
}

#[test]
fn without_a_place_the_error_has_the_lines_and_nothing_is_written() {
    let place = Workplace::with_project();
    let mine = "pub mod api;\npub mod controllers;\npub fn program() { macro_program!(setup) }\n";
    place.write("src/lib.rs", mine);
    place.write("src/controllers/mod.rs", "fn broken( {\n");
    let error = place.refused(CREATE, "cannot find where to add Page in web.example.com/v1, so nothing was changed");
    let lines = "\
Add these lines by hand, then run the command again:
  src/lib.rs, in the chain of calls that begins with Program::new:
    .crd(api::v1::page::crd)
  src/lib.rs, in the chain of calls that begins with Program::new:
    .samples(include_str!(\"../samples/page.yaml\"))
  src/lib.rs, in the function that gets the manager, before its last expression:
    controllers::page::add(manager)?;
  src/controllers/mod.rs, among the modules:
    pub mod page;
";
    assert!(error.ends_with(lines), "{error}");
    assert!(error.contains("src/lib.rs: there is no call of Program::new or Program::with_flags. src/"), "{error}");
    assert!(error.contains("src/controllers/mod.rs: it is not valid Rust, line 1"), "{error}");

    // With the lines, the command makes the rest.
    let by_hand = mine.replace(
        "setup)",
        "setup, [.crd(api::v1::page::crd).samples( include_str!(\"../samples/page.yaml\") )], \
         |m| { controllers::page::add(m)?; })",
    );
    place.write("src/lib.rs", &by_hand);
    place.write("src/controllers/mod.rs", "pub mod page;\n");
    place.done(CREATE);
    assert_eq!(place.read("src/lib.rs"), by_hand);
    assert_eq!(place.read("src/controllers/mod.rs"), "pub mod page;\n");
    place.read("src/controllers/page.rs");

    let error = place.refused("delete api --kind Page", "cannot remove these lines of Page");
    assert!(error.contains("src/lib.rs, `.crd(api::v1::page::crd)` is at an unexpected place"), "{error}");
    place.write("src/lib.rs", mine);
    place.done("delete api --kind Page");
}

#[test]
fn a_missing_file_is_a_place_that_is_not_found() {
    let place = Workplace::with_project();
    std::fs::remove_file(place.root().join("src/lib.rs")).unwrap();
    place.refused(CREATE, "src/lib.rs: there is no call of Program::new");
}
