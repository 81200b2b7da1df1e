//! Versions of a scope's scorer. A version is the number of labels it rests on, so the labels are all that has to be
//! kept: any version can be made again, here or on another machine.

use serde::Serialize;
use serde_json::{Map, Value, json};
use upliftmem_core::InvalidInput;
use upliftmem_store::{
    EntryKind, Error as StoreError, JournalEntry, JournalFilter, Scope, ScorerVersion, Store, Timestamp,
    TrainingEvent,
};

use crate::error::Result;

/// The events that choose a version; a name without a slash is never one of a training run.
const CHOICE: &str = "serving:activate:";

/// The version that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ActiveVersion {
    /// Labels that it rests on.
    pub version: u64,
    /// Labels there are.
    pub labels: u64,
    /// Whether it was chosen by hand and stays until another choice.
    pub pinned: bool,
}

/// A version that was served once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedVersion {
    /// Its place in the journal; a listing goes on after it.
    pub sequence: u64,
    /// When it was first served.
    pub at: Timestamp,
    /// What is recorded of it.
    #[serde(flatten)]
    pub record: ScorerVersion,
}

/// Labels that the hyper-parameters of a version are chosen on: they are chosen anew whenever the labels have grown
/// by the factor, whatever the steps in which labels came.
pub(super) fn fitted_at(labels: usize, growth: f64) -> usize {
    let mut fitted = 0;
    loop {
        let grown = (growth * (fitted.max(1) as f64)).ceil();
        let next = (grown as usize).max(fitted + 1);
        if next > labels {
            return fitted;
        }
        fitted = next;
    }
}

/// Records that a version is served, under the name of its scorer; those of training runs carry the run's name before it. It
/// may be there already, from another process or from an earlier time: says whether it is the same one. It is not if a memory or the embedder behind it has changed since, or if the processes differ.
pub(super) async fn record(
    store: &dyn Store,
    scope: &Scope,
    (name, version): (&str, u64),
    digest: String,
    metrics: Map<String, Value>,
) -> Result<bool> {
    let key = format!("{name}@{version}");
    if let Some(found) = store.entry(scope, EntryKind::ScorerVersion, &key).await? {
        return Ok(same(&found.entry, &digest));
    }
    let entry = JournalEntry::ScorerVersion(ScorerVersion {
        name: name.into(),
        version,
        digest: digest.clone(),
        location: String::new(),
        metrics,
    });
    match store.append(scope, Timestamp::now(), vec![entry]).await {
        Ok(_) => Ok(true),
        // Someone else was first: that record stays.
        Err(StoreError::Conflict { .. }) => {
            let found = store.entry(scope, EntryKind::ScorerVersion, &key).await?;
            Ok(found.is_some_and(|found| same(&found.entry, &digest)))
        }
        Err(error) => Err(error.into()),
    }
}

fn same(entry: &JournalEntry, digest: &str) -> bool {
    matches!(entry, JournalEntry::ScorerVersion(record) if record.digest == digest)
}

/// A page of versions, in the order in which they were first served.
pub(super) async fn list(
    store: &dyn Store,
    scope: &Scope,
    after: u64,
    rows: usize,
) -> Result<Vec<PublishedVersion>> {
    let filter = JournalFilter {
        kind: Some(EntryKind::ScorerVersion),
        task: None,
        after,
    };
    let page = store.list_entries(scope, filter, rows).await?;
    Ok(page
        .into_iter()
        .filter_map(|found| match found.entry {
            JournalEntry::ScorerVersion(record) => Some(PublishedVersion {
                sequence: found.sequence,
                at: found.at,
                record,
            }),
            _ => None,
        })
        .collect())
}

/// Chooses the version that answers from now on; `None` is the newest, whichever that is.
pub(super) async fn choose(store: &dyn Store, scope: &Scope, name: &str, version: Option<u64>) -> Result<()> {
    if let Some(version) = version {
        let key = format!("{name}@{version}");
        if store
            .entry(scope, EntryKind::ScorerVersion, &key)
            .await?
            .is_none()
        {
            return Err(StoreError::NotFound {
                kind: "scorer version",
                id: key,
                scope: scope.to_string(),
            }
            .into());
        }
    }
    // Two that choose at the same time both get a number of their own.
    for _ in 0..16 {
        let number = choices(store, scope, (0, None)).await?.0 + 1;
        let event = TrainingEvent {
            key: format!("{CHOICE}{number}"),
            event: "activate".into(),
            detail: [
                ("version".to_owned(), json!(version)),
                ("at".to_owned(), json!(Timestamp::now())),
            ]
            .into_iter()
            .collect(),
        };
        let entry = JournalEntry::TrainingEvent(event);
        match store.append(scope, Timestamp::now(), vec![entry]).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(InvalidInput::new("scorer version", "others choose at the same time; try again").into())
}

/// How often a version was chosen, and the last choice, from what was known of it before.
pub(super) async fn choices(
    store: &dyn Store,
    scope: &Scope,
    (mut number, mut chosen): (u64, Option<u64>),
) -> Result<(u64, Option<u64>)> {
    loop {
        let key = format!("{CHOICE}{}", number + 1);
        let found = store.entry(scope, EntryKind::TrainingEvent, &key).await?;
        let Some(JournalEntry::TrainingEvent(event)) = found.map(|found| found.entry) else {
            return Ok((number, chosen));
        };
        number += 1;
        chosen = event.detail.get("version").and_then(Value::as_u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyper_parameters_are_chosen_at_the_same_places_however_labels_come() {
        let fitted: Vec<usize> = (0..=9).map(|labels| fitted_at(labels, 1.25)).collect();
        assert_eq!(fitted, [0, 0, 2, 3, 4, 5, 5, 7, 7, 9]);
        assert_eq!(fitted_at(1_000, 1.0), 1_000);
        assert_eq!(fitted_at(0, 5.0), 0);
    }
}
