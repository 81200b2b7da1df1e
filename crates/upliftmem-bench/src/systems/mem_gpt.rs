//! MemGPT: a small core that is always in the context, and an archive that is searched.
//!
//! Experience enters a queue. When the queue is full, its older half is evicted into the archive, and a recursive summary
//! of what was evicted is kept: the core. A language model writes it; without one, or where it never wrote any, the core is the facts
//! that were evicted most often. The original's model calls the search too; here every task searches once with its own text.

use std::collections::BTreeMap;

use upliftmem_agent::prompts::Template;

use super::{
    MemorySystem, Query, Shelf, Sources, Steps,
    steps::{indented, numbered, text_in},
};
use crate::{
    protocol::Result,
    suite::{Experience, LessonKind, Suite},
};

/// Plays that the queue holds.
const QUEUE: usize = 20;
/// Facts of the core.
const CORE_FACTS: usize = 3;
const CORE: Template = Template(include_str!("../../prompts/memgpt_core.txt"));

pub(super) struct MemGpt {
    /// The archive, and the core at the end.
    shelf: Shelf,
    core: Option<usize>,
}

impl MemGpt {
    pub(super) async fn build(sources: Sources<'_>) -> Result<Self> {
        let mut archive: Vec<String> = Vec::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut written: Option<String> = None;
        let mut queue: Vec<&Experience> = Vec::new();
        let last = sources.experiences.len();
        for (place, experience) in (1..).zip(sources.experiences) {
            queue.push(experience);
            let leaving = match queue.len() {
                _ if place == last => queue.len(),
                QUEUE => QUEUE / 2,
                _ => continue,
            };
            let pages = archive.len();
            evict(queue.drain(..leaving), sources.suite, &mut archive, &mut counts);
            if let Some(steps) = sources.steps
                && archive.len() > pages
            {
                let core = summary(steps, written.as_deref(), &archive[pages..]).await?;
                written = core.or(written);
            }
        }
        let mut facts: Vec<(String, usize)> = counts.into_iter().collect();
        facts.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(&right.0)));
        let facts: Vec<String> = facts.into_iter().take(CORE_FACTS).map(|(fact, _)| fact).collect();
        let core = written.or_else(|| (!facts.is_empty()).then(|| facts.join(" ")));
        let has_core = core.is_some();
        archive.extend(core);
        let shelf = Shelf::of(sources.embedder, archive)?;
        Ok(Self {
            core: has_core.then(|| shelf.texts().len() - 1),
            shelf,
        })
    }
}

/// The core, written anew from what it was and the pages that leave the view.
async fn summary(steps: &Steps, core: Option<&str>, pages: &[String]) -> Result<Option<String>> {
    let core = indented(core.unwrap_or("Nothing."));
    let pages = numbered(pages.iter().map(String::as_str));
    let fields = [("core", Some(core.as_str())), ("pages", Some(pages.as_str()))];
    steps.ask("memgpt-core", CORE, &fields, text_in).await
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
