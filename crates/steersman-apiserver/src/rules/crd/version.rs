//! The order of API versions: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, and then all other
//! names alphabetically.

use std::cmp::Reverse;

use crate::request::budget;

/// The priority of a version. Higher ones come first in discovery.
pub(crate) fn priority(name: &str) -> impl Ord + use<'_> {
    budget::step(1);
    (read(name), Reverse(name))
}

/// Stage (alpha, beta, final), major and minor.
fn read(name: &str) -> Option<(u8, u32, u32)> {
    let name = name.strip_prefix('v')?;
    let major_end = name.find(|character: char| !character.is_ascii_digit()).unwrap_or(name.len());
    let (major, rest) = name.split_at(major_end);
    let (stage, minor) = match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
        (Some(minor), _) => (0, minor),
        (_, Some(minor)) => (1, minor),
        _ if rest.is_empty() => (2, "1"),
        _ => return None,
    };
    let number = |text: &str| {
        let is_number = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    Some((stage, number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn versions_are_in_the_order_of_discovery() {
        let order = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        let mut names = order;
        names.sort();
        names.sort_by(|one, other| priority(other).cmp(&priority(one)));
        assert_eq!(names, order);
    }
}
