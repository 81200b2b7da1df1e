//! A scorer kept in step with the labels of a run or of a scope.
//!
//! What learns are two parts: the compact model, from all labels at once, and an adapter of a language model, step by step and
//! only while training. Which of them there are is the plan's choice.

mod adapter;
mod compact;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use upliftmem_core::{InvalidInput, MemoryId, MemorySet, RetrievalPath, TaskId};
use upliftmem_scorer::{Label, checkpoint::Manifest, embedder::Generation, lm::Cascade, lm::distilled};

use self::{adapter::AdapterLearning, compact::CompactLearning};
use crate::{
    error::{Error, Result},
    scorers::{CascadeScorer, Ground, OpenAdapter, Reader, ReadingScorer, ScorerPlan},
    scoring::BelievingScorer,
    seeds::hexadecimal,
    state::{Labelled, Learned},
    texts::{KnownMemory, KnownTask},
};

/// What learning needs to know of texts: the tasks of all labels, and the memories that are still there.
#[derive(Debug, Default)]
pub(crate) struct LearningTexts {
    /// By task.
    pub(crate) tasks: BTreeMap<TaskId, Arc<KnownTask>>,
    /// By memory.
    pub(crate) memories: BTreeMap<MemoryId, Arc<KnownMemory>>,
}

/// How far learning from texts is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokensRead {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// Is told how far learning is.
pub(crate) type Tell<'a> = &'a (dyn Fn(TokensRead) + Sync);

/// What an update learns from.
pub(crate) struct Lesson<'a> {
    pub(crate) labels: &'a [Labelled],
    /// Paths since the last update.
    pub(crate) paths: &'a [(TaskId, RetrievalPath)],
    pub(crate) texts: &'a Arc<LearningTexts>,
}

/// Learns from labels and publishes scorers.
pub(crate) struct Learning {
    plan: ScorerPlan,
    learned: Learned,
    compact: Option<CompactLearning>,
    /// Only in a training run.
    adapter: Option<AdapterLearning>,
    /// The language model as it answers now.
    open: Option<Arc<OpenAdapter>>,
    ground: Ground,
}

impl Learning {
    /// Knows nothing. Its adapter is the one that is given, and stays.
    pub(crate) fn serving(plan: &ScorerPlan, adapter: Option<&PathBuf>) -> Result<Self> {
        let compact = match plan {
            ScorerPlan::Compact(settings) | ScorerPlan::Cascade(settings, ..) => {
                Some(CompactLearning::new(*settings)?)
            }
            ScorerPlan::Lm(_) | ScorerPlan::Remote(_) => None,
        };
        let open = plan
            .lm()
            .map(|lm| lm.open(adapter.map(PathBuf::as_path)))
            .transpose()?;
        let (dimension, labels_max) = match plan {
            ScorerPlan::Lm(lm) => (lm.settings.belief_dimension, lm.settings.belief_labels),
            ScorerPlan::Remote(remote) => (remote.belief_dimension, remote.belief_labels),
            ScorerPlan::Compact(_) | ScorerPlan::Cascade(..) => (0, 0),
        };
        Ok(Self {
            plan: plan.clone(),
            learned: Learned::default(),
            compact,
            adapter: None,
            open,
            ground: Ground {
                dimension,
                labels_max,
                ..Ground::default()
            },
        })
    }

    /// Knows nothing. An adapter is trained too; versions of it are kept in `place` below the plan's directory.
    pub(crate) fn training(plan: &ScorerPlan, place: &str) -> Result<Self> {
        let mut learning = Self::serving(plan, plan.lm().and_then(|lm| lm.settings.adapter.as_ref()))?;
        if let Some(lm) = plan.lm() {
            learning.adapter = Some(AdapterLearning::new(Arc::clone(lm), place)?);
        }
        Ok(learning)
    }

    /// The scorer that `learned` says, from the labels it was made of.
    pub(crate) fn restore(
        &mut self,
        labels: &[Labelled],
        learned: Learned,
        texts: &Arc<LearningTexts>,
    ) -> Result<()> {
        if let Some(adapter) = &mut self.adapter {
            self.open = Some(adapter.restore(learned.version)?);
        }
        let taught = self.taught(&labels[..learned.fitted], texts)?;
        if let Some(compact) = &mut self.compact {
            compact.restore(labels, learned, texts, &taught)?;
        }
        self.learned = learned;
        self.stand_on(&labels[..learned.labels], texts);
        Ok(())
    }

    /// Learns from labels that are new; chooses hyper-parameters anew when it is worth it.
    pub(crate) fn update(
        &mut self,
        lesson: &Lesson<'_>,
        tell: Tell<'_>,
    ) -> Result<(Learned, Map<String, Value>)> {
        let labels = lesson.labels;
        let mut report = Map::new();
        if let Some(adapter) = &mut self.adapter {
            let (open, own) = adapter.update(lesson, self.learned.version + 1, tell)?;
            self.open = Some(open);
            report.insert("adapter".into(), own);
        }
        let grown = labels.len() as f64 >= self.plan.refit_growth() * self.learned.fitted.max(1) as f64;
        let fitted = if grown { labels.len() } else { self.learned.fitted };
        let taught = if grown {
            self.taught(labels, lesson.texts)?
        } else {
            Vec::new()
        };
        if let Some(compact) = &mut self.compact {
            if grown {
                let fit = compact.refit(labels, lesson.texts, &taught)?;
                report.insert("log_evidence".into(), json!(fit.log_evidence));
                report.insert("evaluations".into(), json!(fit.evaluations));
            } else {
                compact.take_new(&labels[self.learned.labels..], self.learned.labels, lesson.texts)?;
            }
        }
        self.learned = Learned {
            version: self.learned.version + 1,
            labels: labels.len(),
            fitted,
        };
        self.stand_on(labels, lesson.texts);
        Ok((self.learned, report))
    }

    fn stand_on(&mut self, labels: &[Labelled], texts: &Arc<LearningTexts>) {
        if self.ground.labels_max > 0 {
            self.ground.labels = Arc::new(labels.to_vec());
            self.ground.texts = Arc::clone(texts);
        }
    }

    /// What the language model says of single memories, the most relevant of every task first, as labels for the compact
    /// scorer.
    fn taught(&self, labels: &[Labelled], texts: &Arc<LearningTexts>) -> Result<Vec<Label>> {
        let (ScorerPlan::Cascade(_, _, cascade), Some(open)) = (&self.plan, &self.open) else {
            return Ok(Vec::new());
        };
        let mut alone: BTreeMap<TaskId, (f64, f64)> = BTreeMap::new();
        for label in labels {
            if let Labelled::Reference(seen) = label {
                let (sum, count) = alone.entry(seen.task).or_default();
                *sum += seen.utility.get();
                *count += 1.0;
            }
        }
        alone.retain(|task, _| texts.tasks.contains_key(task));
        if alone.is_empty() || cascade.distilled == 0 {
            return Ok(Vec::new());
        }
        let each = cascade.distilled.div_ceil(alone.len());
        let mut taught = Vec::new();
        for (id, (sum, count)) in alone {
            let task = &texts.tasks[&id];
            let mut ranked: Vec<&Arc<KnownMemory>> = texts.memories.values().collect();
            ranked.sort_by(|a, b| {
                task.similarity(b)
                    .total_cmp(&task.similarity(a))
                    .then(a.id.cmp(&b.id))
            });
            ranked.truncate(each.min(cascade.distilled - taught.len()));
            let memories: Vec<_> = ranked.iter().map(|memory| memory.input()).collect();
            let sets: Vec<MemorySet> = ranked
                .iter()
                .map(|memory| std::iter::once(memory.id).collect())
                .collect();
            let reader = Reader::Lm(Arc::clone(&open.scorer));
            let read = reader.read(task.input(), &memories, &sets, None)?;
            let values = sets
                .into_iter()
                .zip(read)
                .filter_map(|(set, reading)| Some((set, reading?.value)))
                .collect();
            // As old as the oldest label: what was executed counts more where time counts.
            taught.extend(distilled(id, sum / count, &values, 0.0));
        }
        Ok(taught)
    }

    /// A hash of all that decides the scorer's values: the labels it rests on, the hyper-parameters, the adapter.
    pub(crate) fn digest(&self, labels: &[Labelled]) -> String {
        let mut hash = Sha256::new();
        for label in labels {
            let (task, set, utility) = match label {
                Labelled::Reference(seen) => (seen.task, &MemorySet::EMPTY, seen.utility),
                Labelled::Observation(seen) => (seen.task, &seen.set, seen.utility),
            };
            hash.update(task.as_u128().to_le_bytes());
            hash.update((set.len() as u64).to_le_bytes());
            for id in set {
                hash.update(id.as_u128().to_le_bytes());
            }
            hash.update(utility.get().to_le_bytes());
        }
        if let Some(compact) = &self.compact {
            compact.hash_into(&mut hash);
        }
        if let Some(open) = &self.open {
            hash.update(&open.digest);
        }
        hexadecimal(&hash.finalize())
    }

    /// Writes the compact scorer as it stands, and what it was made of.
    pub(crate) fn save(
        &mut self,
        labels: &[Labelled],
        embedder: &Generation,
        directory: &Path,
    ) -> Result<Manifest> {
        let data = Some(self.digest(labels));
        let version = self.learned.version;
        let Some(compact) = &mut self.compact else {
            return Err(Error::Invalid(InvalidInput::new(
                "scorer.kind",
                "only the compact scorer is made of the store's labels; adapters are directories already",
            )));
        };
        compact.save(version, embedder, data, directory)
    }

    /// The name under which its versions are recorded.
    pub(crate) fn version_name(&self) -> String {
        self.plan.version_name(self.open.as_deref())
    }

    /// Where the adapter of the last update is; empty if none is trained.
    pub(crate) fn location(&self) -> String {
        let place = self.adapter.as_ref().and_then(AdapterLearning::location);
        place.map_or_else(String::new, |place| place.display().to_string())
    }

    /// The scorer as it stands.
    pub(crate) fn publish(&mut self) -> Result<Arc<dyn BelievingScorer>> {
        let version = self.learned.version;
        let quick = self.compact.as_mut().map(|compact| compact.publish(version));
        let lm = self.open.as_ref().map(|open| Arc::clone(&open.scorer));
        Ok(match (&self.plan, quick, lm) {
            (ScorerPlan::Remote(remote), ..) => {
                let reader = Reader::Remote(Arc::clone(&remote.scorer));
                Arc::new(ReadingScorer::new(reader, version, self.ground.clone()))
            }
            (ScorerPlan::Cascade(_, _, plan), Some(quick), Some(lm)) => {
                let cascade = Cascade::new(lm, plan.settings)?;
                Arc::new(CascadeScorer::new(quick, cascade))
            }
            (_, None, Some(lm)) => {
                let reader = Reader::Lm(lm);
                Arc::new(ReadingScorer::new(reader, version, self.ground.clone()))
            }
            (_, Some(quick), _) => quick,
            (_, None, None) => return Err(Error::Internal("a scorer lacks the part that answers".into())),
        })
    }

    /// The scorer as it stands, under the number of labels that it rests on: whoever serves it counts by those.
    pub(crate) fn publish_by_labels(&mut self) -> Result<Arc<dyn BelievingScorer>> {
        self.learned.version = self.learned.labels as u64;
        self.publish()
    }
}

/// Where the adapters of a run of a scope are kept, below the plan's directory.
pub(crate) fn adapter_place(scope: &upliftmem_store::Scope, run: &str) -> String {
    let hash = hexadecimal(&Sha256::digest(format!("{scope}\n{run}").as_bytes())[..6]);
    let name: String = run
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '-' {
                letter
            } else {
                '_'
            }
        })
        .take(40)
        .collect();
    format!("{name}-{hash}")
}

/// Every memory that labels speak of.
pub(crate) fn memories_of(labels: &[Labelled]) -> Vec<MemoryId> {
    let sets = labels.iter().filter_map(|label| match label {
        Labelled::Observation(seen) => Some(seen.set.iter().copied()),
        Labelled::Reference(_) => None,
    });
    let mut ids: Vec<MemoryId> = sets.flatten().collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
