//! The scorer that a scope's labels make, whoever gathered them.

use std::{collections::BTreeMap, sync::Arc};

use upliftmem_core::TaskId;
use upliftmem_scorer::CompactSettings;
use upliftmem_store::{JournalEntry, JournalFilter, Scope, Store};

use crate::{
    error::Result,
    learning::{Learning, LearningTexts, memories_of},
    scoring::BelievingScorer,
    state::{Labelled, Learned},
    texts::Texts,
};

/// Every label of a scope, in order.
pub async fn labels_of(store: &dyn Store, scope: &Scope) -> Result<Vec<Labelled>> {
    let mut labels = Vec::new();
    let mut after = 0;
    loop {
        let filter = JournalFilter {
            after,
            ..JournalFilter::default()
        };
        let page = store
            .list_entries(scope, filter, store.limits().page_rows_max)
            .await?;
        let Some(last) = page.last() else {
            return Ok(labels);
        };
        after = last.sequence;
        for journaled in page {
            match journaled.entry {
                JournalEntry::Reference(reference) => labels.push(Labelled::Reference(reference)),
                JournalEntry::Observation(seen) => labels.push(Labelled::Observation(seen)),
                _ => {}
            }
        }
    }
}

/// The scorer that all labels so far make; one that knows nothing abstains.
pub async fn active_scorer(
    store: &Arc<dyn Store>,
    scope: &Scope,
    texts: &Texts,
    settings: CompactSettings,
) -> Result<Arc<dyn BelievingScorer>> {
    let labels = labels_of(store.as_ref(), scope).await?;
    let mut learning = Learning::new(settings)?;
    if !labels.is_empty() {
        let known = learning_texts(store, scope, texts, &labels).await?;
        let learned = Learned {
            version: labels.len() as u64,
            labels: labels.len(),
            fitted: labels.len(),
        };
        learning.restore(&labels, learned, &known)?;
    }
    Ok(learning.publish())
}

/// The texts that labels speak of.
pub(crate) async fn learning_texts(
    store: &Arc<dyn Store>,
    scope: &Scope,
    texts: &Texts,
    labels: &[Labelled],
) -> Result<LearningTexts> {
    let mut ids: Vec<TaskId> = labels
        .iter()
        .map(|label| match label {
            Labelled::Reference(seen) => seen.task,
            Labelled::Observation(seen) => seen.task,
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let mut known = BTreeMap::new();
    let mut missing = Vec::new();
    for id in ids {
        match texts.known_task(id) {
            Some(task) => {
                known.insert(id, task);
            }
            None => missing.extend(store.task(scope, id).await?),
        }
    }
    for task in texts.tasks(&missing).await? {
        known.insert(task.task.id, task);
    }
    let memories = texts.memories(&memories_of(labels)).await?;
    Ok(LearningTexts {
        tasks: known,
        memories: memories.into_iter().map(|memory| (memory.id, memory)).collect(),
    })
}
