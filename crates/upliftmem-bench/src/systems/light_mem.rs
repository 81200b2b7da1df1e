//! LightMem: experience is compressed, grouped by topic, summarised, and consolidated while nothing else happens.
//!
//! Sensory: of a play only what says something is kept (its lessons). Short term: lessons gather by topic, and a topic that
//! is full becomes one entry. Long term, in a sleep: entries that are nearly the same are merged, the newer one's text last.
//! Retrieval is by vectors. The original compresses and summarises with language models; here sentences are selected, not
//! written.

use std::collections::BTreeMap;

use super::{MemorySystem, Query, Shelf, Sources};
use crate::protocol::Result;

/// Lessons of a topic that make an entry.
const TOPIC_FULL: usize = 3;
/// Nearness from which two entries are the same.
const SAME_FROM: f64 = 0.9;

pub(super) struct LightMem(Shelf);

impl LightMem {
    pub(super) fn build(sources: Sources<'_>) -> Result<Self> {
        let mut buffers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut entries: Vec<String> = Vec::new();
        let lessons = sources
            .experiences
            .iter()
            .flat_map(|seen| sources.suite.lessons(seen));
        for lesson in lessons {
            let buffer = buffers.entry(lesson.topic).or_default();
            if buffer.contains(&lesson.text) {
                continue;
            }
            buffer.push(lesson.text);
            if buffer.len() == TOPIC_FULL {
                entries.push(std::mem::take(buffer).join(" "));
            }
        }
        entries.extend(
            buffers
                .into_values()
                .filter(|rest| !rest.is_empty())
                .map(|rest| rest.join(" ")),
        );
        Ok(Self(sleep(&Shelf::of(sources.embedder, entries)?, sources)?))
    }
}

/// Merges entries that are nearly the same.
fn sleep(awake: &Shelf, sources: Sources<'_>) -> Result<Shelf> {
    let mut long_term = Shelf::new(sources.embedder);
    for (place, text) in awake.texts().iter().enumerate() {
        let key = awake.key(place).clone();
        match long_term.nearest(&key, 1, |_| true).first() {
            Some(&(same, similarity)) if similarity >= SAME_FROM => {
                let merged = merged(&long_term.texts()[same], text);
                let key = long_term.embed(&merged)?;
                long_term.replace(same, merged, key);
            }
            _ => {
                long_term.push(text.clone(), key);
            }
        }
    }
    Ok(long_term)
}

/// The sentences of both, each once.
fn merged(older: &str, newer: &str) -> String {
    let mut sentences: Vec<&str> = Vec::new();
    for sentence in older.split_inclusive(". ").chain(newer.split_inclusive(". ")) {
        let sentence = sentence.trim();
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences.join(" ")
}

impl MemorySystem for LightMem {
    fn memories(&self) -> &[String] {
        self.0.texts()
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        self.0.found(query.embedding, count)
    }
}

#[cfg(test)]
mod tests {
    use super::merged;

    #[test]
    fn a_merger_says_everything_once() {
        assert_eq!(merged("A is. B is.", "B is. C is."), "A is. B is. C is.");
    }
}
