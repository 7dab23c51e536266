//! The example at the top of the crate is the README's program.

use std::fs;
use std::path::Path;

/// The first code block with this fence, without the lines that rustdoc hides.
fn block<'a>(text: impl IntoIterator<Item = &'a str>, fence: &str) -> Vec<&'a str> {
    let (mut inside, mut wanted, mut code) = (false, false, Vec::new());
    for line in text {
        match line.starts_with("```") {
            true if inside && wanted => return code,
            true => {
                inside = !inside;
                wanted = inside && line == fence;
            }
            false if wanted && line != "#" && !line.starts_with("# ") => code.push(line),
            false => {}
        }
    }
    panic!("no code block begins with {fence}");
}

#[test]
fn the_readme_and_the_crate_page_show_the_same_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(folder.join("../../README.md")).unwrap();
    let source = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    let page = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let page = page.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let (page, readme) = (block(page, "```"), block(readme.lines(), "```rust,no_run"));
    for (number, (ours, theirs)) in page.iter().zip(&readme).enumerate() {
        assert_eq!(ours, theirs, "line {} of the program in src/lib.rs and in README.md", number + 1);
    }
    assert_eq!(page.len(), readme.len(), "lines of the program in src/lib.rs and in README.md");
}
