//! Each lab prints what `docs/labs.md` shows.

use std::path::Path;
use std::process::{Command, Output};

const PAGE: &str = include_str!("../../../docs/labs.md");

/// A test for each lab, in the order of the page.
macro_rules! labs {
    ($($name:ident: $order:expr,)*) => {
        const LABS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name), env!(concat!("CARGO_BIN_EXE_", stringify!($name))), $order);
            }
        )*
    };
}

/// Whether lines always come in the same order. With two workers they do not, and a key that
/// changes twice is processed once or twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Same,
    Any,
}
use Order::{Any, Same};

labs! {
    rest_client: Same,
    typed_pod: Same,
    typed_running_pods: Same,
    typed_pods_and_nodes: Same,
    dynamic_client: Same,
    discovery: Same,
    list_watch: Same,
    informer: Same,
    workqueue: Any,
    informer_workqueue: Any,
    network_controller: Any,
    index_by_node: Same,
    cached_reads_while_away: Same,
}

#[test]
fn the_page_leads_through_every_lab_in_order() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let mut tested = LABS.to_vec();
    tested.sort_unstable();
    assert_eq!(tested, files);
    let places: Vec<_> = LABS.iter().map(|lab| PAGE.find(&command(lab)).unwrap_or_else(|| panic!("{lab}"))).collect();
    assert!(places.is_sorted(), "{LABS:?} {places:?}");
}

fn command(lab: &str) -> String {
    format!("\n$ cargo run -p labs --bin {lab}\n")
}

/// Runs a lab without a cluster, and compares its output with the page.
fn check(lab: &str, program: &str, order: Order) {
    let Output { status, stdout, stderr } = Command::new(program).env_remove("KUBECONFIG").output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success() && stderr.is_empty(), "{lab} ended with {status}: {stderr}");
    let (_, rest) = PAGE.split_once(&command(lab)).unwrap_or_else(|| panic!("{lab} is not in docs/labs.md"));
    let (quoted, _) = rest.split_once("\n```").expect("the block has an end");
    let stdout = String::from_utf8(stdout).unwrap();
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(without_chance).collect();
        if order == Any {
            lines.sort();
            lines.dedup();
        }
        lines
    };
    assert!(is_quoted(&lines(&stdout), &lines(quoted)), "{lab} prints this, unlike docs/labs.md:\n{stdout}");
}

/// Whether the lines are those of the page, on which `…` stands for any that are left out.
fn is_quoted(lines: &[String], page: &[String]) -> bool {
    match page.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first.trim() == "…" => (0..=lines.len()).any(|from| is_quoted(&lines[from..], rest)),
        Some((first, rest)) => lines.split_first().is_some_and(|(line, lines)| line == first && is_quoted(lines, rest)),
    }
}

/// A line without versions, times and the numbers of workers.
fn without_chance(line: &str) -> String {
    let is_version = |before: Option<&str>| matches!(before, Some("version" | "worker"));
    let words: Vec<&str> = line.split(' ').collect();
    let is_number = |word: &str| !word.is_empty() && word.chars().all(|character| character.is_ascii_digit());
    let mut kept = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| words[before]);
        let bare = word.trim_end_matches([',', ':']);
        let is_time = words.get(index + 1) == Some(&"ms") && kept.iter().all(|kept: &&str| kept.is_empty());
        if is_number(bare) && (is_version(before) || is_time) { kept.push("N") } else { kept.push(word) }
    }
    kept.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_left_to_chance_is_not_compared() {
    for (line, kept) in [
        ("  104 ms  worker 2  is done", "N ms worker N is done"),
        ("worker 1: default/web", "worker N default/web"),
        ("update  a, from version 8 to version 99", "update a, from version N to version N"),
        ("LIST      3 Pods, version 17", "LIST 3 Pods, version N"),
    ] {
        assert_eq!(without_chance(line), kept);
    }
}

#[test]
fn a_quotation_may_leave_lines_out() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(is_quoted(&lines("a b c d"), &lines("a … d")));
    assert!(is_quoted(&lines("a d"), &lines("a … d")));
    assert!(!is_quoted(&lines("a b c"), &lines("a … d")));
    assert!(!is_quoted(&lines("a b"), &lines("a")));
}
