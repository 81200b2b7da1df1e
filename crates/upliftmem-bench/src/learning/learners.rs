//! What learns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use upliftmem_core::{MemoryId, MemorySet, ReferenceId, Task, Uplift, objectives::ValueLabel};
use upliftmem_engine::Result;
use upliftmem_scorer::{
    Ask, Corpus, NetworkModel, NetworkSettings, SetScorer, Trainer, TrainerSettings, ValueExample,
};

use super::{
    arena::{Arena, MEMORIES_MAX},
    gather::Execution,
    retrieve,
};
use crate::baselines::{self, SharedCredit};

/// What a retriever returns, and what it expects of it.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The set.
    pub set: MemorySet,
    /// The uplift it predicts, if it predicts any.
    pub predicted: Option<f64>,
}

/// A retriever that learns from labels.
pub trait Learner: Send {
    /// Its name in tables.
    fn name(&self) -> String;
    /// Learns from all labels so far, anew.
    fn learn(&mut self, arena: &Arena, labels: &[Execution]) -> Result<()>;
    /// Chooses for a task.
    fn choose(&self, arena: &Arena, task: &Task) -> Result<Choice>;
    /// Predicts the uplift of sets, if it can.
    fn predict(&self, arena: &Arena, task: &Task, sets: &[MemorySet]) -> Result<Option<Vec<f64>>>;
}

/// The most similar memories, whatever happened before.
#[derive(Debug)]
pub(super) struct SimilarityTop(pub(super) usize);

impl Learner for SimilarityTop {
    fn name(&self) -> String {
        format!("similarity top-{}", self.0)
    }

    fn learn(&mut self, _: &Arena, _: &[Execution]) -> Result<()> {
        Ok(())
    }

    fn choose(&self, arena: &Arena, task: &Task) -> Result<Choice> {
        Ok(Choice {
            set: baselines::similarity_top(arena.candidates(task), self.0),
            predicted: None,
        })
    }

    fn predict(&self, _: &Arena, _: &Task, _: &[MemorySet]) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }
}

/// Per-memory averages with shared credit.
#[derive(Debug, Default)]
pub(super) struct Averages(SharedCredit);

impl Learner for Averages {
    fn name(&self) -> String {
        "per-memory averages".into()
    }

    fn learn(&mut self, _: &Arena, labels: &[Execution]) -> Result<()> {
        self.0 = SharedCredit::default();
        for label in labels {
            self.0
                .observe(&label.set, Uplift::new(label.utility - label.reference)?);
        }
        Ok(())
    }

    fn choose(&self, arena: &Arena, task: &Task) -> Result<Choice> {
        Ok(Choice {
            set: self.0.choose(arena.candidates(task)),
            predicted: None,
        })
    }

    fn predict(&self, _: &Arena, _: &Task, sets: &[MemorySet]) -> Result<Option<Vec<f64>>> {
        Ok(Some(
            sets.iter()
                .map(|set| set.iter().map(|&id| self.0.value(id)).sum())
                .collect(),
        ))
    }
}

/// Ridge regression of the uplift on the identities of the members: one number a memory, the same for all tasks.
#[derive(Debug, Default)]
pub struct LinearModel {
    effects: BTreeMap<MemoryId, f64>,
}

impl LinearModel {
    /// Ratio of the noise's variance to that of the effects.
    const RIDGE: f64 = 4.0;
    const SWEEPS: usize = 60;
}

impl Learner for LinearModel {
    fn name(&self) -> String {
        "linear model".into()
    }

    /// Gauss-Seidel: each effect in turn is set to the ridge optimum given the others.
    fn learn(&mut self, _: &Arena, labels: &[Execution]) -> Result<()> {
        let ids: BTreeSet<MemoryId> = labels
            .iter()
            .flat_map(|label| label.set.iter().copied())
            .collect();
        let mut holding: BTreeMap<MemoryId, Vec<usize>> = BTreeMap::new();
        for (at, label) in labels.iter().enumerate() {
            for &id in &label.set {
                holding.entry(id).or_default().push(at);
            }
        }
        let mut residuals: Vec<f64> = labels
            .iter()
            .map(|label| label.utility - label.reference)
            .collect();
        self.effects = ids.into_iter().map(|id| (id, 0.0)).collect();
        for _ in 0..Self::SWEEPS {
            for (id, effect) in &mut self.effects {
                let rows = &holding[id];
                let sum: f64 = rows.iter().map(|&at| residuals[at] + *effect).sum();
                let next = sum / (rows.len() as f64 + Self::RIDGE);
                for &at in rows {
                    residuals[at] += *effect - next;
                }
                *effect = next;
            }
        }
        Ok(())
    }

    fn choose(&self, arena: &Arena, task: &Task) -> Result<Choice> {
        let mut helpful: Vec<(f64, MemoryId)> = arena
            .candidates(task)
            .iter()
            .filter_map(|id| {
                self.effects
                    .get(id)
                    .filter(|effect| **effect > 0.0)
                    .map(|effect| (*effect, *id))
            })
            .collect();
        helpful.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        helpful.truncate(MEMORIES_MAX);
        Ok(Choice {
            predicted: Some(helpful.iter().map(|(effect, _)| effect).sum()),
            set: helpful.into_iter().map(|(_, id)| id).collect(),
        })
    }

    fn predict(&self, _: &Arena, _: &Task, sets: &[MemorySet]) -> Result<Option<Vec<f64>>> {
        let effect = |id: &MemoryId| self.effects.get(id).copied().unwrap_or(0.0);
        Ok(Some(
            sets.iter().map(|set| set.iter().map(effect).sum()).collect(),
        ))
    }
}

/// A scorer of some moment, with beam search.
pub struct ScorerRetriever {
    name: String,
    scorer: Arc<dyn SetScorer>,
}

impl ScorerRetriever {
    /// Retrieves by this scorer.
    pub fn new(name: &str, scorer: Arc<dyn SetScorer>) -> Self {
        Self {
            name: name.into(),
            scorer,
        }
    }
}

impl Learner for ScorerRetriever {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// It has learned while the labels were gathered.
    fn learn(&mut self, _: &Arena, _: &[Execution]) -> Result<()> {
        Ok(())
    }

    fn choose(&self, arena: &Arena, task: &Task) -> Result<Choice> {
        let bound = self
            .scorer
            .bind(arena.task_input(task), &arena.memory_inputs(task))?;
        let best = retrieve::beam(bound.as_ref(), arena.space(task))?;
        Ok(Choice {
            set: best.set,
            predicted: Some(best.value),
        })
    }

    fn predict(&self, arena: &Arena, task: &Task, sets: &[MemorySet]) -> Result<Option<Vec<f64>>> {
        let bound = self
            .scorer
            .bind(arena.task_input(task), &arena.memory_inputs(task))?;
        Ok(Some(bound.score(sets, Ask::VALUES)?.values))
    }
}

/// An ensemble of set networks on the paper's losses for values.
#[derive(Default)]
pub(super) struct Network {
    trained: Option<ScorerRetriever>,
}

impl Network {
    const NAME: &str = "network, the paper's losses";
    const MEMBERS: usize = 5;

    fn trained(&self) -> Result<&ScorerRetriever> {
        self.trained
            .as_ref()
            .ok_or_else(|| upliftmem_engine::Error::Internal("a network was asked before it learned".into()))
    }
}

impl Learner for Network {
    fn name(&self) -> String {
        Self::NAME.into()
    }

    fn learn(&mut self, arena: &Arena, labels: &[Execution]) -> Result<()> {
        let mut corpus = Corpus::default();
        for memory in arena.world.memories() {
            let embedding = arena.memory_embedding(memory.id).clone();
            corpus.add_memory(memory.id, memory.text.clone(), embedding);
        }
        let mut values = Vec::with_capacity(labels.len());
        for label in labels {
            let embedding = arena.task_input(&label.task).embedding.clone();
            corpus.add_task(label.task.id, label.task.context.clone(), embedding);
            values.push(ValueExample {
                set: label.set.clone(),
                label: ValueLabel {
                    task: label.task.id,
                    // Every task has one reference.
                    reference: ReferenceId::from_u128(label.task.id.as_u128()),
                    uplift: Uplift::new(label.utility - label.reference)?,
                },
            });
        }
        let models = NetworkModel::several(NetworkSettings::default(), Self::MEMBERS, 1)?;
        let mut trainer = Trainer::new(TrainerSettings::paper(), models)?;
        let update = trainer.warm_up(&corpus, &values, &|_| {})?;
        self.trained = Some(ScorerRetriever::new(Self::NAME, update.scorer));
        Ok(())
    }

    fn choose(&self, arena: &Arena, task: &Task) -> Result<Choice> {
        self.trained()?.choose(arena, task)
    }

    fn predict(&self, arena: &Arena, task: &Task, sets: &[MemorySet]) -> Result<Option<Vec<f64>>> {
        self.trained()?.predict(arena, task, sets)
    }
}
