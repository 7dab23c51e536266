//! Rules for `docs/contracts.md`, the page of the libraries' contracts.
//!
//! A contract is a section `## 4. Cache before handler` with two items: `- Types:` names the types
//! that document it, `- Tests:` the tests that hold it. Both are checked against the sources, and
//! so is each mention of a contract by its number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::File;
use super::prose::Prose;

const PAGE: &str = "docs/contracts.md";

/// A section of the page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contract {
    /// The line of its heading.
    line: usize,
    types: Vec<String>,
    tests: Vec<String>,
}

/// Both ways: what the page names exists, and what sources mention is on the page.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == Path::new(PAGE)) else {
        return vec![format!("{PAGE} is missing")];
    };
    let contracts = read(&page.text);
    let sources: Vec<&File> = files.iter().filter(|file| file.has_extension("rs")).collect();
    let mentions: Vec<(&File, Vec<(usize, u32)>)> =
        sources.iter().map(|file| (*file, mentions(&Prose::of(file).words()))).collect();
    let tests: BTreeSet<&str> = sources.iter().flat_map(|file| tests(&file.text)).collect();

    let mut complaints = Vec::new();
    for (number, contract) in &contracts {
        let mut complain = |what: &str| complaints.push(page.complaint(contract.line, what));
        if contract.types.is_empty() || contract.tests.is_empty() {
            complain(&format!("contract {number} names no type or no test"));
        }
        for test in contract.tests.iter().filter(|test| !tests.contains(test.as_str())) {
            complain(&format!("contract {number}: there is no test `{test}`"));
        }
        for name in &contract.types {
            let declaring = mentions.iter().filter(|(file, _)| file.is_library() && declares(&file.text, name));
            let numbers: Vec<_> = declaring.map(|(_, mentions)| mentions.iter().any(|(_, n)| n == number)).collect();
            if numbers.is_empty() {
                complain(&format!("contract {number}: there is no type `{name}`"));
            } else if !numbers.contains(&true) {
                complain(&format!("contract {number} is not mentioned where `{name}` is declared"));
            }
        }
    }
    for (file, mentions) in &mentions {
        for (line, number) in mentions.iter().filter(|(_, number)| !contracts.contains_key(number)) {
            complaints.push(file.complaint(*line, &format!("contract {number} is not in {PAGE}")));
        }
    }
    complaints
}

/// The contracts of the page by number.
fn read(page: &str) -> BTreeMap<u32, Contract> {
    let mut contracts = BTreeMap::new();
    let (mut current, mut item) = (None, "");
    for (index, line) in page.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            current = heading.split_once(". ").and_then(|(number, _)| number.parse::<u32>().ok());
            if let Some(number) = current {
                contracts.insert(number, Contract { line: index + 1, ..Contract::default() });
            }
        }
        item = match line {
            _ if line.starts_with("- Types:") => "types",
            _ if line.starts_with("- Tests:") => "tests",
            // An item continues in indented lines.
            _ if line.starts_with("  ") => item,
            _ => "",
        };
        let Some(contract) = current.and_then(|number| contracts.get_mut(&number)) else { continue };
        let names = line.split('`').skip(1).step_by(2).map(str::to_owned);
        match item {
            "types" => contract.types.extend(names),
            "tests" => contract.tests.extend(names),
            _ => {}
        }
    }
    contracts
}

/// The numbers in "contract 6" and "contracts 1 to 4, 8 and 9", each with its line.
fn mentions(words: &[(usize, String)]) -> Vec<(usize, u32)> {
    let mut mentions = Vec::new();
    for (index, (_, word)) in words.iter().enumerate() {
        if word != "contract" && word != "contracts" {
            continue;
        }
        let mut first_of_range = None;
        for (line, word) in &words[index + 1..] {
            match (word.as_str(), word.parse::<u32>()) {
                (_, Ok(number)) => {
                    let first = first_of_range.take().unwrap_or(number);
                    mentions.extend((first..=number).map(|number| (*line, number)));
                }
                ("and", _) => {}
                ("to", _) => first_of_range = mentions.last().map(|(_, number)| number + 1),
                _ => break,
            }
        }
    }
    mentions
}

/// The names of the test functions of a source.
fn tests(source: &str) -> Vec<&str> {
    let mut tests = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let signature = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        if let Some(signature) = signature {
            if is_test {
                tests.extend(signature.split('(').next());
            }
            is_test = false;
        }
    }
    tests
}

/// Whether a source declares a public type of this name.
fn declares(source: &str, name: &str) -> bool {
    ["pub struct ", "pub enum ", "pub trait "].iter().any(|keyword| {
        source.split(keyword).skip(1).any(|rest| {
            rest.strip_prefix(name)
                .is_some_and(|rest| !rest.starts_with(|char: char| char.is_alphanumeric() || char == '_'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_TEXT: &str = "# Contracts\n\n## 4. Cache before handler\n\nText with `code`.\n\n- Types: `Informer`.\n- Tests: `a_test`,\n  `b_test`.\n";
    const SOURCE: &str = "/// Held (contract 4).\npub struct Informer;\n#[test]\nfn a_test() {}\n#[tokio::test(start_paused = true)]\nasync fn b_test() {}\n";

    fn complaints(page: &str, source: &str) -> Vec<String> {
        check(&[File::new(PAGE, page), File::new("crates/x/src/y.rs", source)])
    }

    #[test]
    fn a_page_that_agrees_with_the_sources_passes() {
        assert_eq!(complaints(PAGE_TEXT, SOURCE), [""; 0]);
    }

    #[test]
    fn a_test_that_is_gone_is_found() {
        let found = complaints(PAGE_TEXT, &SOURCE.replace("b_test", "c_test"));
        assert_eq!(found, ["docs/contracts.md:3: contract 4: there is no test `b_test`"]);
        let found = complaints(PAGE_TEXT, &SOURCE.replace("#[test]\n", ""));
        assert_eq!(found, ["docs/contracts.md:3: contract 4: there is no test `a_test`"]);
    }

    #[test]
    fn a_type_that_is_gone_or_does_not_mention_the_contract_is_found() {
        let found = complaints(PAGE_TEXT, &SOURCE.replace("Informer", "Informers"));
        assert_eq!(found, ["docs/contracts.md:3: contract 4: there is no type `Informer`"]);
        let found = complaints(PAGE_TEXT, &SOURCE.replace("(contract 4)", ""));
        assert_eq!(found, ["docs/contracts.md:3: contract 4 is not mentioned where `Informer` is declared"]);
    }

    #[test]
    fn a_contract_without_tests_is_found() {
        let found = complaints(&PAGE_TEXT.replace("- Tests:", "- Seen:"), SOURCE);
        assert_eq!(found, ["docs/contracts.md:3: contract 4 names no type or no test"]);
    }

    #[test]
    fn a_missing_page_is_found() {
        assert_eq!(check(&[File::new("crates/x/src/y.rs", SOURCE)]), ["docs/contracts.md is missing"]);
    }

    #[test]
    fn a_mention_of_a_contract_that_is_not_on_the_page_is_found() {
        let found = complaints(PAGE_TEXT, &format!("{SOURCE}// As contracts 4 and 12 promise.\n"));
        assert_eq!(found, ["crates/x/src/y.rs:7: contract 12 is not in docs/contracts.md"]);
    }

    #[test]
    fn mentions_are_read_as_lists_and_ranges() {
        let file = File::new("x.rs", "// Contracts 1 to 4, 8 and 9 of three; a contract for 5.\n");
        let numbers: Vec<_> = mentions(&Prose::of(&file).words()).into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 8, 9]);
    }
}
