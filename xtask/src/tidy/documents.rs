//! Rules for pages and for references to them.

use std::path::Path;

use super::File;
use super::prose::Prose;

/// A link to a file leads to one.
pub(super) fn check_links(file: &File, root: &Path) -> Vec<String> {
    let folder = root.join(file.path.parent().unwrap_or(Path::new("")));
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                complaints.push(file.complaint(index + 1, &format!("no such file: {target}")));
            }
        }
    }
    complaints
}

/// The README has the two commands that a newcomer needs.
pub(super) fn check_readme(readme: &str) -> Vec<String> {
    let commands = ["\ncargo run\n", "\ncargo xtask test\n"];
    let missing = commands.iter().filter(|command| readme.matches(**command).count() != 1);
    missing
        .map(|command| format!("README.md: `{}` must stand in it once, on a line of its own", command.trim()))
        .collect()
}

/// Prose mentions only documents of this repository.
pub(super) fn check_mentions(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        for (line, text) in prose_lines(file) {
            for page in mentions(text) {
                let wanted = Path::new(page.trim_start_matches("../").trim_start_matches("./"));
                if !files.iter().any(|file| file.path.ends_with(wanted)) {
                    complaints.push(file.complaint(line, &format!("{page} is not in this repository")));
                }
            }
        }
    }
    complaints
}

/// The lines of comments, of pages outside of code blocks, and of comments in configuration.
fn prose_lines(file: &File) -> Vec<(usize, &str)> {
    match file.path.extension().and_then(|extension| extension.to_str()) {
        Some("rs" | "md") => Prose::of(file).lines.into_iter().map(|line| (line.number, line.text)).collect(),
        Some("toml" | "yaml" | "yml" | "sh") => {
            let lines = file.text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with('#'));
            lines.map(|(index, line)| (index + 1, line)).collect()
        }
        _ => Vec::new(),
    }
}

/// The Markdown files that a line mentions, web addresses aside.
fn mentions(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|char: char| char.is_whitespace() || "`()[]\"',;|".contains(char));
    let words = words.filter(|word| !word.contains("://")).map(|word| word.split('#').next().unwrap_or_default());
    words.map(|word| word.trim_end_matches(['.', ':', '?', '!'])).filter(|word| is_page(word))
}

fn is_page(word: &str) -> bool {
    word.strip_suffix(".md").is_some_and(|name| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || "_-./".contains(char))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_missing_file_is_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("LICENSE"), "").unwrap();
        let links = |text: &str| check_links(&File::new("README.md", text), root.path()).len();
        assert_eq!(links("[x](no-such-file.md)"), 1);
        assert_eq!(links("[x](LICENSE#top) and [y](https://example.com)"), 0);
    }

    #[test]
    fn a_readme_without_its_commands_is_found() {
        assert_eq!(
            check_readme("\ncargo run\n"),
            ["README.md: `cargo xtask test` must stand in it once, on a line of its own"]
        );
    }

    #[test]
    fn a_document_outside_the_repository_is_found() {
        let found = |path: &str, text: &str| {
            let files = [File::new(path, text), File::new("docs/known.md", "")];
            check_mentions(&files)
        };
        let missing = concat!("DES", "IGN.md");
        assert_eq!(
            found("x.rs", &format!("// See {missing}, part 3.\n")),
            [format!("x.rs:1: {missing} is not in this repository")]
        );
        assert_eq!(found("x.md", &format!("See `../shared/{missing}`.\n")).len(), 1);
        assert_eq!(found("x.toml", &format!("# See {missing}\n")).len(), 1);
        assert_eq!(found("x.rs", "// See docs/known.md. `known.md` is at https://example.com/other.md\n"), [""; 0]);
        assert_eq!(found("x.rs", &format!("const PAGE: &str = \"{missing}\";\n")), [""; 0]);
    }
}
