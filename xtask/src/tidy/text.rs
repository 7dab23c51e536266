//! Rules for every text file.

use std::path::Path;

use super::File;

/// Home folders of an author. In two parts, so that this file passes.
const HOMES: [&str; 3] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
/// Words that mark unfinished work. In two parts, so that this file passes.
const UNFINISHED: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Texts of others, word by word.
const NOT_OURS: [&str; 2] = ["LICENSE", "crates/steersman-apiserver/data/openapi.txt"];

pub(super) fn check(file: &File) -> Vec<String> {
    let generated = file.has_extension("lock") || file.has_extension("sum");
    if generated || NOT_OURS.iter().any(|path| file.path == Path::new(path)) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut complain = |what| complaints.push(file.complaint(index + 1, what));
        if line.ends_with([' ', '\t']) {
            complain("white space at the end of the line");
        }
        if HOMES.iter().any(|folder| line.contains(folder)) {
            complain("a path of one machine");
        }
        if UNFINISHED.iter().any(|word| line.contains(word) && !line.contains(&format!("{word}(#"))) {
            complain("unfinished work without the number of its issue");
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        complaints.push(file.complaint(file.text.lines().count(), "no newline at the end of the file"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> usize {
        check(&File::new("x.rs", text)).len()
    }

    #[test]
    fn trailing_white_space_and_a_missing_newline_are_found() {
        assert_eq!(complaints("x \ny"), 2);
        assert_eq!(complaints("x\ny\n"), 0);
    }

    #[test]
    fn unfinished_work_needs_the_number_of_its_issue() {
        assert_eq!(complaints(concat!("// TO", "DO\n")), 1);
        assert_eq!(complaints(concat!("// TO", "DO(#12)\n")), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        assert_eq!(complaints(concat!("cd /ho", "me/me/steersman\n")), 1);
    }
}
