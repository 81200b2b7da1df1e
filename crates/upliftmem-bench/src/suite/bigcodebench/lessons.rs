//! What a program that passed its tests says: how its libraries are used, and how the whole was done.
//!
//! As the paper has it, what is recalled, valued and shown is the evidence of successful implementations alone: no contract of
//! the task it comes from, none of that task's literals. A program that failed says nothing here.

use upliftmem_agent::prompts::without_literals;

use super::super::{Experience, Lesson, LessonKind};

/// Lines of a program that a memory holds. Paper: W4, verified idiom.
const LINES: usize = 16;
/// Lines that show how a library is used.
const USES: usize = 3;

/// A program as far as its text tells.
struct Program<'p> {
    /// Modules in the order in which they are imported, each with the names that stand for it.
    modules: Vec<(&'p str, Vec<&'p str>)>,
    /// Lines that do something: no imports, comments, texts that explain, or signatures.
    lines: Vec<&'p str>,
}

impl<'p> Program<'p> {
    fn of(code: &'p str) -> Self {
        let mut program = Self {
            modules: Vec::new(),
            lines: Vec::new(),
        };
        let mut quotes: Option<&str> = None;
        for line in code.lines() {
            let words = line.trim();
            if let Some(closing) = quotes {
                if words.contains(closing) {
                    quotes = None;
                }
                continue;
            }
            let opening = ["\"\"\"", "'''"].into_iter().find(|mark| words.starts_with(mark));
            if let Some(mark) = opening {
                if words.matches(mark).count() < 2 {
                    quotes = Some(mark);
                }
                continue;
            }
            if words.starts_with("import ") || words.starts_with("from ") {
                program.import(words);
            } else if !(words.is_empty() || words.starts_with('#') || words.starts_with("def task_func")) {
                program.lines.push(line);
            }
        }
        program
    }

    fn import(&mut self, line: &'p str) {
        let mut add = |module: &'p str, name: &'p str| {
            let module = module.split('.').next().unwrap_or(module);
            match self.modules.iter_mut().find(|(known, _)| *known == module) {
                Some((_, names)) => names.push(name),
                None => self.modules.push((module, vec![name])),
            }
        };
        let called = |part: &'p str| -> (&'p str, &'p str) {
            let part = part.trim().trim_matches(['(', ')']).trim();
            part.split_once(" as ")
                .map_or((part, part), |(own, other)| (own.trim(), other.trim()))
        };
        if let Some((module, names)) = line
            .strip_prefix("from ")
            .and_then(|rest| rest.split_once(" import "))
        {
            for name in names.split(',') {
                add(module.trim(), called(name).1);
            }
        } else if let Some(names) = line.strip_prefix("import ") {
            for (module, name) in names.split(',').map(called) {
                add(module, name.split('.').next().unwrap_or(name));
            }
        }
    }

    fn libraries(&self) -> String {
        let names: Vec<&str> = self.modules.iter().map(|(module, _)| *module).collect();
        names.join(", ")
    }
}

/// Whether a line uses a name: as a word of its own.
fn uses(line: &str, name: &str) -> bool {
    !name.is_empty()
        && line
            .split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .any(|word| word == name)
}

/// What a task is about: its first sentence, after the line that every task begins with.
fn family(experience: &Experience) -> String {
    let text = experience
        .task
        .context
        .split_once('\n')
        .map_or("", |(_, text)| text);
    let sentence = text.split(['\n']).next().unwrap_or_default();
    let end = sentence.find(". ").map_or(sentence.len(), |end| end + 1);
    without_literals(&sentence[..end])
}

fn code(experience: &Experience) -> &str {
    let step = experience.execution.trajectory.first();
    step.map_or("", |step| step.action.as_str())
}

/// The lessons of a program.
pub(super) fn lessons(experience: &Experience) -> Vec<Lesson> {
    if !experience.succeeded() {
        return Vec::new();
    }
    let program = Program::of(code(experience));
    let mut lessons: Vec<Lesson> = Vec::new();
    for (module, names) in &program.modules {
        let lines = program
            .lines
            .iter()
            .filter(|line| names.iter().any(|name| uses(line, name)));
        let shown: Vec<String> = lines
            .take(USES)
            .map(|line| without_literals(line.trim()))
            .collect();
        if !shown.is_empty() {
            lessons.push(Lesson {
                kind: LessonKind::Fact,
                subject: format!("how {module} is used"),
                topic: (*module).to_owned(),
                text: format!("With {module}: {}", shown.join("; ")),
                denies: Vec::new(),
            });
        }
    }
    let shown: Vec<String> = (program.lines.iter().take(LINES))
        .map(|line| without_literals(line))
        .collect();
    let libraries = program.libraries();
    lessons.push(Lesson {
        kind: LessonKind::Procedure,
        subject: libraries.clone(),
        topic: program
            .modules
            .first()
            .map_or("python", |(module, _)| *module)
            .to_owned(),
        text: format!(
            "Family: {}\nLibraries: {}\n{}",
            family(experience),
            if libraries.is_empty() { "none" } else { &libraries },
            shown.join("\n")
        ),
        denies: Vec::new(),
    });
    lessons
}

/// A program as it was written, as a record whose implementation is what is shown; none of one that failed.
pub(super) fn transcript(experience: &Experience) -> Option<String> {
    experience.succeeded().then(|| {
        format!(
            "[MEMORY TYPE] SUCCESS_PROCEDURE\n[TASK]\n{}\n\n[EXECUTION TRAJECTORY]\nImplementation:\n{}",
            family(experience),
            code(experience).trim_end()
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use upliftmem_agent::Execution;
    use upliftmem_core::{Cost, Performance, Task, TrajectoryStep};

    use super::*;

    fn lived(code: &str, performance: Performance) -> Experience {
        Experience {
            task: Task::new(
                "t",
                "Please provide:\nCounts words in 'sales.txt'. More.\nReturns: a dict.\n",
            ),
            execution: Execution {
                performance,
                cost: Cost::new(0.0).unwrap(),
                trajectory: vec![TrajectoryStep {
                    action: code.to_owned(),
                    observation: String::new(),
                }],
                diagnostics: Map::new(),
            },
        }
    }

    const CODE: &str = "import re, os.path as p\nfrom collections import Counter\n\ndef task_func(text):\n    \"\"\"Counts.\n    \
        re.never\"\"\"\n    # re too\n    words = re.findall('[a-z]{2,}', text)\n    return Counter(words)\n";

    #[test]
    fn libraries_and_the_whole_are_shown_without_literals() {
        let lessons = lessons(&lived(CODE, Performance::SUCCESS));
        let texts: Vec<&str> = lessons.iter().map(|lesson| lesson.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "With re: words = re.findall('...', text)",
                "With collections: return Counter(words)",
                "Family: Counts words in '...'.\nLibraries: re, os, collections\n    words = re.findall('...', text)\n    \
                 return Counter(words)",
            ]
        );
        assert_eq!(lessons[2].kind, LessonKind::Procedure);
    }

    #[test]
    fn a_failure_says_nothing() {
        let failed = lived(CODE, Performance::FAILURE);
        assert_eq!(lessons(&failed), []);
        assert_eq!(transcript(&failed), None);
        let passed = transcript(&lived(CODE, Performance::SUCCESS)).unwrap();
        assert!(passed.contains("Implementation:\nimport re"), "{passed}");
    }

    #[test]
    fn any_text_is_taken_for_a_program() {
        for text in [
            "",
            "I can not.",
            "'''",
            "import",
            "from x",
            "def task_func(): pass",
            "\u{e9}'",
        ] {
            lessons(&lived(text, Performance::SUCCESS));
        }
    }
}
