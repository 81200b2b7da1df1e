//! What a person sees: tables that fit a terminal, colours only on one, JSON for programs.

use std::io::{IsTerminal, Write};

use anyhow::{Context as _, Result};
use serde::Serialize;
use upliftmem_store::misleads;

/// Columns that a table may use.
const WIDTH: usize = 80;

/// What is said when standard output is full.
pub(crate) const UNWRITABLE: &str = "standard output can not be written";

/// Where results go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// One JSON document or JSON lines instead of text for people.
    pub(crate) json: bool,
    /// No progress.
    pub(crate) quiet: bool,
}

impl Output {
    /// Prints a JSON document for programs, or else lets `human` print for people.
    pub(crate) fn result<T: Serialize>(self, value: &T, human: impl FnOnce() -> String) -> Result<()> {
        if self.json {
            self.line(&serde_json::to_string(value)?)
        } else {
            self.line(human().trim_end())
        }
    }

    /// Prints a line to standard output. A reader that has gone away is no error.
    pub(crate) fn line(self, text: &str) -> Result<()> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// [`Self::line`] for what is whole already.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<()> {
        let mut out = std::io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => other.context(UNWRITABLE),
        }
    }

    /// Tells a person something, beside the result.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }

    /// A bar for work that takes more than a moment; invisible where nobody looks.
    pub(crate) fn bar(self, length: u64, what: &str) -> indicatif::ProgressBar {
        if self.quiet || self.json || !std::io::stderr().is_terminal() {
            return indicatif::ProgressBar::hidden();
        }
        let bar = indicatif::ProgressBar::new(length);
        let style = "{msg:24} {wide_bar} {pos}/{len}  {elapsed} gone, {eta} left";
        if let Ok(style) = indicatif::ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar
    }
}

/// Emphasis, where standard output is a terminal that wants colours.
pub(crate) fn strong(text: &str) -> String {
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\u{1b}[1m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// Rows of text under headings.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Whether the last column goes on in the next line instead of being cut.
    wraps: bool,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            wraps: false,
        }
    }

    /// A table whose last column is shown whole.
    pub(crate) fn wrapping(headings: &[&'static str]) -> Self {
        Self {
            wraps: true,
            ..Self::new(headings)
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text: numbers to the right, words to the left, the longest column but the first cut so that all fits.
    pub(crate) fn text(&self) -> String {
        let columns = self.headings.len();
        let length = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().map(|row| length(&row[column]));
                cells.chain([length(self.headings[column])]).max().unwrap_or(0)
            })
            .collect();
        while widths.iter().sum::<usize>() + 2 * (columns - 1) > WIDTH {
            // The first column names the row: whoever reads it may want to type it.
            let Some(widest) = (1..columns).max_by_key(|&column| widths[column]) else {
                break;
            };
            if widths[widest] <= 8 {
                break;
            }
            widths[widest] -= 1;
        }
        let numeric: Vec<bool> = (0..columns)
            .map(|column| !self.rows.is_empty() && self.rows.iter().all(|row| is_number(&row[column])))
            .collect();
        let line = |cells: Vec<&str>| {
            let cells = cells.iter().enumerate().map(|(column, cell)| {
                let cell = cut(cell, widths[column]);
                let pad = " ".repeat(widths[column].saturating_sub(length(&cell)));
                if numeric[column] { pad + &cell } else { cell + &pad }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut text = line(self.headings.clone()) + "\n";
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        text += &(rule.join("  ") + "\n");
        for row in &self.rows {
            let mut cells: Vec<&str> = row.iter().map(String::as_str).collect();
            let last = match cells.pop() {
                Some(last) if self.wraps => wrap(last, widths[columns - 1]),
                Some(last) => vec![last.to_owned()],
                None => continue,
            };
            for part in &last {
                text += &(line([cells.as_slice(), &[part]].concat()) + "\n");
                cells.fill("");
            }
        }
        text
    }
}

fn is_number(cell: &str) -> bool {
    cell.chars()
        .all(|c| c.is_ascii_digit() || "+-.,[]±% ".contains(c))
}

/// A text in lines of at most so many characters, broken between words.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            *line = cut(word, usize::MAX);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(&cut(word, usize::MAX));
        } else {
            lines.push(cut(word, usize::MAX));
        }
    }
    lines
}

/// The start of a text on one line, with a sign where it was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let harmless = |c: char| if c.is_control() || misleads(c) { ' ' } else { c };
    let one_line: String = text.chars().map(harmless).collect();
    if one_line.chars().count() <= width {
        return one_line;
    }
    let start: String = one_line.chars().take(width.saturating_sub(1)).collect();
    start + "…"
}

/// A number with its sign.
pub(crate) fn signed(value: f64) -> String {
    let text = format!("{value:+.3}");
    // Nothing has no direction.
    if text == "-0.000" { "+0.000".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["name", "value", "text"]);
        let name = "an-id-that-someone-may-want-to-copy";
        table.row(vec![name.into(), "1.5".into(), "short".into()]);
        table.row(vec!["b".into(), "-10.25".into(), "long ".repeat(40)]);
        let text = table.text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains(&format!("{name}     1.5  short")), "{text}");
        assert!(text.contains('…'));
    }

    #[test]
    fn the_last_column_goes_on_where_it_should() {
        let mut table = Table::wrapping(&["", "what", "says"]);
        table.row(vec!["NO".into(), "store".into(), "word ".repeat(30)]);
        let text = table.text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 30, "{text}");
        assert_eq!(text.matches("store").count(), 1, "{text}");
        assert!(text.contains("\n           word"), "{text}");
    }

    #[test]
    fn nothing_is_never_less_than_nothing() {
        assert_eq!(
            [signed(-0.0), signed(-0.0004), signed(-0.001)],
            ["+0.000", "+0.000", "-0.001"]
        );
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(cut("a\u{1b}[31mb\n", 20), "a [31mb ");
        assert_eq!(cut("a\u{202e}b", 20), "a b");
        assert_eq!(cut("日本語テキスト", 4), "日本語…");
    }
}
