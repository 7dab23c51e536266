//! Descriptions within a budget.

use serde_json::Value;

use super::schema::marker;

/// Cuts the descriptions in a definition until its JSON has at most `size_max` bytes, if that is
/// possible. Returns the size.
pub(super) fn fit(definition: &mut Value, size_max: usize) -> usize {
    let size = size_of(definition);
    if size <= size_max {
        return size;
    }
    // The longest descriptions lose first: one limit for all, as large as possible.
    let (mut fits, mut too_long) = (0, longest(definition));
    while too_long - fits > 1 {
        let middle = fits + (too_long - fits) / 2;
        let mut cut = definition.clone();
        limit(&mut cut, middle);
        if size_of(&cut) <= size_max {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    limit(definition, fits);
    size_of(definition)
}

fn size_of(definition: &Value) -> usize {
    definition.to_string().len()
}

/// Visits the members of all schemas, with the smallest limit that a marker sets above them.
fn visit(value: &mut Value, is_properties: bool, max: usize, each: &mut impl FnMut(&mut Value, usize) -> bool) {
    match value {
        Value::Object(members) => {
            let own = members.get(marker::DESCRIPTION_MAX).filter(|_| !is_properties).and_then(Value::as_u64);
            let max = own.and_then(|own| usize::try_from(own).ok()).map_or(max, |own| own.min(max));
            // Among `properties`, a description is a field of that name.
            if !is_properties && members.get_mut("description").is_some_and(|text| text.is_string() && !each(text, max))
            {
                members.remove("description");
            }
            for (name, member) in members {
                let is_data = !is_properties && ["default", "example", "enum"].contains(&name.as_str());
                if !is_data {
                    visit(member, !is_properties && name == "properties", max, each);
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(|member| visit(member, false, max, each)),
        _ => {}
    }
}

/// Cuts each description to `max` bytes, or less where a marker asks for it.
pub(super) fn limit(definition: &mut Value, max: usize) {
    visit(definition, false, max, &mut |description, max| {
        if let Value::String(text) = description {
            shorten(text, max);
        }
        description.as_str().is_some_and(|text| !text.is_empty())
    });
}

fn longest(definition: &mut Value) -> usize {
    let mut longest = 0;
    visit(definition, false, usize::MAX, &mut |description, _| {
        longest = longest.max(description.as_str().map_or(0, str::len));
        true
    });
    longest
}

/// Cuts a text to at most `max` bytes: after a sentence if there is one, else after a word.
fn shorten(text: &mut String, max: usize) {
    const ELLIPSIS: &str = "…";
    if text.len() <= max {
        return;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if let Some(sentence) = text[..end].rfind(". ").or_else(|| text[..end].ends_with('.').then(|| end - 1)) {
        text.truncate(sentence + 1);
        return;
    }
    let room = max.saturating_sub(ELLIPSIS.len());
    match text[..end].char_indices().rev().find(|(index, character)| character.is_whitespace() && *index <= room) {
        Some((word, _)) => {
            text.truncate(word);
            text.push_str(ELLIPSIS);
        }
        None => text.clear(),
    }
}

/// Removes the markers of this crate from a schema.
pub(super) fn strip_markers(value: &mut Value, is_properties: bool) {
    match value {
        Value::Object(members) => {
            if !is_properties {
                members.retain(|name, _| !name.starts_with(marker::PREFIX));
            }
            for (name, member) in members {
                let is_data = !is_properties && ["default", "example", "enum"].contains(&name.as_str());
                if !is_data {
                    strip_markers(member, !is_properties && name == "properties");
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(|member| strip_markers(member, false)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_cut_after_a_sentence_or_a_word() {
        let cases = [
            ("One. Two three.", 100, "One. Two three."),
            ("One. Two three.", 14, "One."),
            ("One. Two three.", 4, "One."),
            ("One two three", 11, "One two…"),
            ("One two three", 5, ""),
            ("Größe und mehr", 11, "Größe…"),
            ("One", 0, ""),
        ];
        for (text, max, expected) in cases {
            let mut cut = text.to_owned();
            shorten(&mut cut, max);
            assert_eq!(cut, expected, "{text} in {max}");
            assert!(cut.len() <= max.max(text.len().min(max)), "{cut}");
        }
    }

    #[test]
    fn the_longest_descriptions_are_cut_until_the_definition_fits() {
        let long = "word ".repeat(100);
        let schema = |texts: [&str; 2]| json!({"description": texts[0], "properties": {"description": {"type": "string", "description": texts[1]}}});
        let mut cut = schema([&long, "Short."]);
        let bare = size_of(&schema(["", ""]));
        let size = fit(&mut cut, bare + 60);
        assert!(size <= bare + 60 && size > bare + 40, "{size} of {bare}");
        assert_eq!(cut["properties"]["description"]["description"], "Short.");

        let mut none = schema([&long, "Short."]);
        limit(&mut none, 0);
        assert_eq!(none, json!({"properties": {"description": {"type": "string"}}}));
    }

    #[test]
    fn a_field_can_limit_the_descriptions_below_it() {
        let mut schema = json!({"properties": {"pod": {
            "description": "Kept for ever.", marker::DESCRIPTION_MAX: 4, "items": {"description": "One. Two."},
        }, "other": {"description": "One. Two."}}});
        limit(&mut schema, usize::MAX);
        strip_markers(&mut schema, false);
        let expected =
            json!({"properties": {"pod": {"items": {"description": "One."}}, "other": {"description": "One. Two."}}});
        assert_eq!(schema, expected);
    }
}
