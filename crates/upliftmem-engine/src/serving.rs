//! The scorer that a scope's labels make, whoever gathered them.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use upliftmem_core::{ReferenceId, TaskId};
use upliftmem_scorer::checkpoint::Manifest;
use upliftmem_store::{JournalEntry, Scope, Store};

use crate::{
    error::Result,
    journal::each_entry,
    learning::{Learning, LearningTexts, memories_of},
    scorers::{AdapterLog, ScorerPlan},
    scoring::BelievingScorer,
    state::{Labelled, Learned},
    texts::Texts,
};

/// Every label of a scope by the executor that it is of, each in order: outcomes of different executors are never
/// compared.
pub async fn labels_of(store: &dyn Store, scope: &Scope) -> Result<BTreeMap<String, Vec<Labelled>>> {
    let mut labels: BTreeMap<String, Vec<Labelled>> = BTreeMap::new();
    let mut executors: BTreeMap<ReferenceId, String> = BTreeMap::new();
    each_entry(store, scope, None, |entry| {
        match entry {
            JournalEntry::Reference(reference) => {
                executors.insert(reference.id, reference.executor.clone());
                let own = labels.entry(reference.executor.clone()).or_default();
                own.push(Labelled::Reference(reference));
            }
            JournalEntry::Observation(seen) => {
                if let Some(executor) = executors.get(&seen.reference) {
                    let own = labels.entry(executor.clone()).or_default();
                    own.push(Labelled::Observation(seen));
                }
            }
            _ => {}
        }
        Ok(())
    })
    .await?;
    Ok(labels)
}

/// The scorer that labels make; one that knows nothing abstains.
pub async fn active_scorer(
    store: &Arc<dyn Store>,
    scope: &Scope,
    texts: &Texts,
    plan: &ScorerPlan,
    labels: &[Labelled],
) -> Result<Arc<dyn BelievingScorer>> {
    learned(store, scope, texts, plan, labels).await?.publish()
}

/// Writes the compact scorer that labels make to a directory that must not exist yet: a file of its own that other programs
/// can be given, while the store stays what counts.
pub async fn save_scorer(
    store: &Arc<dyn Store>,
    scope: &Scope,
    texts: &Texts,
    plan: &ScorerPlan,
    labels: &[Labelled],
    directory: &Path,
) -> Result<Manifest> {
    let mut learning = learned(store, scope, texts, plan, labels).await?;
    learning.save(labels, texts.embedder().generation(), directory)
}

async fn learned(
    store: &Arc<dyn Store>,
    scope: &Scope,
    texts: &Texts,
    plan: &ScorerPlan,
    labels: &[Labelled],
) -> Result<Learning> {
    let adapter = match plan.lm() {
        Some(lm) => AdapterLog::default().current(lm, store.as_ref(), scope).await?,
        None => None,
    };
    let mut learning = Learning::serving(plan, adapter.as_ref())?;
    if !labels.is_empty() {
        let known = Arc::new(learning_texts(store, scope, texts, labels).await?);
        let learned = Learned {
            version: labels.len() as u64,
            labels: labels.len(),
            fitted: labels.len(),
        };
        learning.restore(labels, learned, &known)?;
    }
    Ok(learning)
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
