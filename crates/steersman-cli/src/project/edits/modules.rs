//! The list of modules of a file: `pub mod name;`.

use syn::{Item, ItemMod};

use super::source::Source;

/// The file with another module. A list in the order of the names stays in order, as rustfmt wants
/// it.
pub(super) fn insert(source: &Source<'_>, name: &str) -> String {
    let newline = source.newline();
    let line = format!("pub mod {name};");
    let modules: Vec<&ItemMod> = modules(source).collect();
    let Some(next) = modules.iter().position(|module| module.ident.to_string().as_str() > name) else {
        return match modules.last() {
            Some(last) => source.with(source.line_end(source.range(last).end), &format!("{newline}{line}")),
            None => insert_first(source, &line),
        };
    };
    // After the module before it, so that a comment above the next one stays with that.
    if let Some(before) = next.checked_sub(1).map(|index| modules[index]) {
        return source.with(source.line_end(source.range(before).end), &format!("{newline}{line}"));
    }
    let first = source.range(modules[next]).start;
    if !source.is_first_in_line(first) {
        return source.with(first, &format!("{line} "));
    }
    // A comment at the beginning of the file is about the file.
    let above = source.above_comments(first, source.start);
    let place = if above == source.start { source.line_start(first) } else { above };
    source.with(place, &format!("{line}{newline}"))
}

/// The file with its first module: after the imports, else after the comment of the file.
fn insert_first(source: &Source<'_>, line: &str) -> String {
    let newline = source.newline();
    let imports = source.file.items.iter().filter(|item| matches!(item, Item::Use(_)));
    let end = imports
        .map(|item| source.range(item).end)
        .chain(source.file.attrs.iter().map(|attribute| source.range(attribute).end))
        .max();
    let Some(end) = end else {
        let separator = if source.text[source.start..].trim().is_empty() { "" } else { newline };
        return source.with(source.start, &format!("{line}{newline}{separator}"));
    };
    let place = source.line_end(end);
    let rest = &source.text[place..];
    let below = without_newline_before(rest);
    let is_blank_below = below.is_none_or(|below| below.is_empty() || without_newline_before(below).is_some());
    let separator = if is_blank_below { newline } else { "" };
    source.with(place, &format!("{newline}{separator}{line}"))
}

/// The file without a module; `None` if it has no such module.
pub(super) fn remove(source: &Source<'_>, name: &str) -> Option<String> {
    let module = source.range(find(source, name)?);
    let start = source.line_start(module.start);
    let end = source.line_end(module.end);
    let beside = &source.text[module.end..end];
    if !source.is_first_in_line(module.start) || !beside.trim().is_empty() {
        return Some(source.without(module.start..end - beside.trim_start().len()));
    }
    let (before, rest) = (&source.text[..start], &source.text[end..]);
    let is_only = modules(source).count() == 1;
    let Some(after) = without_newline_before(rest) else {
        // The last line has no line break: the one above goes with it, and a blank line.
        let before = without_newline_after(before).unwrap_or_default();
        return Some(without_newline_after(before).filter(|_| is_only).unwrap_or(before).to_owned());
    };
    // The blank line that separates the only module goes with it.
    let is_blank_below = after.is_empty() || without_newline_before(after).is_some();
    let above = without_newline_after(before).filter(|above| without_newline_after(above).is_some());
    match above {
        Some(above) if is_only && is_blank_below => Some(format!("{above}{after}")),
        None if is_only && start == source.start => {
            Some(format!("{before}{}", without_newline_before(after).unwrap_or(after)))
        }
        _ => Some(format!("{before}{after}")),
    }
}

fn without_newline_before(text: &str) -> Option<&str> {
    text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n'))
}

fn without_newline_after(text: &str) -> Option<&str> {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'))
}

/// The module of a name, in a file of its own.
pub(super) fn find<'a>(source: &'a Source<'_>, name: &str) -> Option<&'a ItemMod> {
    modules(source).find(|module| module.ident == name)
}

/// The modules of a file that are in files of their own.
fn modules<'a>(source: &'a Source<'_>) -> impl Iterator<Item = &'a ItemMod> {
    source.file.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module),
        _ => None,
    })
}
