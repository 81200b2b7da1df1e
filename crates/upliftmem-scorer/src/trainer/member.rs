//! Training one member: batches, epochs, early stopping.

use std::collections::BTreeMap;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use upliftmem_core::{PathPolicy, TaskId, objectives::Objectives};

use super::{Corpus, TrainableModel, TrainerSettings, TrainingData, data::questions};
use crate::{
    error::{Result, ScorerError},
    losses::{LossBatch, LossParts, PathExample, ValueExample},
};

/// How far training is, told after every epoch of every member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Which member, from 0.
    pub member: usize,
    /// Of how many.
    pub members: usize,
    /// Epochs done.
    pub epoch: usize,
    /// Epochs at most.
    pub epochs: usize,
    /// Mean losses over the batches of this epoch.
    pub training: LossParts,
    /// The value objective on held-out labels, if there are enough of them.
    pub held_out: Option<f64>,
}

/// What became of one member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Labels it learned from.
    pub labels: usize,
    /// Labels that were kept from it.
    pub held_out_labels: usize,
    /// Epochs it was trained for.
    pub epochs: usize,
    /// The epoch whose parameters were taken; 0 are those it began with.
    pub best_epoch: usize,
    /// Mean losses over the batches of the last epoch.
    pub training: LossParts,
    /// The value objective on held-out labels, before training and after every epoch; empty if too few.
    pub held_out: Vec<f64>,
    /// Mean length of the gradient in the last epoch.
    pub gradient_norm: f64,
}

/// Where a member stands after an epoch: enough to go on as if it had never stopped.
#[derive(Debug, Clone)]
pub struct Midway<K> {
    /// What became of it so far.
    pub(crate) report: MemberReport,
    /// How far its randomness is.
    pub(crate) words: u128,
    /// Parameters and optimiser now.
    pub(crate) now: K,
    /// Those of the best epoch, if one is known to be best.
    pub(crate) best: Option<K>,
}

impl<K> Midway<K> {
    /// Epochs that are done.
    pub fn epochs(&self) -> usize {
        self.report.epochs
    }
}

/// Keeps where an update stands after every epoch.
pub trait Keeper<K>: Sync {
    /// Where a member of the same update stood when it was stopped.
    fn load(&self, member: usize) -> Result<Option<Midway<K>>>;

    /// Keeps where a member stands.
    fn save(&self, member: usize, midway: &Midway<&K>) -> Result<()>;
}

/// What all members share.
pub(super) struct Plan<'a> {
    pub(super) settings: &'a TrainerSettings,
    pub(super) objectives: Objectives,
    pub(super) policy: PathPolicy,
    pub(super) corpus: &'a Corpus,
    pub(super) members: usize,
    pub(super) anew: bool,
    pub(super) seed: u64,
    pub(super) progress: &'a (dyn Fn(Progress) + Sync),
}

/// The labels and paths of one member.
pub(super) struct Share<'a> {
    pub(super) member: usize,
    pub(super) values: Vec<&'a ValueExample>,
    pub(super) paths: Vec<&'a PathExample>,
    pub(super) held_out: Vec<&'a ValueExample>,
}

impl Plan<'_> {
    /// Trains one member on its share, from where it was stopped if it was.
    pub(super) fn train<M: TrainableModel>(
        &self,
        model: &mut M,
        share: &Share<'_>,
        keeper: Option<&dyn Keeper<M::Kept>>,
    ) -> Result<MemberReport> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(share.member as u64);
        let midway = match keeper {
            Some(keeper) => keeper.load(share.member)?,
            None => None,
        };
        if midway.is_none() {
            model.begin(
                &TrainingData {
                    corpus: self.corpus,
                    values: &share.values,
                    paths: &share.paths,
                },
                self.anew,
            )?;
        }
        let mut report = MemberReport {
            labels: share.values.len(),
            held_out_labels: share.held_out.len(),
            epochs: 0,
            best_epoch: 0,
            training: LossParts::default(),
            held_out: Vec::new(),
            gradient_norm: 0.0,
        };
        if share.values.is_empty() && share.paths.is_empty() {
            return Ok(report);
        }
        let check = self.held_out_check(share)?;
        let mut best = None;
        if let Some(midway) = midway {
            rng.set_word_pos(midway.words);
            model.restore(midway.now);
            (report, best) = (midway.report, midway.best);
        } else if let Some(check) = &check {
            report.held_out.push(self.value_loss(model, check)?);
            best = Some(model.keep());
        }
        let items = items(self.settings, share);
        for epoch in report.epochs + 1..=self.settings.epochs {
            if epoch - 1 - report.best_epoch >= self.settings.patience {
                break;
            }
            let batches = batches(self.settings, &items, &mut rng);
            self.epoch(model, share, &batches, epoch, &mut rng, &mut report)?;
            report.epochs = epoch;
            if let Some(check) = &check {
                let loss = self.value_loss(model, check)?;
                let improved = loss < report.held_out[report.best_epoch];
                report.held_out.push(loss);
                if improved {
                    report.best_epoch = epoch;
                    best = Some(model.keep());
                }
            } else {
                report.best_epoch = epoch;
            }
            (self.progress)(Progress {
                member: share.member,
                members: self.members,
                epoch,
                epochs: self.settings.epochs,
                training: report.training,
                held_out: report.held_out.last().copied(),
            });
            if let Some(keeper) = keeper {
                let midway = Midway {
                    report: report.clone(),
                    words: rng.get_word_pos(),
                    now: &model.keep(),
                    best: best.as_ref(),
                };
                keeper.save(share.member, &midway)?;
            }
        }
        if let Some(best) = best {
            model.restore(best);
        }
        Ok(report)
    }

    /// Held-out labels as one batch, if they are enough to go by.
    fn held_out_check(&self, share: &Share<'_>) -> Result<Option<LossBatch>> {
        if share.held_out.len() < self.settings.held_out_min.max(1) {
            return Ok(None);
        }
        LossBatch::new(&self.objectives, &share.held_out, &[]).map(Some)
    }

    fn value_loss<M: TrainableModel>(&self, model: &M, batch: &LossBatch) -> Result<f64> {
        let values = model.values(&questions(self.corpus, batch.asked())?)?;
        Ok(self.loss(batch, &values)?.parts.total)
    }

    fn loss(&self, batch: &LossBatch, values: &[f64]) -> Result<crate::losses::BatchLoss> {
        // A model that diverged is not the caller's fault.
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(ScorerError::Numerical {
                step: "training",
                problem: format!("a predicted uplift is {value}; lower the learning rate"),
            });
        }
        batch.loss(&self.objectives, &self.policy, values)
    }

    fn epoch<M: TrainableModel>(
        &self,
        model: &mut M,
        share: &Share<'_>,
        batches: &[Vec<&Item>],
        epoch: usize,
        rng: &mut ChaCha8Rng,
        report: &mut MemberReport,
    ) -> Result<()> {
        let count = batches.len() as f64;
        let (mut sum, mut norms) = (LossParts::default(), 0.0);
        for (at, batch) in batches.iter().enumerate() {
            let values: Vec<&ValueExample> = batch
                .iter()
                .flat_map(|item| &item.values)
                .map(|&at| share.values[at])
                .collect();
            let paths: Vec<&PathExample> = batch
                .iter()
                .flat_map(|item| &item.paths)
                .map(|&at| share.paths[at])
                .collect();
            let batch = LossBatch::new(&self.objectives, &values, &paths)?;
            let asked = questions(self.corpus, batch.asked())?;
            let mut parts = LossParts::default();
            model.learn(&asked, rng.next_u64(), &mut |values| {
                let loss = self.loss(&batch, values)?;
                parts = loss.parts;
                Ok(loss.slopes)
            })?;
            let done = ((epoch - 1) as f64 + at as f64 / count) / self.settings.epochs as f64;
            norms += model.step(self.settings.learning_rate * (1.0 - done))?;
            sum.add(&parts);
        }
        report.training = sum.divided(count);
        report.gradient_norm = norms / count;
        Ok(())
    }
}

/// Labels and paths of one task that go into one batch.
struct Item {
    values: Vec<usize>,
    paths: Vec<usize>,
}

/// One item a task; what does not fit a batch makes further items.
fn items(settings: &TrainerSettings, share: &Share<'_>) -> Vec<Item> {
    let mut tasks: BTreeMap<TaskId, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, example) in share.values.iter().enumerate() {
        tasks.entry(example.label.task).or_default().0.push(at);
    }
    for (at, example) in share.paths.iter().enumerate() {
        tasks.entry(example.task).or_default().1.push(at);
    }
    let mut items = Vec::new();
    for (values, paths) in tasks.values() {
        let pieces = values
            .len()
            .div_ceil(settings.batch_labels)
            .max(paths.len().div_ceil(settings.batch_paths));
        for piece in 0..pieces {
            let part = |all: &[usize]| all.iter().skip(piece).step_by(pieces).copied().collect();
            items.push(Item {
                values: part(values),
                paths: part(paths),
            });
        }
    }
    items
}

/// All items once, in random order, as many in a batch as fit.
fn batches<'a>(settings: &TrainerSettings, items: &'a [Item], rng: &mut ChaCha8Rng) -> Vec<Vec<&'a Item>> {
    let mut order: Vec<&Item> = items.iter().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.random_range(0..=at));
    }
    let mut batches: Vec<Vec<&Item>> = Vec::new();
    let (mut labels, mut paths) = (usize::MAX / 2, 0);
    for item in order {
        labels += item.values.len();
        paths += item.paths.len();
        if labels > settings.batch_labels || paths > settings.batch_paths {
            batches.push(Vec::new());
            (labels, paths) = (item.values.len(), item.paths.len());
        }
        if let Some(batch) = batches.last_mut() {
            batch.push(item);
        }
    }
    batches
}

impl LossParts {
    fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.regression += other.regression;
        self.sign += other.sign;
        self.pair += other.pair;
        self.policy += other.policy;
    }

    pub(super) fn divided(self, count: f64) -> Self {
        Self {
            total: self.total / count,
            regression: self.regression / count,
            sign: self.sign / count,
            pair: self.pair / count,
            policy: self.policy / count,
        }
    }

    /// The mean of several.
    pub(super) fn mean(all: impl ExactSizeIterator<Item = Self>) -> Self {
        let count = all.len().max(1) as f64;
        let mut sum = Self::default();
        for parts in all {
            sum.add(&parts);
        }
        sum.divided(count)
    }
}
