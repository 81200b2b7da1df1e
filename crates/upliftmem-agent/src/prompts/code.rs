//! Writing code. Paper: E3.

use super::{
    InjectedMemories, PublicTask,
    evidence::{field, is_empty_field, without_literals},
    fence::indented,
    template::Template,
};
use crate::chat::ChatMessage;

const E3_SYSTEM: Template = Template(include_str!("../../prompts/e3_system.txt"));
const E3_MEMORY: Template = Template(include_str!("../../prompts/e3_memory.txt"));
const E3_NOTE: Template = Template(include_str!("../../prompts/e3_note.txt"));

/// What of a stored record reaches the executor: implementation evidence, without the contract of the task it came from and
/// without that task's literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImplementationNote {
    /// Kind of task that it comes from.
    pub family: String,
    /// Libraries that it uses.
    pub libraries: String,
    /// Calls, data flow and idioms.
    pub implementation: String,
}

impl ImplementationNote {
    /// The views of memories.
    pub fn all(memories: &InjectedMemories) -> Vec<Self> {
        memories
            .texts()
            .iter()
            .filter_map(|text| Self::of(text))
            .collect()
    }

    /// The view of a memory. A record of a failure gives none, nor does one without an implementation; a text that is no
    /// record is evidence as it stands.
    fn of(text: &str) -> Option<Self> {
        if text.contains("FAILURE_REFLECTION") {
            return None;
        }
        let implementation = if text.contains("SUCCESS_PROCEDURE") {
            let idiom = field(text, "Verified idiom:").filter(|idiom| !is_empty_field(idiom));
            let parts = [field(text, "Implementation:"), idiom];
            let parts: Vec<String> = parts
                .iter()
                .flatten()
                .map(|part| without_literals(part))
                .collect();
            parts.join("\n")
        } else {
            // What the scope line says is not said again.
            let is_scope = |line: &&str| SCOPE.iter().any(|key| line.starts_with(key));
            let lines: Vec<&str> = text.lines().filter(|line| !is_scope(line)).collect();
            lines.join("\n")
        };
        let line = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key))
                .map(str::trim)
        };
        let family = line("Family:").or_else(|| {
            let mut lines = text.lines().skip_while(|line| line.trim() != "[TASK]").skip(1);
            lines.next().map(str::trim).filter(|line| !line.is_empty())
        });
        let libraries = line("Libraries:").map(str::to_owned).or_else(|| imported(text));
        (!implementation.trim().is_empty()).then(|| Self {
            family: family.unwrap_or(NOT_NAMED).to_owned(),
            libraries: libraries.unwrap_or_else(|| NOT_NAMED.to_owned()),
            implementation,
        })
    }
}

/// Lines that say where evidence comes from.
const SCOPE: [&str; 2] = ["Family:", "Libraries:"];

/// What a record does not say.
const NOT_NAMED: &str = "not named";

/// The modules that lines of a text import, each once, in their order.
fn imported(text: &str) -> Option<String> {
    let mut found: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("Verified idiom:").unwrap_or(line).trim_start();
        let names = match line.strip_prefix("from ") {
            Some(rest) => rest.split_once(" import ").map(|(module, _)| module),
            None => line.strip_prefix("import "),
        };
        for name in names.into_iter().flat_map(|names| names.split(',')) {
            let module = name.trim().split([' ', '.']).next().unwrap_or_default();
            let is_name = !module.is_empty() && module.chars().all(|c| c.is_alphanumeric() || c == '_');
            if is_name && !found.contains(&module) {
                found.push(module);
            }
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// The conversation whose next message is the solution.
pub fn code_messages(task: &PublicTask, notes: &[ImplementationNote]) -> Vec<ChatMessage> {
    let mut user = task.context().to_owned();
    if !notes.is_empty() {
        let notes: Vec<String> = (1..)
            .zip(notes)
            .map(|(number, note)| written(number, note))
            .collect();
        user.push_str("\n\n");
        user.push_str(&E3_MEMORY.fill(&[("notes", Some(notes.join("\n\n").as_str()))]));
    }
    vec![ChatMessage::system(E3_SYSTEM.fill(&[])), ChatMessage::user(user)]
}

fn written(number: usize, note: &ImplementationNote) -> String {
    E3_NOTE.fill(&[
        ("index", Some(number.to_string().as_str())),
        ("bcb_task_type", Some(note.family.as_str())),
        ("library_list", Some(note.libraries.as_str())),
        (
            "implementation_only",
            Some(indented(&note.implementation, true).as_str()),
        ),
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_implementation_of_a_success_is_seen() {
        let record = "[MEMORY TYPE] SUCCESS_PROCEDURE\n[TASK]\nCount words in a file\n\n[EXECUTION TRAJECTORY]\n\
            Contract: takes a path, returns a dict\nImplementation: open(path, 'r'), re.findall(\"[a-z]+\", text),\n  \
            then Counter; don't sort\nBoundary: an empty file gives {}\nVerified idiom: Counter(words).most_common(3)\n";
        let seen = ImplementationNote::of(record).unwrap();
        assert_eq!(
            seen.implementation,
            "open(path, 'r'), re.findall(\"...\", text),\n  then Counter; don't sort\nCounter(words).most_common(3)"
        );
        assert_eq!(seen.family, "Count words in a file");
        for nothing in [
            "",
            "[MEMORY TYPE] SUCCESS_PROCEDURE\nContract: x",
            "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\nx\n\n[REFLECTION]\nImplementation: forgot to close",
        ] {
            assert_eq!(ImplementationNote::of(nothing), None, "{nothing}");
        }
        assert_eq!(
            ImplementationNote::of("free text").unwrap().implementation,
            "free text"
        );
    }

    #[test]
    fn libraries_are_those_that_the_evidence_imports() {
        let text = "Verified idiom: import numpy as np, os.path\nfrom collections.abc import Set\nimport os\nfrom here on";
        assert_eq!(imported(text).as_deref(), Some("numpy, os, collections"));
        assert_eq!(imported("x = 1\nimport !"), None);
    }
}
