//! Serving many scopes at once: each has a scorer in memory that is kept in step with its labels in the background.
//!
//! What is served is always a published version: requests read it without waiting for anybody, and a new one takes
//! its place at once. Scopes that were not used for long are dropped and come back from the store.

mod candidates;
mod distil;
mod labels;
mod probes;
mod scope;
mod versions;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Semaphore;
use upliftmem_core::UtilityRule;
use upliftmem_scorer::embedder::Embedder;
use upliftmem_store::{Scope, Store, Topic};

pub use candidates::Brought;
pub use distil::Distilling;
pub use probes::{Handed, Planned};
pub use scope::{LiveScope, Reported, Taken};
pub use versions::{ActiveVersion, PublishedVersion};

use crate::{
    error::Result,
    online::ReferencePolicy,
    scorers::ScorerPlan,
    settings::{ProbeSettings, RetrievalSettings},
};

/// How long one waits for word before waiting again.
const FOLLOW: Duration = Duration::from_secs(60);

/// How scopes are served.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    /// How sets are searched for.
    pub retrieval: RetrievalSettings,
    /// What an execution is worth.
    pub utility: UtilityRule,
    /// The cost at which nothing is saved, as [`Self::utility`] has it.
    pub utility_cost_max: f64,
    /// How probes are bought.
    pub acquisition: ProbeSettings,
    /// What predicts uplift, and how it learns.
    pub scorer: ScorerPlan,
    /// The name under which outcomes are compared.
    pub agent: String,
    /// Whose labels are learned from; without it, those of whoever has most.
    pub labels_of: Option<String>,
    /// When a task gets a reference.
    pub references: ReferencePolicy,
    /// Attempts of a requested execution.
    pub attempts_max: u32,
    /// Scopes that are kept in memory.
    pub scopes_max: usize,
    /// How often a scope that is in use looks for labels that others wrote.
    pub look_after: Duration,
}

/// Serves scopes.
pub struct Live {
    store: Arc<dyn Store>,
    embedder: Arc<dyn Embedder>,
    settings: Arc<LiveSettings>,
    /// Fits take a core for seconds: one at a time leaves the others to requests.
    fits: Arc<Semaphore>,
    scopes: Mutex<Kept>,
}

/// The scopes in memory, with the moment each was last used.
#[derive(Default)]
struct Kept {
    clock: u64,
    scopes: HashMap<Scope, (Arc<LiveScope>, u64)>,
}

impl Live {
    /// Serves the scopes of a store.
    pub fn new(store: Arc<dyn Store>, embedder: Arc<dyn Embedder>, settings: LiveSettings) -> Arc<Self> {
        Arc::new(Self {
            store,
            embedder,
            settings: Arc::new(settings),
            fits: Arc::new(Semaphore::new(1)),
            scopes: Mutex::default(),
        })
    }

    /// Where everything is kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// How scopes are served.
    pub fn settings(&self) -> &LiveSettings {
        &self.settings
    }

    /// A scope, ready to answer: the first time, its scorer is made from its labels.
    pub async fn scope(&self, scope: &Scope) -> Result<Arc<LiveScope>> {
        let live = self.kept(scope)?;
        live.ready().await?;
        Ok(live)
    }

    /// Scopes in memory.
    pub fn kept_scopes(&self) -> usize {
        let kept = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.scopes.len()
    }

    /// Follows what other processes announce: a scorer version or the choice of one is taken over at once by every scope in
    /// memory, instead of with the next look. Ends with the store.
    pub async fn follow(self: Arc<Self>) {
        let mut watch = self.store.watch();
        loop {
            if !watch.heard(Topic::Scorers, FOLLOW).await {
                continue;
            }
            for scope in self.all_kept() {
                scope.learn_soon();
            }
        }
    }

    /// Why scopes answer with an older version than was announced, one reason for each that does.
    pub fn behind(&self) -> Vec<String> {
        self.all_kept()
            .iter()
            .filter_map(|scope| scope.behind())
            .collect()
    }

    fn all_kept(&self) -> Vec<Arc<LiveScope>> {
        let kept = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.scopes.values().map(|(scope, _)| Arc::clone(scope)).collect()
    }

    fn kept(&self, scope: &Scope) -> Result<Arc<LiveScope>> {
        let mut kept = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let now = kept.clock;
        if let Some((live, used)) = kept.scopes.get_mut(scope) {
            *used = now;
            return Ok(Arc::clone(live));
        }
        while kept.scopes.len() >= self.settings.scopes_max.max(1) {
            let oldest = kept.scopes.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(scope, _)| scope.clone()) else {
                break;
            };
            kept.scopes.remove(&oldest);
        }
        let live = Arc::new(LiveScope::new(
            Arc::clone(&self.store),
            scope.clone(),
            Arc::clone(&self.embedder),
            Arc::clone(&self.settings),
            Arc::clone(&self.fits),
        )?);
        kept.scopes.insert(scope.clone(), (Arc::clone(&live), now));
        Ok(live)
    }
}
