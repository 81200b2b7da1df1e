//! Adapters beside one base: which one serves, and each of them read once.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use upliftmem_scorer::{
    ScorerVersion, TrainerSettings,
    lm::{Calibration, LmBase, LmScorer, load_adapter},
};
use upliftmem_store::{EntryKind, JournalEntry, JournalFilter, Scope, Store};

use crate::{error::Result, seeds::hexadecimal};

/// Hexadecimal digits that tell adapters apart.
const DIGEST_DIGITS: usize = 12;

/// How a language model scores and learns.
#[derive(Debug, Clone, PartialEq)]
pub struct LmPlanSettings {
    /// What the base is called, so that a run is not continued with another.
    pub base: String,
    /// The adapter that serves and that training starts from, in the layout of PEFT; without one, the newest that
    /// training has made of the scope.
    pub adapter: Option<PathBuf>,
    /// Where training writes adapters.
    pub directory: PathBuf,
    /// How an adapter is trained.
    pub trainer: TrainerSettings,
    /// Most paths that an update learns from, the newest; 0 learns from labels alone.
    pub paths_max: usize,
    /// Most coordinates of the belief.
    pub belief_dimension: usize,
    /// Most labels that the belief looks at, the newest.
    pub belief_labels: usize,
}

/// A frozen model and the adapters beside it.
pub struct LmPlan {
    pub(crate) base: Arc<LmBase>,
    pub(crate) settings: LmPlanSettings,
    /// Adapters in use, by their directory: scopes that use the same one share it and what it has cached.
    open: Mutex<BTreeMap<Option<PathBuf>, Weak<OpenAdapter>>>,
}

/// An adapter that answers.
pub(crate) struct OpenAdapter {
    pub(crate) scorer: Arc<LmScorer>,
    /// Hash of its files; of no adapter, `base`.
    pub(crate) digest: String,
}

impl LmPlan {
    /// A plan for a base that is loaded.
    pub fn new(base: Arc<LmBase>, settings: LmPlanSettings) -> Self {
        Self {
            base,
            settings,
            open: Mutex::default(),
        }
    }

    /// The model.
    pub const fn base(&self) -> &Arc<LmBase> {
        &self.base
    }

    /// What was chosen.
    pub const fn settings(&self) -> &LmPlanSettings {
        &self.settings
    }

    pub(crate) fn described(&self) -> Value {
        json!({
            "base": self.settings.base,
            "adapter": self.settings.adapter,
            "instruction": self.base.settings().instruction,
            "lora": self.base.settings().lora,
            "trainer": self.settings.trainer,
            "paths_max": self.settings.paths_max,
        })
    }

    /// The adapter of a directory, or the base without one. The base is never read again.
    pub(crate) fn open(&self, directory: Option<&Path>) -> Result<Arc<OpenAdapter>> {
        let key = directory.map(Path::to_path_buf);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, adapter| adapter.strong_count() > 0);
        if let Some(found) = open.get(&key).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let (adapter, calibration, digest) = match directory {
            Some(directory) => {
                let base = self.base.base();
                let (adapter, calibration) = load_adapter(directory, base.config(), base.device())?;
                (Some(Arc::new(adapter)), calibration, digest_of(directory))
            }
            // Nothing is known of the margin's scale: the one that training would begin with.
            None => {
                let scale = self.base.settings().first_scale;
                (None, Calibration { scale, offset: 0.0 }, "base".to_owned())
            }
        };
        let scorer = LmScorer::new(ScorerVersion(0), Arc::clone(&self.base), adapter, calibration);
        let opened = Arc::new(OpenAdapter {
            scorer: Arc::new(scorer),
            digest,
        });
        open.insert(key, Arc::downgrade(&opened));
        Ok(opened)
    }
}

/// Tells adapters apart by what is in their files; one that can not be read was refused before.
fn digest_of(directory: &Path) -> String {
    let mut hash = Sha256::new();
    for file in [
        "adapter_config.json",
        "adapter_model.safetensors",
        "calibration.json",
    ] {
        hash.update(std::fs::read(directory.join(file)).unwrap_or_default());
    }
    let mut digest = hexadecimal(&hash.finalize());
    digest.truncate(DIGEST_DIGITS);
    digest
}

/// The newest adapter that training has recorded of a scope, read as far as the journal is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdapterLog {
    after: u64,
    newest: Option<PathBuf>,
}

impl AdapterLog {
    /// The adapter that serves: the configured one, else the newest that was recorded; none if there is neither.
    pub(crate) async fn current(
        &mut self,
        plan: &LmPlan,
        store: &dyn Store,
        scope: &Scope,
    ) -> Result<Option<PathBuf>> {
        if plan.settings.adapter.is_some() {
            return Ok(plan.settings.adapter.clone());
        }
        let rows = store.limits().page_rows_max;
        loop {
            let filter = JournalFilter {
                kind: Some(EntryKind::ScorerVersion),
                task: None,
                after: self.after,
            };
            let page = store.list_entries(scope, filter, rows).await?;
            let Some(last) = page.last() else {
                return Ok(self.newest.clone());
            };
            self.after = last.sequence;
            for found in page {
                if let JournalEntry::ScorerVersion(record) = found.entry
                    && !record.location.is_empty()
                {
                    self.newest = Some(PathBuf::from(record.location));
                }
            }
        }
    }
}
