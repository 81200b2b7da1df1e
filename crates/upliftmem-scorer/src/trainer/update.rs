//! Warm-up and joint updates: train every member, check on what it has not seen, publish.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use upliftmem_core::{PathPolicy, objectives::Objectives};

use super::{
    Corpus, HeldOut, HeldOutReport, MemberReport, Progress, TrainableModel, TrainerSettings,
    calibration_scale,
    data::questions,
    folds::fold,
    member::{Keeper, Plan, Share},
};
use crate::{
    Ensemble, ScorerVersion, SetScorer,
    error::{Result, invalid},
    losses::{LossBatch, LossParts, PathExample, SetsOfTask, ValueExample},
};

/// Which objective an update minimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The value objective alone.
    WarmUp,
    /// Value and policy together.
    Joint,
}

/// What an update did and how good its result is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateReport {
    /// The version it published.
    pub version: ScorerVersion,
    /// The objective.
    pub stage: Stage,
    /// Labels in all.
    pub labels: usize,
    /// Paths in all.
    pub paths: usize,
    /// Losses of the last epoch, mean over members.
    pub training: LossParts,
    /// What became of each member.
    pub members: Vec<MemberReport>,
    /// Predictions of members for tasks that were kept from them, as they came.
    pub held_out: HeldOutReport,
    /// What values are multiplied by from now on.
    pub scale: f64,
    /// The same predictions, multiplied.
    pub published: HeldOutReport,
}

/// The result of an update.
pub struct Update<S> {
    /// What happened.
    pub report: UpdateReport,
    /// The new version: the mean of all members.
    pub scorer: Arc<Ensemble>,
    /// Its members.
    pub members: Vec<Arc<S>>,
    /// Labels with held-out predictions before scaling, in the order of the labels.
    pub held_out: Vec<HeldOut>,
}

/// Trains an ensemble of models and publishes versions of it.
#[derive(Debug)]
pub struct Trainer<M> {
    pub(crate) settings: TrainerSettings,
    objectives: Objectives,
    policy: PathPolicy,
    pub(crate) version: u64,
    /// What the last version's values are multiplied by.
    pub(crate) scale: f64,
    pub(crate) models: Vec<M>,
}

impl<M: TrainableModel> Trainer<M> {
    /// A trainer of at least one model.
    pub fn new(settings: TrainerSettings, models: Vec<M>) -> Result<Self> {
        settings.check()?;
        if models.is_empty() {
            return Err(invalid("trainer", "has no models; give it at least one"));
        }
        Ok(Self {
            settings,
            objectives: Objectives::new(settings.losses)?,
            policy: PathPolicy::new(settings.sampling_temperature, settings.stop_prior)?,
            version: 0,
            scale: 1.0,
            models,
        })
    }

    /// The losses it minimises.
    pub const fn objectives(&self) -> &Objectives {
        &self.objectives
    }

    /// The models as they are.
    pub fn models(&self) -> &[M] {
        &self.models
    }

    /// The models as they are, when training is over.
    pub fn into_models(self) -> Vec<M> {
        self.models
    }

    /// Its plan.
    pub const fn settings(&self) -> &TrainerSettings {
        &self.settings
    }

    /// Value-only training from first parameters.
    pub fn warm_up(
        &mut self,
        corpus: &Corpus,
        values: &[ValueExample],
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Update<M::Scorer>> {
        self.learn(Stage::WarmUp, corpus, values, &[], None, progress)
    }

    /// Joint training on all labels and on the latest paths; paths of earlier updates must not be given again.
    /// Paper: app. policy_training.
    pub fn update(
        &mut self,
        corpus: &Corpus,
        values: &[ValueExample],
        latest_paths: &[PathExample],
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Update<M::Scorer>> {
        self.learn(Stage::Joint, corpus, values, latest_paths, None, progress)
    }

    /// Either of them; an update that was stopped goes on from the last epoch that `keeper` has of it. If anything fails, no
    /// model and no version has changed.
    pub fn learn(
        &mut self,
        stage: Stage,
        corpus: &Corpus,
        values: &[ValueExample],
        paths: &[PathExample],
        keeper: Option<&dyn Keeper<M::Kept>>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Update<M::Scorer>> {
        let before: Vec<M::Kept> = self.models.iter().map(TrainableModel::keep).collect();
        let result = self.attempt(stage, corpus, values, paths, keeper, progress);
        if result.is_err() {
            for (model, kept) in self.models.iter_mut().zip(before) {
                model.restore(kept);
            }
        }
        result
    }

    fn attempt(
        &mut self,
        stage: Stage,
        corpus: &Corpus,
        values: &[ValueExample],
        paths: &[PathExample],
        keeper: Option<&dyn Keeper<M::Kept>>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Update<M::Scorer>> {
        // What is wrong with the data is found before time is spent on training.
        let everything = LossBatch::new(
            &self.objectives,
            &values.iter().collect::<Vec<_>>(),
            &paths.iter().collect::<Vec<_>>(),
        )?;
        questions(corpus, everything.asked())?;
        let plan = Plan {
            settings: &self.settings,
            objectives: self.objectives,
            policy: self.policy,
            corpus,
            members: self.models.len(),
            anew: stage == Stage::WarmUp || self.settings.restart,
            seed: self.settings.seed.wrapping_add(self.version),
            progress,
        };
        let folds = self.settings.folds;
        let done: Vec<(MemberReport, Vec<(usize, f64)>)> = self
            .models
            .par_iter_mut()
            .enumerate()
            .map(|(member, model)| {
                let share = share(member, folds, values, paths);
                let report = plan.train(model, &share, keeper)?;
                Ok((report, predictions(model, corpus, values, member, folds)?))
            })
            .collect::<Result<_>>()?;
        let held_out = averaged(values, done.iter().flat_map(|(_, found)| found.iter().copied()));
        let scale = if self.settings.calibrate {
            calibration_scale(&held_out, self.settings.held_out_min)?
        } else {
            1.0
        };
        let scaled: Vec<HeldOut> = held_out
            .iter()
            .map(|&one| HeldOut {
                predicted: one.predicted * scale,
                ..one
            })
            .collect();
        let version = ScorerVersion(self.version + 1);
        let report = UpdateReport {
            version,
            stage,
            labels: values.len(),
            paths: paths.len(),
            training: LossParts::mean(done.iter().map(|(report, _)| report.training)),
            held_out: HeldOutReport::of(&self.objectives, &held_out)?,
            scale,
            published: HeldOutReport::of(&self.objectives, &scaled)?,
            members: done.into_iter().map(|(report, _)| report).collect(),
        };
        let members: Vec<Arc<M::Scorer>> = self
            .models
            .iter()
            .map(|model| model.publish(version, scale))
            .collect::<Result<_>>()?;
        let scorer = Arc::new(Ensemble::new(version, upcast(&members))?);
        self.version += 1;
        self.scale = scale;
        Ok(Update {
            report,
            scorer,
            members,
            held_out,
        })
    }
}

pub(crate) fn upcast<S: SetScorer + 'static>(members: &[Arc<S>]) -> Vec<Arc<dyn SetScorer>> {
    members
        .iter()
        .map(|member| Arc::clone(member) as Arc<dyn SetScorer>)
        .collect()
}

/// What a member learns from, and what is kept from it.
fn share<'a>(member: usize, folds: usize, values: &'a [ValueExample], paths: &'a [PathExample]) -> Share<'a> {
    let own = member % folds;
    let (held_out, seen) = values
        .iter()
        .partition(|example| fold(example.label.task, folds) == own);
    Share {
        member,
        values: seen,
        held_out,
        paths: paths
            .iter()
            .filter(|example| fold(example.task, folds) != own)
            .collect(),
    }
}

/// Values of the held-out labels' sets, with the positions of the labels.
fn predictions<M: TrainableModel>(
    model: &M,
    corpus: &Corpus,
    values: &[ValueExample],
    member: usize,
    folds: usize,
) -> Result<Vec<(usize, f64)>> {
    let positions: Vec<usize> = (0..values.len())
        .filter(|&at| fold(values[at].label.task, folds) == member % folds)
        .collect();
    let asked: Vec<SetsOfTask> = positions
        .iter()
        .map(|&at| SetsOfTask {
            task: values[at].label.task,
            sets: vec![values[at].set.clone()],
        })
        .collect();
    let found = model.values(&questions(corpus, &asked)?)?;
    Ok(positions.into_iter().zip(found).collect())
}

/// The mean held-out prediction of each label that has any, in the order of the labels.
fn averaged(values: &[ValueExample], found: impl Iterator<Item = (usize, f64)>) -> Vec<HeldOut> {
    let mut sums = vec![(0.0, 0_u32); values.len()];
    for (at, value) in found {
        sums[at].0 += value;
        sums[at].1 += 1;
    }
    values
        .iter()
        .zip(sums)
        .filter(|(_, (_, count))| *count > 0)
        .map(|(example, (sum, count))| HeldOut {
            label: example.label,
            size: example.set.len(),
            predicted: sum / f64::from(count),
        })
        .collect()
}
