//! The posterior mean for one task, reduced to a vector and a matrix over its candidates.
//!
//! A weighted sum of covariances with labels is, for a fixed task, a constant, one number a memory and one a
//! pair. Scoring a set of k members then takes k (k + 1) / 2 additions, however many labels there are.

use super::{
    kernel::{Kernel, LabelKind},
    query::{NOT_A_CANDIDATE, Query},
    registry::Registry,
    row::{RelevanceScale, Row},
};

/// The value function of one task.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// Utility without memory, relative to the overall level.
    pub(crate) base: f64,
    any: f64,
    pub(crate) count: f64,
    /// Effect of each candidate.
    single: Vec<f64>,
    /// Effect of each pair of candidates, beyond its members' own.
    pair: Vec<f64>,
}

impl Terms {
    /// The function (c, S) -> sum over labels of weight times covariance, for the query's task. The labels'
    /// members are among the first `known` memories.
    pub(crate) fn new<'r>(
        kind: LabelKind,
        kernel: &Kernel,
        registry: &Registry,
        scale: RelevanceScale,
        query: &Query,
        known: usize,
        labels: impl Iterator<Item = (&'r Row, f64)>,
    ) -> Self {
        let count = query.candidates.len();
        let fades: Vec<f64> = query.similarity.iter().map(|&s| kernel.fade(s)).collect();
        let mut effects = vec![0.0; known];
        let mut terms = Self {
            base: 0.0,
            any: 0.0,
            count: 0.0,
            single: Vec::with_capacity(count),
            pair: vec![0.0; count * count],
        };
        let (mut common, mut near) = (0.0, 0.0);
        for (row, weight) in labels {
            let task = row.task as usize;
            if kind == LabelKind::Smoothed {
                let base = kernel.base_covariance(query.similarity[task], row.task == query.task);
                terms.base += weight * base;
            }
            if row.members.is_empty() {
                continue;
            }
            let weight = weight * kernel.memory_of(row.time, query.time);
            terms.any += weight * kernel.any;
            terms.count += weight * kernel.count * row.size();
            common += weight * kernel.common * row.open[0] * fades[task];
            let mixed = weight * (kernel.share + (1.0 - kernel.share) * fades[task]);
            near += mixed * kernel.near * row.near[0];
            for (i, m) in row.members.iter().enumerate() {
                effects[m.memory as usize] += mixed * m.gate[0];
                let slot = query.slot(m.memory);
                if slot == NOT_A_CANDIDATE {
                    continue;
                }
                for n in &row.members[..i] {
                    let other = query.slot(n.memory);
                    if other != NOT_A_CANDIDATE {
                        let (a, b) = (slot as usize, other as usize);
                        let effect = kernel.pair * mixed * m.gate[0] * n.gate[0];
                        terms.pair[a * count + b] += effect;
                        terms.pair[b * count + a] += effect;
                    }
                }
            }
        }
        let (gates, nearness): (Vec<f64>, Vec<f64>) = query
            .candidates
            .iter()
            .map(|&memory| {
                let [relevance, similarity] = scale.relevance(registry, query.task, memory);
                (kernel.gate(relevance)[0], kernel.nearness(similarity)[0])
            })
            .unzip();
        for (slot, &memory) in query.candidates.iter().enumerate() {
            let shared = super::space::dot(&query.texts(slot)[..known], &effects);
            let identity = effects.get(memory as usize).copied().unwrap_or(0.0);
            let own = kernel.identity * identity + kernel.text * shared;
            terms
                .single
                .push(gates[slot] * (common + own) + nearness[slot] * near);
            for (other, gate) in gates.iter().enumerate() {
                terms.pair[slot * count + other] *= gates[slot] * gate;
            }
        }
        terms
    }

    /// The uplift of a set, given by the candidates' slots: the plain sum of its terms.
    pub(crate) fn linear(&self, set: &[u32]) -> f64 {
        if set.is_empty() {
            return 0.0;
        }
        self.constant(set) + self.singles(set).sum::<f64>() + self.pairs(set)
    }

    /// The uplift of a set when helpful memories compete for `headroom`.
    ///
    /// Each fills its share of what the others leave, as independent chances of success do, so the whole can not exceed what
    /// there is to gain. Effects are learned over all tasks, so they are those of a task with the `usual` headroom: where less is
    /// left, a memory does less. Pairs that take something back may already say that their members are worth the same: of
    /// what competition and pairs take, the larger counts, not both.
    pub(crate) fn within(&self, set: &[u32], headroom: f64, usual: f64) -> f64 {
        if set.is_empty() {
            return 0.0;
        }
        let (mut singles, mut filled, mut left) = (0.0, 0.0, headroom);
        for single in self.singles(set) {
            singles += single;
            if single > 0.0 {
                let share = left * (single / usual.max(headroom)).min(1.0);
                left -= share;
                filled += share;
            } else {
                filled += single;
            }
        }
        let pairs = self.pairs(set);
        let taken = pairs.min(0.0).min(filled - singles);
        (self.constant(set) + singles + pairs.max(0.0) + taken).min(headroom)
    }

    fn constant(&self, set: &[u32]) -> f64 {
        self.any + self.count * set.len() as f64
    }

    fn singles(&self, set: &[u32]) -> impl Iterator<Item = f64> {
        set.iter().map(|&slot| self.single[slot as usize])
    }

    fn pairs(&self, set: &[u32]) -> f64 {
        let count = self.single.len();
        let mut sum = 0.0;
        for (i, &m) in set.iter().enumerate() {
            let row = &self.pair[m as usize * count..][..count];
            for &n in &set[..i] {
                sum += row[n as usize];
            }
        }
        sum
    }
}
