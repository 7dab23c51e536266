//! Suggestions for a misspelt name.

/// How many names are suggested.
const SUGGESTIONS_MAX: usize = 5;

/// The names in `known` that are similar to `wanted`, the most similar first, each once.
pub(crate) fn similar<'k>(wanted: &str, known: impl IntoIterator<Item = (&'k str, String)>) -> Vec<String> {
    let wanted: Vec<char> = wanted.to_lowercase().chars().collect();
    // A third of the letters may be wrong.
    let distance_max = wanted.len().div_ceil(3).min(4);
    let mut found: Vec<(usize, String)> = Vec::new();
    for (name, shown) in known {
        let name: Vec<char> = name.to_lowercase().chars().collect();
        if name.len().abs_diff(wanted.len()) > distance_max {
            continue;
        }
        let distance = distance(&wanted, &name);
        if distance <= distance_max && distance < wanted.len() && !found.iter().any(|(_, other)| *other == shown) {
            found.push((distance, shown));
        }
    }
    found.sort_by_key(|(distance, _)| *distance);
    found.into_iter().take(SUGGESTIONS_MAX).map(|(_, shown)| shown).collect()
}

/// The Levenshtein distance.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, compared) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != compared);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similar_to(wanted: &str, known: &[&str]) -> Vec<String> {
        similar(wanted, known.iter().map(|name| (*name, (*name).to_owned())))
    }

    #[test]
    fn the_distance_counts_letters() {
        let cases = [("", "abc", 3), ("kitten", "sitting", 3), ("pod", "pod", 0), ("pod", "pods", 1)];
        for (one, other, expected) in cases {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(distance(&letters(one), &letters(other)), expected, "{one} {other}");
            assert_eq!(distance(&letters(other), &letters(one)), expected, "{other} {one}");
        }
    }

    #[test]
    fn the_most_similar_names_come_first_and_others_not_at_all() {
        let known = ["Deployment", "DaemonSet", "Pod", "deployments", "Pod"];
        assert_eq!(similar_to("Deploymnet", &known), ["Deployment", "deployments"]);
        assert_eq!(similar_to("pod", &known), ["Pod"]);
        assert_eq!(similar_to("Widget", &known), [""; 0]);
        assert_eq!(similar_to("", &known), [""; 0]);
    }
}
