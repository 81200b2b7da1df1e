//! Mem0: facts are extracted, compared with what is known, and added, updated, deleted or left alone.
//!
//! A language model extracts facts and chooses the operation among the nearest memories. Where its choice is none, the fact is
//! added unless it is known. Without a model the subject of the lesson chooses: the same text is left alone; another text about the
//! same subject updates the memory, which keeps the last few sentences; a reflection that denies a fact deletes it; anything else
//! is added. Retrieval is by vectors.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use upliftmem_agent::prompts::Template;

use super::{
    MemorySystem, Query, Shelf, Sources, Steps,
    steps::{indented, json_in, numbered, text_in},
};
use crate::{
    protocol::Result,
    suite::{Lesson, LessonKind},
};

/// Sentences that an updated memory keeps: the last ones.
const KEPT: usize = 3;

/// Memories among which a model chooses.
const NEAREST: usize = 5;
const UPDATE: Template = Template(include_str!("../../prompts/mem0_update.txt"));

pub(super) struct Mem0(Shelf);

/// What becomes of the memories that a fact was compared with.
#[derive(Debug, PartialEq, Eq)]
enum Operation {
    Add,
    /// Which one, and what it says from now on.
    Update(usize, String),
    /// Which one.
    Delete(usize),
    Leave,
}

impl Operation {
    /// What a model decided about so many memories; none if that makes no sense.
    fn read(said: &str, count: usize) -> Option<Self> {
        #[derive(Deserialize)]
        struct Said {
            operation: String,
            memory: Option<usize>,
            text: Option<String>,
        }
        let said: Said = json_in(said)?;
        let place = || {
            said.memory
                .filter(|number| (1..=count).contains(number))
                .map(|number| number - 1)
        };
        match said.operation.trim().to_uppercase().as_str() {
            "ADD" => Some(Self::Add),
            "UPDATE" => Some(Self::Update(place()?, text_in(said.text.as_deref()?)?)),
            "DELETE" => Some(Self::Delete(place()?)),
            "NONE" => Some(Self::Leave),
            _ => None,
        }
    }
}

/// What is known of a subject.
#[derive(Default)]
struct Entry {
    sentences: Vec<String>,
    order: usize,
}

impl Mem0 {
    pub(super) async fn build(sources: Sources<'_>) -> Result<Self> {
        match sources.steps {
            Some(steps) => Self::by_model(sources, steps).await,
            None => Self::by_rule(sources),
        }
    }

    async fn by_model(sources: Sources<'_>, steps: &Steps) -> Result<Self> {
        let mut shelf = Shelf::new(sources.embedder);
        for experience in sources.experiences {
            let facts = match steps.facts("mem0", experience).await? {
                Some(facts) => facts,
                None => {
                    let lessons = sources.suite.lessons(experience);
                    lessons.into_iter().map(|lesson| lesson.text).collect()
                }
            };
            for fact in facts {
                if !shelf.texts().contains(&fact) {
                    take_by_model(&mut shelf, steps, fact).await?;
                }
            }
        }
        Ok(Self(shelf))
    }

    fn by_rule(sources: Sources<'_>) -> Result<Self> {
        let mut entries: BTreeMap<(LessonKind, String), Entry> = BTreeMap::new();
        let lessons = sources
            .experiences
            .iter()
            .flat_map(|seen| sources.suite.lessons(seen));
        for (order, lesson) in lessons.enumerate() {
            take(&mut entries, lesson, order);
        }
        let mut written: Vec<Entry> = entries
            .into_values()
            .filter(|entry| !entry.sentences.is_empty())
            .collect();
        written.sort_by_key(|entry| entry.order);
        let texts = written.into_iter().map(|entry| entry.sentences.join(" "));
        let mut known = BTreeSet::new();
        let texts = texts.filter(|text| known.insert(text.clone())).collect();
        Ok(Self(Shelf::of(sources.embedder, texts)?))
    }
}

/// Adds, updates, deletes or leaves alone, as a model decides.
async fn take_by_model(shelf: &mut Shelf, steps: &Steps, fact: String) -> Result<()> {
    let key = shelf.embed(&fact)?;
    let near = shelf.found(&key, NEAREST);
    let operation = if near.is_empty() {
        Operation::Add
    } else {
        let memories = numbered(near.iter().map(|&place| shelf.texts()[place].as_str()));
        let told = indented(&fact);
        let fields = [
            ("memories", Some(memories.as_str())),
            ("fact", Some(told.as_str())),
        ];
        let read = |said: &str| Operation::read(said, near.len());
        let chosen = steps.ask("mem0-update", UPDATE, &fields, read).await?;
        chosen.unwrap_or(Operation::Add)
    };
    match operation {
        Operation::Add => {
            shelf.push(fact, key);
        }
        Operation::Update(at, text) => {
            let key = shelf.embed(&text)?;
            shelf.replace(near[at], text, key);
        }
        Operation::Delete(at) => shelf.remove(near[at]),
        Operation::Leave => {}
    }
    Ok(())
}

/// Adds, updates, deletes or leaves alone, by the subject.
fn take(entries: &mut BTreeMap<(LessonKind, String), Entry>, lesson: Lesson, order: usize) {
    for entry in entries.values_mut().filter(|_| !lesson.denies.is_empty()) {
        entry
            .sentences
            .retain(|sentence| !lesson.denies.contains(sentence));
    }
    let entry = entries
        .entry((lesson.kind, lesson.subject))
        .or_insert_with(|| Entry {
            sentences: Vec::new(),
            order,
        });
    if !entry.sentences.contains(&lesson.text) {
        entry.sentences.push(lesson.text);
        let surplus = entry
            .sentences
            .len()
            .saturating_sub(if lesson.kind == LessonKind::Fact { KEPT } else { 1 });
        entry.sentences.drain(..surplus);
    }
}

impl MemorySystem for Mem0 {
    fn memories(&self) -> &[String] {
        self.0.texts()
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        self.0.found(query.embedding, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lesson(kind: LessonKind, text: &str) -> Lesson {
        Lesson {
            kind,
            subject: "where mug".into(),
            topic: "mug".into(),
            text: text.into(),
            denies: Vec::new(),
        }
    }

    #[test]
    fn a_models_choice_is_read_and_what_makes_no_sense_is_none() {
        let check = |said: &str, expected: Option<Operation>| {
            assert_eq!(Operation::read(said, 2), expected, "{said}");
        };
        check(r#"{"operation": "add"}"#, Some(Operation::Add));
        check(
            r#"Well: {"operation": "NONE", "memory": null}"#,
            Some(Operation::Leave),
        );
        check(
            r#"{"operation": "DELETE", "memory": 2}"#,
            Some(Operation::Delete(1)),
        );
        let update = r#"{"operation": "UPDATE", "memory": 1, "text": "Both."}"#;
        check(update, Some(Operation::Update(0, "Both.".into())));
        for none in [
            "",
            "ADD",
            r#"{"operation": "FORGET"}"#,
            r#"{"operation": "DELETE", "memory": 3}"#,
            r#"{"operation": "DELETE", "memory": 0}"#,
            r#"{"operation": "UPDATE", "memory": 1}"#,
            r#"{"operation": "UPDATE", "memory": 1, "text": " "}"#,
        ] {
            check(none, None);
        }
    }

    #[test]
    fn facts_are_added_updated_left_alone_and_deleted() {
        let mut entries = BTreeMap::new();
        let facts = [
            "Mugs are in the a.",
            "Mugs are in the a.",
            "Mugs are in the b.",
            "Mugs are in the c.",
            "Mugs are in the d.",
        ];
        for (order, text) in facts.into_iter().enumerate() {
            take(&mut entries, lesson(LessonKind::Fact, text), order);
        }
        let key = (LessonKind::Fact, "where mug".to_owned());
        assert_eq!(
            entries[&key].sentences,
            ["Mugs are in the b.", "Mugs are in the c.", "Mugs are in the d."]
        );
        let denied = Lesson {
            denies: vec!["Mugs are in the c.".into()],
            ..lesson(LessonKind::Reflection, "It failed. There was no mug in the c.")
        };
        take(&mut entries, denied, 9);
        assert_eq!(
            entries[&key].sentences,
            ["Mugs are in the b.", "Mugs are in the d."]
        );
    }
}
