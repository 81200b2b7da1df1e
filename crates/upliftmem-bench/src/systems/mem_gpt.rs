//! MemGPT: a small core that is always in the context, and an archive that is searched.
//!
//! Experience enters a queue. When the queue is full, its older half is evicted into the archive, and a recursive summary
//! of what was evicted is kept; the summary's most frequent facts are the core. The original lets a language model write the
//! summary and call the search; here facts are counted, and every task searches once with its own text.

use std::collections::BTreeMap;

use super::{MemorySystem, Query, Shelf, Sources};
use crate::{
    protocol::Result,
    suite::{Experience, LessonKind, Suite},
};

/// Plays that the queue holds.
const QUEUE: usize = 20;
/// Facts of the core.
const CORE_FACTS: usize = 3;

pub(super) struct MemGpt {
    /// The archive, and the core at the end.
    shelf: Shelf,
    core: Option<usize>,
}

impl MemGpt {
    pub(super) fn build(sources: Sources<'_>) -> Result<Self> {
        let mut archive: Vec<String> = Vec::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut queue: Vec<&Experience> = Vec::new();
        for experience in sources.experiences {
            queue.push(experience);
            if queue.len() == QUEUE {
                evict(queue.drain(..QUEUE / 2), sources.suite, &mut archive, &mut counts);
            }
        }
        evict(queue.into_iter(), sources.suite, &mut archive, &mut counts);
        let mut facts: Vec<(String, usize)> = counts.into_iter().collect();
        facts.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(&right.0)));
        let core: Vec<String> = facts.into_iter().take(CORE_FACTS).map(|(fact, _)| fact).collect();
        let has_core = !core.is_empty();
        if has_core {
            archive.push(core.join(" "));
        }
        let shelf = Shelf::of(sources.embedder, archive)?;
        Ok(Self {
            core: has_core.then(|| shelf.texts().len() - 1),
            shelf,
        })
    }
}

/// Plays leave the queue: what they say goes to the archive, one page a play, and is counted for the summary.
fn evict<'e>(
    plays: impl Iterator<Item = &'e Experience>,
    suite: &dyn Suite,
    archive: &mut Vec<String>,
    counts: &mut BTreeMap<String, usize>,
) {
    for play in plays {
        let lessons = suite.lessons(play);
        for fact in lessons.iter().filter(|lesson| lesson.kind == LessonKind::Fact) {
            *counts.entry(fact.text.clone()).or_default() += 1;
        }
        let page: Vec<String> = lessons.into_iter().map(|lesson| lesson.text).collect();
        let page = page.join(" ");
        if !page.is_empty() && !archive.contains(&page) {
            archive.push(page);
        }
    }
}

impl MemorySystem for MemGpt {
    fn memories(&self) -> &[String] {
        self.shelf.texts()
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        let mut given: Vec<usize> = self.core.into_iter().take(count).collect();
        let rest = count - given.len();
        let found = self
            .shelf
            .nearest(query.embedding, rest, |place| Some(place) != self.core);
        given.extend(found.into_iter().map(|(place, _)| place));
        given
    }
}
