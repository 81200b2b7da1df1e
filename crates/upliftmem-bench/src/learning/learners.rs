//! What learns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use upliftmem_core::{MemoryId, MemorySet, Task, Uplift};
use upliftmem_scorer::{
    Ask, CompactLearner, CompactSettings, Ensemble, FitReport, Label, LabelKind, Result, ScorerVersion,
    SetScorer, Sharpening,
};

use super::{
    protocol::{Arena, Execution},
    search,
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
        helpful.truncate(search::MEMORIES_MAX);
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

/// The compact scorer with beam search.
#[derive(Default)]
pub struct CompactRetriever {
    settings: CompactSettings,
    /// Several fits that are averaged, one for each way of comparing texts; none for the likeliest alone.
    averaged: Vec<Sharpening>,
    scorer: Option<Arc<Ensemble>>,
    /// What the fits did.
    pub reports: Vec<FitReport>,
}

impl CompactRetriever {
    /// With other settings than the usual.
    pub fn new(settings: CompactSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// The mean of one fit for each way of comparing texts.
    pub fn averaged() -> Self {
        Self {
            averaged: vec![Sharpening::Wide, Sharpening::Middling, Sharpening::Narrow],
            ..Self::default()
        }
    }

    fn labelled(
        &self,
        settings: CompactSettings,
        arena: &Arena,
        labels: &[Execution],
    ) -> Result<CompactLearner> {
        let mut learner = CompactLearner::new(settings)?;
        for memory in arena.world.memories() {
            learner.add_memory(memory.id, arena.memory_embedding(memory.id))?;
        }
        let mut references = BTreeSet::new();
        for (time, label) in labels.iter().enumerate() {
            let time = time as f64;
            learner.add_task(label.task.id, arena.task_input(&label.task).embedding)?;
            match self.settings.labels {
                LabelKind::Smoothed => {
                    if references.insert(label.task.id) {
                        learner.hold(&Label {
                            task: label.task.id,
                            set: MemorySet::EMPTY,
                            value: label.reference,
                            reference: None,
                            time,
                        })?;
                    }
                    learner.hold(&Label {
                        task: label.task.id,
                        set: label.set.clone(),
                        value: label.utility,
                        reference: None,
                        time,
                    })?;
                }
                LabelKind::Paired => learner.hold(&Label {
                    task: label.task.id,
                    set: label.set.clone(),
                    value: label.utility - label.reference,
                    // One reference a task, so the task names it.
                    reference: Some(upliftmem_core::ReferenceId::from_u128(label.task.id.as_u128())),
                    time,
                })?,
            }
        }
        Ok(learner)
    }

    /// The current version.
    ///
    /// # Panics
    /// Before anything was learned.
    pub fn scorer(&self) -> &Ensemble {
        self.scorer.as_deref().expect("learned before it is asked")
    }
}

impl Learner for CompactRetriever {
    fn name(&self) -> String {
        match self.settings.labels {
            _ if !self.averaged.is_empty() => "compact, averaged".into(),
            LabelKind::Smoothed => "compact".into(),
            LabelKind::Paired => "compact, paired".into(),
        }
    }

    fn learn(&mut self, arena: &Arena, labels: &[Execution]) -> Result<()> {
        let ways: Vec<Option<Sharpening>> = if self.averaged.is_empty() {
            vec![self.settings.sharpening]
        } else {
            self.averaged.iter().copied().map(Some).collect()
        };
        self.reports.clear();
        let mut members: Vec<Arc<dyn SetScorer>> = Vec::new();
        for sharpening in ways {
            let settings = CompactSettings {
                sharpening,
                ..self.settings
            };
            let mut learner = self.labelled(settings, arena, labels)?;
            self.reports.push(learner.refit()?);
            members.push(learner.publish());
        }
        self.scorer = Some(Arc::new(Ensemble::new(ScorerVersion(1), members)?));
        Ok(())
    }

    fn choose(&self, arena: &Arena, task: &Task) -> Result<Choice> {
        let bound = self
            .scorer()
            .bind(arena.task_input(task), &arena.memory_inputs(task))?;
        let (set, value) = search::beam(bound.as_ref(), arena.candidates(task))?;
        Ok(Choice {
            set,
            predicted: Some(value),
        })
    }

    fn predict(&self, arena: &Arena, task: &Task, sets: &[MemorySet]) -> Result<Option<Vec<f64>>> {
        let bound = self
            .scorer()
            .bind(arena.task_input(task), &arena.memory_inputs(task))?;
        Ok(Some(bound.score(sets, Ask::VALUES)?.values))
    }
}
