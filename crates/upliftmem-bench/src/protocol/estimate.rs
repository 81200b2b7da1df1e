//! What an evaluation will cost, before it starts.

use serde::Serialize;
use upliftmem_engine::WritingSettings;

use super::{Bench, Method, probes::WINDOW};
use crate::systems::SystemName;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Methods side by side, and whether the controlled comparison is wanted too.
    Main(Vec<Method>),
    /// The controlled comparison with so many values of K.
    BudgetK(usize),
    /// Ablations.
    Ablations,
    /// Probe curves: strategies, the largest budget, checkpoints, trials.
    Probes {
        /// Strategies.
        strategies: usize,
        /// The largest budget.
        budget: usize,
        /// Checkpoints of each.
        checkpoints: usize,
        /// Trials.
        trials: usize,
    },
}

/// Executions that are expected at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// To make experience and to train.
    pub training: usize,
    /// To evaluate.
    pub evaluation: usize,
}

/// Executions of some work, if nothing of it was done before.
pub fn estimate(bench: &Bench, work: &Work) -> Estimate {
    let suite = &bench.suite;
    let runtime = suite.runtime_tasks().len();
    // Where tasks bring along what is remembered, nothing has to be lived through first.
    let lived = if suite.has_own_stores() {
        0
    } else {
        suite.seed_tasks().len() + runtime
    };
    let evaluated: usize = suite
        .evaluation()
        .iter()
        .map(|part| part.tasks.len())
        .sum::<usize>()
        * bench.runs;
    let warm_up = bench.sizes.warm_up.min(runtime);
    let stream = (runtime - warm_up) * usize::try_from(bench.engine.training.epochs).unwrap_or(usize::MAX);
    let interval =
        usize::try_from(bench.engine.acquisition.acquisition_interval.max(1)).unwrap_or(usize::MAX);
    let probes = stream / interval * bench.engine.acquisition.probe_budget;
    // Some episodes of each batch are written about, and every version is executed.
    let writing = WritingSettings::default();
    let versions = usize::try_from(writing.revisions_max).unwrap_or(usize::MAX) + 1;
    let batches = stream.div_ceil(bench.engine.training.batch.max(1));
    let written = if bench.writes {
        batches * writing.episodes_max * versions
    } else {
        0
    };
    // References of all tasks, random sets, the stream, probes, drafts.
    let one_training = runtime + warm_up + stream + probes + written;
    match work {
        Work::Main(methods) => {
            let trained = usize::from(methods.contains(&Method::Uplift));
            let learning = [SystemName::MemP, SystemName::MemRl].map(Method::System);
            let learning = methods.iter().filter(|method| learning.contains(method)).count();
            Estimate {
                training: lived + trained * one_training + learning * runtime,
                evaluation: methods.len() * evaluated,
            }
        }
        Work::BudgetK(counts) => Estimate {
            training: lived + SystemName::STORES.len() * one_training,
            evaluation: 2 * counts * SystemName::STORES.len() * evaluated,
        },
        Work::Ablations => Estimate {
            training: lived + runtime + warm_up + 3 * one_training,
            evaluation: 5 * evaluated,
        },
        Work::Probes {
            strategies,
            budget,
            checkpoints,
            trials,
        } => Estimate {
            training: lived + trials * (2 * warm_up + WINDOW.min(runtime - warm_up) + strategies * budget),
            evaluation: trials * strategies * (checkpoints + 1) * suite.validation_tasks().len() * bench.runs,
        },
    }
}
