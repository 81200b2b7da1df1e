//! One immutable version of the compact scorer.

use std::sync::Arc;

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet};

use super::{
    features::pivoted,
    kernel::{Kernel, LabelKind},
    posterior::Posterior,
    query::Query,
    registry::Registry,
    row::{RelevanceScale, Row},
    space::Space,
    terms::Terms,
};
use crate::{
    Ask, Embedding, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer,
    error::{Result, invalid},
};

/// Headroom below which a task counts as done, in units of the spread of utility's level.
const LEAST_ROOM: f64 = 0.3;

/// The compact scorer: the posterior of a structured Gaussian model, in closed form.
///
/// Made by [`super::CompactLearner::publish`]. The value of a set is the posterior mean of its uplift, brought
/// within the task's headroom; the belief is the posterior covariance, of which as much counts as of an effect on the task.
#[derive(Debug, Clone)]
pub struct CompactScorer {
    pub(crate) version: ScorerVersion,
    pub(crate) kind: LabelKind,
    pub(crate) dimension: Option<usize>,
    pub(crate) registry: Registry,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) scale: RelevanceScale,
    pub(crate) posterior: Posterior,
    /// Overall level of utility that the labels were centred by.
    pub(crate) level: f64,
    /// The best utility there is to reach, if gains are to stay within it.
    pub(crate) ceiling: Option<f64>,
    /// When the latest label was observed.
    pub(crate) now: f64,
}

/// The compact scorer bound to one task.
pub(crate) struct BoundTask<'a> {
    scorer: &'a CompactScorer,
    pub(crate) registry: Arc<Registry>,
    /// Sorted; a memory's position is its slot.
    ids: Vec<MemoryId>,
    pub(crate) query: Query,
    pub(crate) terms: Terms,
}

impl SetScorer for CompactScorer {
    fn version(&self) -> ScorerVersion {
        self.version
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>> {
        Ok(Box::new(self.bound(task, memories)?))
    }
}

impl CompactScorer {
    /// Number of labels the posterior rests on, or of inducing rows if there were too many for all.
    pub fn rows(&self) -> usize {
        self.posterior.rows.len()
    }

    /// The predicted utility of a task without memory; `None` for paired labels, which do not say.
    pub fn no_memory_utility(&self, task: TaskInput<'_>) -> Result<Option<f64>> {
        let bound = self.bound(task, &[])?;
        Ok((self.kind == LabelKind::Smoothed).then_some(self.level + bound.terms.base))
    }

    pub(crate) fn bound<'a>(
        &'a self,
        task: TaskInput<'_>,
        memories: &[MemoryInput<'_>],
    ) -> Result<BoundTask<'a>> {
        let mut registry = self.visitors(task);
        let (ids, candidates) = self.admit(&mut registry, task, memories)?;
        let position = registry.visiting_task(task.id, task.embedding);
        Ok(self.bind_known(&Arc::new(registry), position, ids, candidates))
    }

    /// A registry that tasks and memories never seen can be added to.
    pub(crate) fn visitors(&self, first: TaskInput<'_>) -> Registry {
        match self.dimension {
            Some(_) => self.registry.clone(),
            // Nothing is known yet, not even how long embeddings are.
            None => Registry::new(Space::plain(first.embedding.dimension())),
        }
    }

    /// Checks a task and its memories and gives the memories their positions, in the order of their ids.
    pub(crate) fn admit(
        &self,
        registry: &mut Registry,
        task: TaskInput<'_>,
        memories: &[MemoryInput<'_>],
    ) -> Result<(Vec<MemoryId>, Vec<u32>)> {
        let dimension = self.dimension.unwrap_or(task.embedding.dimension());
        registry.check(dimension, &format_args!("task {}", task.id), task.embedding)?;
        let mut memories: Vec<&MemoryInput<'_>> = memories.iter().collect();
        memories.sort_unstable_by_key(|memory| memory.id);
        memories.dedup_by_key(|memory| memory.id);
        for memory in &memories {
            if registry.known_memory(memory.id).is_none() {
                registry.check(dimension, &format_args!("memory {}", memory.id), memory.embedding)?;
            }
        }
        let asked: Vec<(MemoryId, &Embedding)> = memories.iter().map(|m| (m.id, m.embedding)).collect();
        let candidates = registry.memories(&asked);
        Ok((memories.iter().map(|memory| memory.id).collect(), candidates))
    }

    /// Binds a task of a registry to candidates of the same registry.
    pub(crate) fn bind_known(
        &self,
        registry: &Arc<Registry>,
        task: u32,
        ids: Vec<MemoryId>,
        candidates: Vec<u32>,
    ) -> BoundTask<'_> {
        let query = Query::new(registry, &self.kernel, task, candidates, self.now);
        let labels = self.posterior.rows.iter().map(AsRef::as_ref);
        let mut terms = Terms::new(
            self.kind,
            &self.kernel,
            registry,
            self.scale,
            &query,
            self.registry.memories.len(),
            labels.zip(self.posterior.weights.iter().copied()),
        );
        terms.count -= self.kernel.member_cost;
        let mut bound = BoundTask {
            scorer: self,
            registry: Arc::clone(registry),
            ids,
            query,
            terms,
        };
        bound.terms.count -= self.kernel.meddling_cost * (1.0 - bound.reach());
        bound
    }
}

impl BoundTask<'_> {
    /// The slots of a set's members.
    pub(crate) fn slots(&self, set: &MemorySet) -> Result<Vec<u32>> {
        set.iter()
            .map(|id| {
                let slot = self.ids.binary_search(id).map_err(|_| {
                    invalid(
                        format_args!("set {set:?}"),
                        format_args!("memory {id} was not bound; bind every memory that is to be scored"),
                    )
                })?;
                Ok(u32::try_from(slot).unwrap_or(u32::MAX))
            })
            .collect()
    }

    /// What this task has left to gain, and what tasks usually have; `None` if gains are not held within it.
    fn room(&self) -> Option<(f64, f64)> {
        self.scorer.ceiling.map(|ceiling| {
            let usual = ceiling - self.scorer.level;
            ((usual - self.terms.base).max(1e-9), usual)
        })
    }

    /// The value of a set within the task's headroom.
    fn value(&self, set: &[u32]) -> f64 {
        match self.room() {
            None => self.terms.linear(set),
            Some((headroom, usual)) => self.terms.within(set, headroom, usual),
        }
    }

    /// How much of an effect counts here: where less is left to gain than usual, a memory that turns out better than
    /// expected gains less. What is uncertain about this task's values shrinks with it.
    pub(crate) fn reach(&self) -> f64 {
        // Where all tasks are done well alone, there is next to no usual headroom, and as little to find out.
        let least = LEAST_ROOM * self.scorer.kernel.level.sqrt();
        self.room()
            .map_or(1.0, |(headroom, usual)| headroom / usual.max(headroom).max(least))
    }

    pub(crate) fn row(&self, set: &[u32]) -> Row {
        let (kernel, scale) = (&self.scorer.kernel, self.scorer.scale);
        self.query.row(&self.registry, kernel, scale, set)
    }

    /// Posterior covariance of the uplifts of these sets.
    fn covariance(&self, rows: &[Row]) -> Mat<f64> {
        let kernel = &self.scorer.kernel;
        let cross = self.scorer.posterior.cross(kernel, &self.query, rows);
        let explained = self.scorer.posterior.explained_covariance(&cross);
        let mut covariance = Mat::zeros(rows.len(), rows.len());
        for (j, row) in rows.iter().enumerate() {
            for (i, other) in rows[..=j].iter().enumerate() {
                let cell = kernel.effect_covariance(&self.query, row, other) - explained[(i, j)];
                covariance[(i, j)] = cell;
                covariance[(j, i)] = cell;
            }
        }
        covariance
    }
}

impl TaskScorer for BoundTask<'_> {
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores> {
        let slots: Vec<Vec<u32>> = sets.iter().map(|set| self.slots(set)).collect::<Result<_>>()?;
        let values: Vec<f64> = slots.iter().map(|set| self.value(set)).collect();
        let mut scores = Scores {
            version: self.scorer.version,
            values,
            deviations: Vec::new(),
            draws: Vec::new(),
        };
        if !ask.deviations && ask.draws == 0 {
            return Ok(scores);
        }
        let rows: Vec<Row> = slots.iter().map(|set| self.row(set)).collect();
        let reach = self.reach();
        if ask.draws == 0 {
            let kernel = &self.scorer.kernel;
            let cross = self.scorer.posterior.cross(kernel, &self.query, &rows);
            let explained = self.scorer.posterior.explained(&cross);
            scores.deviations = rows
                .iter()
                .zip(explained)
                .map(|(row, explained)| kernel.effect_covariance(&self.query, row, row) - explained)
                .map(|variance| reach * variance.max(0.0).sqrt())
                .collect();
            return Ok(scores);
        }
        let covariance = self.covariance(&rows);
        if ask.deviations {
            scores.deviations = (0..rows.len())
                .map(|i| reach * covariance[(i, i)].max(0.0).sqrt())
                .collect();
        }
        let root = pivoted(&covariance);
        let mut rng = ChaCha8Rng::seed_from_u64(ask.seed);
        for _ in 0..ask.draws {
            let normals: Vec<f64> = (0..root.ncols()).map(|_| normal(&mut rng)).collect();
            let draw = (0..rows.len())
                .map(|i| {
                    let noise: f64 = normals.iter().enumerate().map(|(k, z)| root[(i, k)] * z).sum();
                    scores.values[i] + reach * noise
                })
                .collect();
            scores.draws.push(draw);
        }
        Ok(scores)
    }
}

/// A standard normal number by the Box-Muller transform.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.random::<f64>()).cos()
}
