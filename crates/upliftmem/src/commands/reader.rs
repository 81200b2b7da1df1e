//! The language-model scorer on labels that another run has paid for.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use upliftmem_core::{Memory, Task, objectives::ValueLabel};
use upliftmem_engine::Labelled;
use upliftmem_scorer::{
    Corpus, Embedding, ScorerVersion, SetScorer, Trainer, TrainerSettings, ValueExample,
    lm::{Calibration, Device, LmBase, LmModel, LmScorer, LmSettings},
};

use crate::output::Output;

/// A model that reads sets, as it is and after learning from executed ones.
pub(crate) struct Reader {
    pub(crate) untrained: LmScorer,
    pub(crate) trained: Arc<dyn SetScorer>,
}

/// Trains an adapter beside a model on executed sets. Takes about a second a label and epoch with a small model.
pub(crate) fn reader(
    model: &Path,
    memories: &[Memory],
    tasks: &[Task],
    labels: &[Labelled],
    settings: TrainerSettings,
    output: Output,
) -> Result<Reader> {
    let base = LmBase::load(model, LmSettings::default(), &Device::Cpu)?;
    // It reads texts: there is one embedding for all.
    let blank = Embedding::new(&[1.0])?;
    let mut corpus = Corpus::default();
    for memory in memories {
        corpus.add_memory(memory.id, memory.text.clone(), blank.clone());
    }
    for task in tasks {
        corpus.add_task(task.id, task.context.clone(), blank.clone());
    }
    let examples: Vec<ValueExample> = labels
        .iter()
        .filter_map(|label| match label {
            Labelled::Observation(seen) => Some(ValueExample {
                set: seen.set.clone(),
                label: ValueLabel {
                    task: seen.task,
                    reference: seen.reference,
                    uplift: seen.uplift,
                },
            }),
            Labelled::Reference(_) => None,
        })
        .collect();
    let untrained = LmScorer::new(ScorerVersion(0), Arc::clone(&base), None, Calibration::NONE);
    let mut trainer = Trainer::new(settings, vec![LmModel::new(base, settings.seed)])?;
    let update = trainer.warm_up(&corpus, &examples, &|progress| {
        let held_out = progress
            .held_out
            .map_or_else(String::new, |loss| format!(", held out {loss:.4}"));
        output.note(&format!(
            "language-model scorer, epoch {} of {}: loss {:.4}{held_out}",
            progress.epoch, progress.epochs, progress.training.total
        ));
    })?;
    Ok(Reader {
        untrained,
        trained: update.scorer,
    })
}
