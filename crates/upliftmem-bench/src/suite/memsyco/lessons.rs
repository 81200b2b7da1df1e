//! What a turn of a dialogue says: what the user tells of themselves, and what was found out for them.
//!
//! Sentences are selected, not written. What the assistant says to keep the conversation going is no memory.

use std::collections::BTreeMap;

use super::super::{Experience, Lesson, LessonKind};

/// Shorter words name no subject.
const WORD: usize = 5;
/// Words of talking about anything.
const COMMON: [&str; 24] = [
    "about",
    "after",
    "again",
    "always",
    "because",
    "before",
    "being",
    "could",
    "every",
    "first",
    "might",
    "other",
    "really",
    "should",
    "something",
    "their",
    "there",
    "these",
    "thing",
    "things",
    "think",
    "those",
    "where",
    "would",
];

/// The lessons of a turn.
pub(super) fn lessons(experience: &Experience) -> Vec<Lesson> {
    let text = experience.task.context.as_str();
    match text.split_once(": ") {
        Some(("User", said)) => of_user(said).into_iter().collect(),
        Some(("Assistant", said)) => found_out(said),
        _ => Vec::new(),
    }
}

/// The sentences in which the user speaks of themselves.
fn of_user(said: &str) -> Option<Lesson> {
    let own = |sentence: &&str| {
        let mut words = sentence.split(|letter: char| !letter.is_alphanumeric());
        words.any(|word| matches!(word, "I" | "my" | "My" | "me" | "mine"))
    };
    let kept: Vec<&str> = sentences(said).filter(own).collect();
    let text = kept.join(" ");
    (!kept.is_empty()).then(|| lesson(subject(&text), format!("The user said: {text}")))
}

/// What a search brought, one excerpt a lesson, under its heading.
fn found_out(said: &str) -> Vec<Lesson> {
    let Some((_, found)) = said.split_once("<information>") else {
        return Vec::new();
    };
    let found = found.split("</information>").next().unwrap_or(found);
    let mut lessons = Vec::new();
    for excerpt in found.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        let heading = excerpt
            .lines()
            .next()
            .unwrap_or_default()
            .trim_matches(['[', ']']);
        lessons.push(lesson(
            heading.to_owned(),
            format!("Found out: {}", excerpt.replace('\n', " ")),
        ));
    }
    lessons
}

fn lesson(subject: String, text: String) -> Lesson {
    Lesson {
        kind: LessonKind::Fact,
        topic: subject.clone(),
        subject,
        text,
        denies: Vec::new(),
    }
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['.', '!', '?', '\n'])
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
}

/// The word that a text says most often, of equals the first.
fn subject(text: &str) -> String {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    for (place, word) in words.map(str::to_lowercase).enumerate() {
        if word.chars().count() >= WORD && !COMMON.contains(&word.as_str()) {
            counts.entry(word).or_insert((0, place)).0 += 1;
        }
    }
    let most = counts
        .into_iter()
        .max_by_key(|(_, (count, place))| (*count, std::cmp::Reverse(*place)));
    most.map_or_else(String::new, |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use upliftmem_agent::Execution;
    use upliftmem_core::{Cost, Performance, Task};

    use super::*;

    fn of(turn: &str) -> Vec<(String, String)> {
        let experience = Experience {
            task: Task::new("t", turn),
            execution: Execution {
                performance: Performance::FAILURE,
                cost: Cost::new(0.0).unwrap(),
                trajectory: Vec::new(),
                diagnostics: Map::new(),
            },
        };
        let all = lessons(&experience).into_iter();
        all.map(|lesson| (lesson.subject, lesson.text)).collect()
    }

    #[test]
    fn what_the_user_says_of_themselves_is_kept_and_small_talk_is_not() {
        let said = of("User: It rained. I like mornings. Mornings are my best time! So it goes.");
        let kept = "The user said: I like mornings. Mornings are my best time!";
        assert_eq!(said, [("mornings".to_owned(), kept.to_owned())]);
        assert_eq!(of("User: It rained."), []);
        assert_eq!(of("Assistant: I see. I like that."), []);
        assert_eq!(of(""), []);
    }

    #[test]
    fn what_was_found_out_is_kept_by_heading() {
        let found = of(
            "Assistant: <search>\nx\n</search>\n\n<information>\n[Test, 2026]\nB is better.\n\n[Old]\nA is\nliked.\n</information>\nSo.",
        );
        let expected = [
            ("Test, 2026", "Found out: [Test, 2026] B is better."),
            ("Old", "Found out: [Old] A is liked."),
        ];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
