//! The same request sent twice is done once. Its answer is kept in the scope's journal, so this holds across restarts
//! and replicas.

use axum::http::HeaderMap;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use upliftmem_store::{EntryKind, Error as StoreError, JournalEntry, Scope, Store, Timestamp, TrainingEvent};

use crate::error::{ApiError, Code, Result};

/// Bytes of a key.
const KEY_BYTES_MAX: usize = 255;

/// The key of a request, from its header or its body.
pub(crate) fn key_of(headers: &HeaderMap, body: Option<&str>) -> Result<Option<String>> {
    let header = match headers.get("idempotency-key") {
        None => None,
        Some(value) => Some(value.to_str().map_err(|_| {
            ApiError::invalid("Idempotency-Key", "it has characters that are not plain text")
        })?),
    };
    let Some(key) = header.or(body) else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(ApiError::invalid(
            "idempotency key",
            format_args!("it must have 1 to {KEY_BYTES_MAX} bytes"),
        ));
    }
    Ok(Some(key.to_owned()))
}

/// A request that may come again.
pub(crate) struct Once<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) scope: &'a Scope,
    /// Which operation; the same key may be used for different ones.
    pub(crate) operation: &'static str,
    pub(crate) key: Option<String>,
}

impl Once<'_> {
    /// Does the work, unless the same request was done before: then its answer is given again.
    pub(crate) async fn run<A: Serialize + DeserializeOwned>(
        self,
        request: &Value,
        work: impl Future<Output = Result<A>>,
    ) -> Result<A> {
        let Some(key) = &self.key else {
            return work.await;
        };
        let name = format!("idempotency:{}", hash(&[self.operation, key]));
        let asked = hash(&[&request.to_string()]);
        if let Some(answer) = self.answered(&name, &asked).await? {
            return Ok(answer);
        }
        let answer = work.await?;
        let event = TrainingEvent {
            key: name.clone(),
            event: "idempotent".into(),
            detail: [
                ("request".to_owned(), json!(asked)),
                ("answer".to_owned(), json!(answer)),
            ]
            .into_iter()
            .collect(),
        };
        let entry = JournalEntry::TrainingEvent(event);
        match self.store.append(self.scope, Timestamp::now(), vec![entry]).await {
            Ok(_) => Ok(answer),
            // The same request at the same time: one answer is kept, and both get it.
            Err(StoreError::Conflict { .. }) => Ok(self.answered(&name, &asked).await?.unwrap_or(answer)),
            Err(error) => Err(error.into()),
        }
    }

    async fn answered<A: DeserializeOwned>(&self, name: &str, asked: &str) -> Result<Option<A>> {
        let found = self
            .store
            .entry(self.scope, EntryKind::TrainingEvent, name)
            .await?;
        let Some(JournalEntry::TrainingEvent(event)) = found.map(|found| found.entry) else {
            return Ok(None);
        };
        if event.detail.get("request").and_then(Value::as_str) != Some(asked) {
            return Err(ApiError::new(
                Code::IdempotencyConflict,
                "this idempotency key was used for another request; choose a new one",
            ));
        }
        let answer = event.detail.get("answer").cloned().unwrap_or_default();
        Ok(serde_json::from_value(answer).ok())
    }
}

fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
