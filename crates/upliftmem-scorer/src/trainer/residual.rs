//! A network on what the compact scorer leaves unexplained, kept only if it helps on tasks it has not seen.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use upliftmem_core::{
    MemorySet, ReferenceId, Uplift,
    objectives::{LossSettings, ValueLabel},
    statistics::Summary,
};

use super::{
    Corpus, HeldOut, HeldOutReport, Progress, Trainer, TrainerSettings, UpdateReport, calibration_scale,
    data::questions, folds::fold, report::normal_log_likelihood,
};
use crate::{
    Ask, CompactLearner, CompactScorer, CompactSettings, Ensemble, Label, MemoryInput, NetworkModel,
    NetworkScorer, NetworkSettings, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer, ValueExample,
    error::Result, losses::SetsOfTask,
};

/// Whether the network stays, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResidualDecision {
    /// Held-out labels that decided.
    pub labels: usize,
    /// Mean log-likelihood of them under the compact scorer alone.
    pub without: Option<f64>,
    /// The same with the network on top.
    pub with: Option<f64>,
    /// By how much the network lowers the squared error of a label.
    pub gain: Option<Summary>,
    /// Whether it is used: the gain must exceed twice its standard error.
    pub kept: bool,
    /// The compact scorer on the same labels.
    pub compact: HeldOutReport,
}

/// What training a residual network gave.
pub struct ResidualUpdate {
    /// Compact scorer plus network, or compact scorer alone.
    pub scorer: Arc<ResidualScorer>,
    /// Whether the network stays.
    pub decision: ResidualDecision,
    /// How its training went.
    pub training: UpdateReport,
    /// The network's members, kept or not.
    pub members: Vec<Arc<NetworkScorer>>,
}

/// The compact scorer with a network on its residual. The belief is the compact scorer's.
pub struct ResidualScorer {
    compact: Arc<CompactScorer>,
    network: Option<Arc<Ensemble>>,
}

impl ResidualScorer {
    /// A scorer whose values are those of both together; without a network, those of the compact scorer.
    pub const fn new(compact: Arc<CompactScorer>, network: Option<Arc<Ensemble>>) -> Self {
        Self { compact, network }
    }
}

struct BoundResidual<'a> {
    compact: Box<dyn TaskScorer + 'a>,
    network: Option<Box<dyn TaskScorer + 'a>>,
}

impl SetScorer for ResidualScorer {
    fn version(&self) -> ScorerVersion {
        self.compact.version()
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>> {
        let network = match &self.network {
            Some(network) => Some(network.bind(task, memories)?),
            None => None,
        };
        Ok(Box::new(BoundResidual {
            compact: self.compact.bind(task, memories)?,
            network,
        }))
    }
}

impl TaskScorer for BoundResidual<'_> {
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores> {
        let mut scores = self.compact.score(sets, ask)?;
        if let Some(network) = &self.network {
            let more = network.score(sets, Ask::VALUES)?.values;
            for values in std::iter::once(&mut scores.values).chain(&mut scores.draws) {
                for (value, more) in values.iter_mut().zip(&more) {
                    *value += more;
                }
            }
        }
        Ok(scores)
    }
}

/// Fits the compact scorer on all labels, trains networks on what it leaves on tasks whose sets were kept from it, and
/// decides on held-out tasks whether they stay.
pub fn train_residual(
    compact: CompactSettings,
    network: NetworkSettings,
    members: usize,
    settings: TrainerSettings,
    corpus: &Corpus,
    labels: &[Label],
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<ResidualUpdate> {
    // Magnitude is all there is to a residual: its sign and order are not those of an uplift.
    let settings = TrainerSettings {
        losses: LossSettings {
            sign_weight: 0.0,
            pair_weight: 0.0,
            ..LossSettings::CALIBRATED
        },
        calibrate: true,
        ..settings
    };
    let models = NetworkModel::several(network, members, settings.seed)?;
    let mut trainer = Trainer::new(settings, models)?;
    let left = out_of_fold(compact, corpus, labels, settings.folds)?;
    let update = trainer.warm_up(corpus, &left.residuals, progress)?;
    let decision = decide(&trainer, &left, &update.held_out)?;
    let kept = decision.kept.then(|| Arc::clone(&update.scorer));
    Ok(ResidualUpdate {
        scorer: Arc::new(ResidualScorer::new(
            fitted(compact, corpus, labels, |_| true)?,
            kept,
        )),
        decision,
        training: update.report,
        members: update.members,
    })
}

/// What the compact scorer says of labels it has not seen.
struct OutOfFold {
    compact: Vec<HeldOut>,
    residuals: Vec<ValueExample>,
}

/// References stay: they tell the utility without memory, which is not what is held out.
fn out_of_fold(
    settings: CompactSettings,
    corpus: &Corpus,
    labels: &[Label],
    folds: usize,
) -> Result<OutOfFold> {
    let mut found: Vec<Option<(HeldOut, ValueExample)>> = vec![None; labels.len()];
    for own in 0..folds {
        let held = |label: &Label| !label.set.is_empty() && fold(label.task, folds) == own;
        if !labels.iter().any(held) {
            continue;
        }
        let scorer = fitted(settings, corpus, labels, |label| !held(label))?;
        for (slot, label) in found.iter_mut().zip(labels).filter(|(_, label)| held(label)) {
            *slot = Some(compare(&scorer, corpus, label)?);
        }
    }
    let (compact, residuals) = found.into_iter().flatten().unzip();
    Ok(OutOfFold { compact, residuals })
}

fn fitted(
    settings: CompactSettings,
    corpus: &Corpus,
    labels: &[Label],
    seen: impl Fn(&Label) -> bool,
) -> Result<Arc<CompactScorer>> {
    let mut learner = CompactLearner::new(settings)?;
    for (id, embedding) in corpus.tasks() {
        learner.add_task(id, embedding)?;
    }
    for (id, embedding) in corpus.memories() {
        learner.add_memory(id, embedding)?;
    }
    for label in labels.iter().filter(|label| seen(label)) {
        learner.hold(label)?;
    }
    learner.refit()?;
    Ok(learner.publish())
}

fn compare(scorer: &CompactScorer, corpus: &Corpus, label: &Label) -> Result<(HeldOut, ValueExample)> {
    let asked = [SetsOfTask {
        task: label.task,
        sets: vec![label.set.clone()],
    }];
    let question = &questions(corpus, &asked)?[0];
    let alone = scorer.no_memory_utility(question.task)?.unwrap_or(0.0);
    let bound = scorer.bind(question.task, &question.memories)?;
    let predicted = bound.score(question.sets, Ask::VALUES)?.values[0];
    let with_uplift = |uplift: f64| -> Result<ValueLabel> {
        Ok(ValueLabel {
            task: label.task,
            reference: label
                .reference
                .unwrap_or_else(|| ReferenceId::from_u128(label.task.as_u128())),
            uplift: Uplift::new(uplift)?,
        })
    };
    let uplift = label.value - alone;
    Ok((
        HeldOut {
            label: with_uplift(uplift)?,
            size: label.set.len(),
            predicted,
        },
        ValueExample {
            set: label.set.clone(),
            label: with_uplift(uplift - predicted)?,
        },
    ))
}

/// Standard errors by which a network must help to be kept: of networks that do not help one in forty gets so far by chance.
const GAIN_ERRORS_MIN: f64 = 2.0;

/// Compares squared errors with and without the network. Its scale on one fold comes from the others, so that the
/// scale too is held out.
fn decide(
    trainer: &Trainer<NetworkModel>,
    left: &OutOfFold,
    network: &[HeldOut],
) -> Result<ResidualDecision> {
    let folds = trainer.settings().folds;
    let scales: Vec<f64> = (0..folds)
        .map(|own| {
            let others: Vec<HeldOut> = network
                .iter()
                .filter(|one| fold(one.label.task, folds) != own)
                .copied()
                .collect();
            calibration_scale(&others, trainer.settings().held_out_min)
        })
        .collect::<Result<_>>()?;
    let errors: Vec<(f64, f64)> = network
        .iter()
        .map(|one| {
            let residual = one.label.uplift.get();
            let explained = one.predicted * scales[fold(one.label.task, folds)];
            (residual.powi(2), (residual - explained).powi(2))
        })
        .collect();
    let gains: Vec<f64> = errors.iter().map(|(without, with)| without - with).collect();
    let gain = if gains.is_empty() {
        None
    } else {
        Some(Summary::of(&gains)?)
    };
    let likelihood = |total: f64| {
        let error = (total / errors.len() as f64).sqrt();
        (error > 0.0).then(|| normal_log_likelihood(error))
    };
    Ok(ResidualDecision {
        labels: errors.len(),
        without: likelihood(errors.iter().map(|(without, _)| without).sum()),
        with: likelihood(errors.iter().map(|(_, with)| with).sum()),
        kept: gain.is_some_and(|gain| {
            gain.standard_error
                .is_some_and(|error| gain.mean > GAIN_ERRORS_MIN * error)
        }),
        gain,
        compact: HeldOutReport::of(trainer.objectives(), &left.compact)?,
    })
}
