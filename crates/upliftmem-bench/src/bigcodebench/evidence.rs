//! Implementation evidence: what of a stored record an agent gets to see. Paper: app. protocol, prompts E3 and W4.
//!
//! A record is a success procedure or a failure reflection. Recall, valuation, probes and generation see the implementation
//! of success procedures only: no reflections, no contracts of the task they came from, no literals of it.

/// What the record is, by its first line.
const SUCCESS: &str = "SUCCESS_PROCEDURE";

/// A success procedure, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImplementationEvidence {
    /// API calls and data flow, without literals of the source task.
    pub implementation: String,
    /// The code fragment that was verified, if the record has one.
    pub idiom: Option<String>,
}

impl ImplementationEvidence {
    /// The evidence of a stored record; none if it is a reflection, or has no implementation.
    #[must_use]
    pub fn of_record(record: &str) -> Option<Self> {
        let kind = record
            .lines()
            .find_map(|line| line.trim().strip_prefix("[MEMORY TYPE]"))?;
        if kind.trim() != SUCCESS {
            return None;
        }
        let implementation = field(record, "Implementation:")?;
        let idiom = field(record, "Verified idiom:").filter(|idiom| !is_empty_field(idiom));
        Some(Self {
            implementation: without_literals(&implementation),
            idiom: idiom.map(|idiom| without_literals(&idiom)),
        })
    }

    /// The text that is recalled, valued, injected and paid for by its tokens.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.idiom {
            Some(idiom) => format!("{}\n{idiom}", self.implementation),
            None => self.implementation.clone(),
        }
    }
}

/// One note for the prompt: its evidence, and the scope it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The family of its task.
    pub family: String,
    /// Libraries of its task.
    pub libraries: Vec<String>,
    /// What it shows.
    pub evidence: ImplementationEvidence,
}

/// The memory view of prompt E3; empty without notes.
#[must_use]
pub fn memory_view(notes: &[Note]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut view = String::from(
        "[Retrieved Memory Context]\n# Retrieved Successful Implementation Notes\nExtract applicable implementation evidence \
         for the current task. Do not copy the source task's signature, literals, return contract, or side effects.\n",
    );
    for (number, note) in (1..).zip(notes) {
        let (family, libraries, text) = (&note.family, note.libraries.join(", "), note.evidence.text());
        view += &format!(
            "\n## Note {number} [SUCCESS]\nScope: family={family}; libraries={libraries}\nReusable implementation \
             evidence:\n{text}\n"
        );
    }
    view
}

/// Names at the start of a line that end the field before them.
const FIELDS: [&str; 4] = ["Contract:", "Implementation:", "Boundary:", "Verified idiom:"];

/// The text of a field, up to the next field or section.
fn field(record: &str, name: &str) -> Option<String> {
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
fn is_section(line: &str) -> bool {
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

fn is_empty_field(text: &str) -> bool {
    matches!(
        text.trim().to_lowercase().trim_end_matches('.'),
        "none" | "n/a" | "-" | ""
    )
}

/// Texts in quotes, which are the source task's, become `...`; format characters and names of options of one or two letters
/// stay, as do apostrophes within words.
fn without_literals(text: &str) -> String {
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

    const RECORD: &str = "[MEMORY TYPE] SUCCESS_PROCEDURE\n[TASK]\nCount words in a file\n\n[EXECUTION TRAJECTORY]\n\
        Contract: takes a path, returns a dict\nImplementation: open(path, 'r'), re.findall(\"[a-z]+\", text),\n  \
        then Counter; don't sort\nBoundary: an empty file gives {}\nVerified idiom: Counter(words).most_common(3)\n";

    #[test]
    fn only_the_implementation_of_a_success_is_seen() {
        let evidence = ImplementationEvidence::of_record(RECORD).unwrap();
        assert_eq!(
            evidence.text(),
            "open(path, 'r'), re.findall(\"...\", text),\n  then Counter; don't sort\nCounter(words).most_common(3)"
        );
        let text = evidence.text();
        assert!(
            !text.contains("returns a dict") && !text.contains("empty file"),
            "{text}"
        );
        let reflection =
            "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\nx\n\n[REFLECTION]\nImplementation: forgot to close";
        assert_eq!(ImplementationEvidence::of_record(reflection), None);
        for nothing in [
            "",
            "free text",
            "[MEMORY TYPE] SUCCESS_PROCEDURE\nContract: x",
            "[MEMORY TYPE]",
        ] {
            assert_eq!(ImplementationEvidence::of_record(nothing), None, "{nothing}");
        }
    }

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
    fn the_view_is_that_of_the_prompt() {
        let note = Note {
            family: "text".to_owned(),
            libraries: vec!["re".to_owned(), "os".to_owned()],
            evidence: ImplementationEvidence::of_record(RECORD).unwrap(),
        };
        let view = memory_view(&[note]);
        assert!(view.starts_with(
            "[Retrieved Memory Context]\n# Retrieved Successful Implementation Notes\nExtract "
        ));
        assert!(view.contains("\n\n## Note 1 [SUCCESS]\nScope: family=text; libraries=re, os\nReusable implementation evidence:\nopen("));
        assert_eq!(memory_view(&[]), "");
    }
}
