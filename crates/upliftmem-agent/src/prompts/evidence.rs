//! What of a stored record of code an agent gets to see. Paper: app. protocol, prompts E3 and W4.

/// Names at the start of a line that end the field before them.
const FIELDS: [&str; 4] = ["Contract:", "Implementation:", "Boundary:", "Verified idiom:"];

/// The text of a field, up to the next field or section.
pub(super) fn field(record: &str, name: &str) -> Option<String> {
    let mut lines = record
        .lines()
        .skip_while(|line| !line.trim_start().starts_with(name));
    let first = lines.next()?.trim_start().strip_prefix(name)?.trim();
    let ends = |line: &&str| {
        let line = line.trim_start();
        !(FIELDS.iter().any(|field| line.starts_with(field)) || is_section(line))
    };
    let rest: Vec<&str> = std::iter::once(first).chain(lines.take_while(ends)).collect();
    let text = rest.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// `[TASK]`, `[EXECUTION TRAJECTORY]`: capitals in brackets alone on a line.
pub(crate) fn is_section(line: &str) -> bool {
    let inside = line
        .trim()
        .strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'));
    inside.is_some_and(|inside| {
        !inside.is_empty()
            && inside
                .chars()
                .all(|letter| letter.is_ascii_uppercase() || letter == ' ')
    })
}

pub(super) fn is_empty_field(text: &str) -> bool {
    matches!(
        text.trim().to_lowercase().trim_end_matches('.'),
        "none" | "n/a" | "-" | ""
    )
}

/// Texts in quotes, which are the source task's, become `...`; format characters and names of options of one or two letters
/// stay, as do apostrophes within words.
pub fn without_literals(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '"']) {
        let (before, from) = rest.split_at(at);
        kept += before;
        let quote = &from[..1];
        let is_within_word = before.chars().next_back().is_some_and(char::is_alphanumeric) && quote == "'";
        let line = from[1..].split('\n').next().unwrap_or_default();
        match line.find(quote) {
            Some(end) if !is_within_word => {
                let literal = &line[..end];
                kept += quote;
                kept += if literal.chars().count() <= 2 {
                    literal
                } else {
                    "..."
                };
                kept += quote;
                rest = &from[1 + end + 1..];
            }
            _ => {
                kept += quote;
                rest = &from[1..];
            }
        }
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_left_out() {
        let check = |text: &str, expected: &str| assert_eq!(without_literals(text), expected, "{text}");
        check("f('sales_2021.csv', sep=',')", "f('...', sep=',')");
        check("it's Bob's", "it's Bob's");
        check("unclosed 'quote\nnext 'line'", "unclosed 'quote\nnext '...'");
        check("\"it's ünïcode\"", "\"...\"");
        check("''", "''");
        check("", "");
    }

    #[test]
    fn a_field_ends_where_the_next_begins() {
        let record = "Contract: x\nImplementation: open,\n  then read\nBoundary: none.\n[TASK]\ny";
        assert_eq!(
            field(record, "Implementation:").as_deref(),
            Some("open,\n  then read")
        );
        assert_eq!(field(record, "Boundary:").as_deref(), Some("none."));
        assert!(is_empty_field("none."));
        assert_eq!(field(record, "Verified idiom:"), None);
    }
}
