//! Mem0: facts are extracted, compared with what is known, and added, updated, deleted or left alone.
//!
//! The original lets a language model choose the operation among the nearest memories. Here the subject of the lesson
//! chooses: the same text is left alone; another text about the same subject updates the memory, which keeps the last
//! few sentences; a reflection that denies a fact deletes it; anything else is added. Retrieval is by vectors.

use std::collections::{BTreeMap, BTreeSet};

use super::{MemorySystem, Query, Shelf, Sources};
use crate::{
    protocol::Result,
    suite::{Lesson, LessonKind},
};

/// Sentences that an updated memory keeps: the last ones.
const KEPT: usize = 3;

pub(super) struct Mem0(Shelf);

/// What is known of a subject.
#[derive(Default)]
struct Entry {
    sentences: Vec<String>,
    order: usize,
}

impl Mem0 {
    pub(super) fn build(sources: Sources<'_>) -> Result<Self> {
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

/// Adds, updates, deletes or leaves alone.
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
