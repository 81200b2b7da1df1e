//! Work that goes on after its request was answered: new vectors for a scope's memories.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::JsonSchema;
use serde::Serialize;
use upliftmem_engine::LiveScope;
use upliftmem_store::{ReembedProgress, Scope};

/// Scopes whose last job is remembered.
const REMEMBERED_MAX: usize = 1_000;

/// How far a job is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct JobState {
    /// Whether it goes on.
    pub(crate) running: bool,
    /// Memories of the scope.
    pub(crate) total: u64,
    /// Those that have a vector of the embedder.
    pub(crate) done: u64,
    /// Why it stopped, if it did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The last job of each scope.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Mutex<HashMap<Scope, JobState>>>);

impl Jobs {
    pub(crate) fn state(&self, scope: &Scope) -> JobState {
        self.lock().get(scope).cloned().unwrap_or_default()
    }

    /// Gives every memory of the scope a vector, unless someone does already.
    pub(crate) fn give_vectors(&self, live: Arc<LiveScope>) -> JobState {
        let scope = live.scope().clone();
        {
            let mut jobs = self.lock();
            if jobs.get(&scope).is_some_and(|job| job.running) {
                return jobs[&scope].clone();
            }
            if jobs.len() >= REMEMBERED_MAX {
                jobs.retain(|_, job| job.running);
            }
            let state = JobState {
                running: true,
                ..JobState::default()
            };
            jobs.insert(scope.clone(), state);
        }
        let (jobs, name) = (self.clone(), scope.clone());
        tokio::spawn(async move {
            let (shown, showing) = (jobs.clone(), name.clone());
            let progress = move |progress: ReembedProgress| {
                if let Some(job) = shown.lock().get_mut(&showing) {
                    (job.total, job.done) = (progress.total, progress.done);
                }
            };
            let end = live.texts().give_vectors(progress).await;
            if let Err(error) = &end {
                tracing::warn!(scope = %name, %error, "memories got no vectors");
            }
            if let Some(job) = jobs.lock().get_mut(&name) {
                job.running = false;
                job.error = end
                    .err()
                    .map(|_| "the embedder or the store failed; start it again".into());
            }
        });
        self.state(&scope)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Scope, JobState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
