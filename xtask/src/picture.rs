//! The picture of `cargo run` in the README, made from a real run.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::{process, workspace};

const PICTURE: &str = "docs/cargo-run.svg";
/// As long as the demonstration of the program takes.
const DURATION: &str = "9s";
const COLUMNS: usize = 132;
const CHARACTER_WIDTH: f64 = 7.25;
const LINE_HEIGHT: usize = 17;
const MARGIN: usize = 14;

/// Runs the Network operator as `cargo run` does, for some seconds, and draws its output.
pub(crate) fn run() -> Result<()> {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--", "--duration", DURATION]).env("CLICOLOR_FORCE", "1");
    let shown = process::output(&mut command).context("running the Network operator")?;
    ensure!(shown.contains("\x1b["), "nothing that it printed has a colour");
    let path = workspace::root().join(PICTURE);
    fs::write(&path, draw(&shown)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{PICTURE} shows {} lines", shown.lines().count());
    Ok(())
}

/// The text with its colours as an SVG.
fn draw(text: &str) -> String {
    let lines: Vec<&str> = std::iter::once("$ cargo run").chain(text.lines()).collect();
    let width = (COLUMNS as f64).mul_add(CHARACTER_WIDTH, 2.0 * MARGIN as f64);
    let height = lines.len() * LINE_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" role=\"img\" aria-label=\"What cargo run shows\">\n\
         <style>text {{ font: 12px ui-monospace, Menlo, Consolas, monospace; white-space: pre }}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#20242c\"/>\n<g fill=\"#d8dee9\">\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let (colour, line) = colour(line);
        let y = MARGIN + (index + 1) * LINE_HEIGHT - 4;
        // Writing to a String cannot fail.
        let _ =
            writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\"{colour} xml:space=\"preserve\">{}</text>", escaped(&line));
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The colour of a line with one colour, and its text, which is cut if it is too long.
fn colour(line: &str) -> (&'static str, String) {
    let (code, text) = line.strip_prefix("\x1b[").and_then(|rest| rest.split_once('m')).unwrap_or(("", line));
    let colour = match code {
        "2" => " fill=\"#7b8494\"",
        "32" => " fill=\"#8fc379\"",
        "33" => " fill=\"#e0b050\"",
        "36" => " fill=\"#63b8c8\"",
        _ => "",
    };
    let text = text.replace("\x1b[0m", "");
    let shown =
        if text.chars().count() > COLUMNS { text.chars().take(COLUMNS - 1).chain(['…']).collect() } else { text };
    (colour, shown)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_kept_and_text_is_escaped() {
        let svg = draw("\x1b[32moperator <a> & b\x1b[0m\nplain");
        assert!(svg.contains("fill=\"#8fc379\" xml:space=\"preserve\">operator &lt;a&gt; &amp; b</text>"), "{svg}");
        assert!(svg.contains(">plain</text>") && !svg.contains('\x1b'), "{svg}");
    }

    #[test]
    fn long_lines_are_cut() {
        let (_, line) = colour(&"é".repeat(COLUMNS + 1));
        assert_eq!((line.chars().count(), line.ends_with('…')), (COLUMNS, true));
    }
}
