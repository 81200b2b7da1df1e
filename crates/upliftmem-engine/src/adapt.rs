//! An adapter from the labels there are, without executing anything: for agents that only report how it went.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use upliftmem_core::InvalidInput;
use upliftmem_store::{EntryKind, JournalEntry, Scope, ScorerVersion, Store, Timestamp};

use crate::{
    error::Result,
    learning::{Learning, Lesson, adapter_place},
    scorers::ScorerPlan,
    serving::learning_texts,
    state::{Labelled, Learned},
    texts::Texts,
    train::{OnProgress, Progress},
};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Adapted {
    /// The run.
    pub run: String,
    /// The adapter's version in it.
    pub version: u64,
    /// Labels there were.
    pub labels: usize,
    /// Where the adapter is.
    pub location: String,
    /// What the update says of itself.
    pub report: Map<String, Value>,
}

/// Trains the next version of a run's adapter on all labels of a scope, and records it: whoever serves the scope takes it over.
pub async fn adapt(
    store: &Arc<dyn Store>,
    scope: &Scope,
    texts: &Texts,
    (plan, run): (&ScorerPlan, &str),
    labels: &[Labelled],
    progress: OnProgress<'_>,
) -> Result<Adapted> {
    if plan.lm().is_none() {
        return Err(InvalidInput::new(
            "scorer.kind",
            "only lm and cascade have an adapter to train; others learn from labels by themselves",
        )
        .into());
    }
    if !labels
        .iter()
        .any(|label| matches!(label, Labelled::Observation(_)))
    {
        return Err(InvalidInput::new(
            "labels",
            "there are none yet: report outcomes of tasks with memories and of the same tasks without",
        )
        .into());
    }
    let name = format!("{run}/{}", plan.name());
    let mut version = 0;
    while store
        .entry(
            scope,
            EntryKind::ScorerVersion,
            &format!("{name}@{}", version + 1),
        )
        .await?
        .is_some()
    {
        version += 1;
    }
    let mut learning = Learning::training(plan, &adapter_place(scope, run))?;
    let known = Arc::new(learning_texts(store, scope, texts, labels).await?);
    if version > 0 {
        let before = Learned {
            version,
            ..Learned::default()
        };
        learning.restore(&[], before, &known)?;
    }
    let lesson = Lesson {
        labels,
        paths: &[],
        texts: &known,
    };
    let (learned, report) = learning.update(&lesson, &|read| {
        progress(Progress::Learning {
            tokens: read.done,
            total: read.total,
        });
    })?;
    let location = learning.location();
    let record = ScorerVersion {
        name,
        version: learned.version,
        digest: learning.digest(labels),
        location: location.clone(),
        metrics: report.clone(),
    };
    let entry = JournalEntry::ScorerVersion(record);
    store.append(scope, Timestamp::now(), vec![entry]).await?;
    progress(Progress::Updated {
        version: learned.version,
        labels: labels.len(),
    });
    Ok(Adapted {
        run: run.to_owned(),
        version: learned.version,
        labels: labels.len(),
        location,
        report,
    })
}
