//! LightMem: experience is compressed, grouped by topic, summarised, and consolidated while nothing else happens.
//!
//! Sensory: of a play only what says something is kept (its lessons). Short term: lessons gather by topic, and a topic that
//! is full becomes one entry. Long term, in a sleep: entries that are nearly the same are merged, the newer one's text last.
//! Retrieval is by vectors. A language model writes entries and mergers; without one, or where its answer is none, sentences are
//! selected, not written.

use std::collections::BTreeMap;

use upliftmem_agent::prompts::Template;

use super::{
    MemorySystem, Query, Shelf, Sources, Steps,
    steps::{indented, numbered, text_in},
};
use crate::protocol::Result;

const ENTRY: Template = Template(include_str!("../../prompts/lightmem_entry.txt"));
const MERGER: Template = Template(include_str!("../../prompts/lightmem_merge.txt"));

/// Lessons of a topic that make an entry.
const TOPIC_FULL: usize = 3;
/// Nearness from which two entries are the same.
const SAME_FROM: f64 = 0.9;

pub(super) struct LightMem(Shelf);

impl LightMem {
    pub(super) async fn build(sources: Sources<'_>) -> Result<Self> {
        let mut buffers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut entries: Vec<String> = Vec::new();
        let lessons = sources
            .experiences
            .iter()
            .flat_map(|seen| sources.suite.lessons(seen));
        for lesson in lessons {
            let topic = lesson.topic.clone();
            let buffer = buffers.entry(lesson.topic).or_default();
            if buffer.contains(&lesson.text) {
                continue;
            }
            buffer.push(lesson.text);
            if buffer.len() == TOPIC_FULL {
                let full = std::mem::take(buffer);
                entries.push(entry(sources.steps, &topic, &full).await?);
            }
        }
        for (topic, rest) in buffers.iter().filter(|(_, rest)| !rest.is_empty()) {
            entries.push(entry(sources.steps, topic, rest).await?);
        }
        let awake = Shelf::of(sources.embedder, entries)?;
        Ok(Self(sleep(&awake, sources).await?))
    }
}

/// What was noticed about a topic as one entry.
async fn entry(steps: Option<&Steps>, topic: &str, noticed: &[String]) -> Result<String> {
    let written = match steps {
        // One sentence is an entry.
        Some(steps) if noticed.len() > 1 => {
            let topic = indented(topic);
            let memories = numbered(noticed.iter().map(String::as_str));
            let fields = [
                ("topic", Some(topic.trim())),
                ("memories", Some(memories.as_str())),
            ];
            steps.ask("lightmem-entry", ENTRY, &fields, text_in).await?
        }
        _ => None,
    };
    Ok(written.unwrap_or_else(|| noticed.join(" ")))
}

/// Two entries as one.
async fn merger(steps: Option<&Steps>, older: &str, newer: &str) -> Result<String> {
    let written = match steps {
        Some(steps) if older != newer => {
            let (older, newer) = (indented(older), indented(newer));
            let fields = [("older", Some(older.as_str())), ("newer", Some(newer.as_str()))];
            steps.ask("lightmem-merge", MERGER, &fields, text_in).await?
        }
        _ => None,
    };
    Ok(written.unwrap_or_else(|| merged(older, newer)))
}

/// Merges entries that are nearly the same.
async fn sleep(awake: &Shelf, sources: Sources<'_>) -> Result<Shelf> {
    let mut long_term = Shelf::new(sources.embedder);
    for (place, text) in awake.texts().iter().enumerate() {
        let key = awake.key(place).clone();
        match long_term.nearest(&key, 1, |_| true).first() {
            Some(&(same, similarity)) if similarity >= SAME_FROM => {
                let merged = merger(sources.steps, &long_term.texts()[same], text).await?;
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
