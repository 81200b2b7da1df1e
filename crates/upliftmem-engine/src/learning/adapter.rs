//! An adapter of a language model, trained step by step while a run goes on.
//!
//! Every version is a directory: the adapter in the layout of PEFT with its calibration, and beside it the optimiser's state,
//! so that a run that was stopped goes on to the same bits. An update that was stopped goes on from its last epoch.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use upliftmem_scorer::{
    Corpus, PathExample, Stage, Trainer, ValueExample,
    checkpoint::{LmKeeper, Provenance, checkpoint_directory},
    lm::{LmModel, load_adapter, save_adapter},
};

use super::{LearningTexts, Lesson, Tell, TokensRead};
use crate::{
    error::{Error, Result},
    scorers::{LmPlan, OpenAdapter},
    seeds::hexadecimal,
    state::Labelled,
};

/// How often whoever waits is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// An adapter in training.
pub(super) struct AdapterLearning {
    plan: Arc<LmPlan>,
    place: PathBuf,
    trainer: Trainer<LmModel>,
    location: Option<PathBuf>,
}

impl AdapterLearning {
    /// Starts from the plan's adapter, or from none.
    pub(super) fn new(plan: Arc<LmPlan>, place: &str) -> Result<Self> {
        let (base, seed) = (Arc::clone(&plan.base), plan.settings.trainer.seed);
        let model = match &plan.settings.adapter {
            Some(directory) => {
                let (adapter, calibration) =
                    load_adapter(directory, base.base().config(), base.base().device())?;
                LmModel::from_adapter(base, seed, &adapter, calibration)?
            }
            None => LmModel::new(base, seed),
        };
        Ok(Self {
            trainer: Trainer::new(plan.settings.trainer, vec![model])?,
            place: plan.settings.directory.join(place),
            plan,
            location: None,
        })
    }

    /// Where the last version is.
    pub(super) fn location(&self) -> Option<&Path> {
        self.location.as_deref()
    }

    /// Goes back to a version that an update wrote.
    pub(super) fn restore(&mut self, version: u64) -> Result<Arc<OpenAdapter>> {
        let directory = self.directory(version);
        self.trainer = Trainer::<LmModel>::load(&directory, &self.plan.base)?.trainer;
        let open = self.plan.open(Some(&directory))?;
        self.location = Some(directory);
        Ok(open)
    }

    fn directory(&self, version: u64) -> PathBuf {
        checkpoint_directory(&self.place, upliftmem_scorer::ScorerVersion(version))
    }

    /// Learns from all labels and the latest paths, and writes the new version.
    pub(super) fn update(
        &mut self,
        lesson: &Lesson<'_>,
        version: u64,
        tell: Tell<'_>,
    ) -> Result<(Arc<OpenAdapter>, Value)> {
        let values = examples(lesson);
        let mut paths = path_examples(lesson);
        let early = paths.len().saturating_sub(self.plan.settings.paths_max);
        paths.drain(..early);
        let corpus = corpus(lesson.texts);
        let mut report = json!({"labels": values.len(), "paths": paths.len()});
        let scale;
        if !values.is_empty() {
            let first = self.location.is_none() && self.plan.settings.adapter.is_none();
            let total = self.tokens(&corpus, &values)?;
            let counter = self.trainer.models()[0].tokens_read();
            let before = counter.load(Ordering::Relaxed);
            let (stage, paths) = if first {
                (Stage::WarmUp, &[][..])
            } else {
                (Stage::Joint, &paths[..])
            };
            let keeper = LmKeeper::new(
                self.place.join("update"),
                Arc::clone(&self.plan.base),
                update_name(version, &values, paths, &self.plan),
            );
            let trainer = &mut self.trainer;
            let update = std::thread::scope(|scope| {
                let work =
                    scope.spawn(|| trainer.learn(stage, &corpus, &values, paths, Some(&keeper), &|_| {}));
                while !work.is_finished() {
                    let done = (counter.load(Ordering::Relaxed) - before).min(total);
                    tell(TokensRead { done, total });
                    std::thread::sleep(TELL_EVERY);
                }
                work.join()
            });
            let update = update.map_err(|_| Error::Internal("training an adapter stopped".into()))??;
            tell(TokensRead { done: total, total });
            scale = update.report.scale;
            report["training"] = json!(update.report.training);
            report["held_out"] = json!(update.report.published);
            report["tokens"] = json!(counter.load(Ordering::Relaxed) - before);
            let open = self.write(version, scale, &report)?;
            keeper.clear()?;
            return Ok((open, report));
        }
        Ok((self.write(version, 1.0, &report)?, report))
    }

    /// A version is announced only after this: whatever is in its place was never announced.
    fn write(&mut self, version: u64, scale: f64, report: &Value) -> Result<Arc<OpenAdapter>> {
        let directory = self.directory(version);
        let unwritable = |error: std::io::Error| Error::Files {
            place: directory.clone(),
            problem: error.to_string(),
        };
        if directory.exists() {
            std::fs::remove_dir_all(&directory).map_err(unwritable)?;
        }
        std::fs::create_dir_all(&self.place).map_err(unwritable)?;
        let provenance = Provenance {
            metrics: report.clone(),
            ..Provenance::default()
        };
        self.trainer.save(&directory, &provenance)?;
        let (adapter, calibration) = self.trainer.models()[0].adapter()?;
        save_adapter(
            &directory,
            &adapter,
            calibration.scaled(scale),
            &self.plan.settings.base,
        )?;
        let open = self.plan.open(Some(&directory))?;
        self.location = Some(directory);
        Ok(open)
    }

    /// About as many tokens as training will read: sets that share a beginning share its tokens, so it may be fewer.
    fn tokens(&self, corpus: &Corpus, values: &[ValueExample]) -> Result<u64> {
        let mut total = 0;
        for example in values {
            let members = example
                .set
                .iter()
                .map(|&id| Ok(corpus.memory(id)?.text))
                .collect::<Result<Vec<&str>>>()?;
            let context = corpus.task(example.label.task)?.context;
            total += self.plan.base.prompt_length(context, &members)? as u64;
        }
        Ok(total * self.plan.settings.trainer.epochs as u64)
    }
}

/// Names an update with all that it learns from and how.
fn update_name(version: u64, values: &[ValueExample], paths: &[PathExample], plan: &LmPlan) -> String {
    let learned = json!({"version": version, "values": values, "paths": paths, "plan": plan.described()});
    hexadecimal(&Sha256::digest(learned.to_string().as_bytes()))
}

fn known(texts: &LearningTexts, label: &upliftmem_core::Observation) -> bool {
    texts.tasks.contains_key(&label.task) && label.set.iter().all(|id| texts.memories.contains_key(id))
}

/// Labels whose texts are all there.
fn examples(lesson: &Lesson<'_>) -> Vec<ValueExample> {
    let seen = lesson.labels.iter().filter_map(|label| match label {
        Labelled::Observation(seen) if known(lesson.texts, seen) => Some(ValueExample::from(seen)),
        _ => None,
    });
    seen.collect()
}

/// Paths whose end was executed, with all memories that they could have added.
fn path_examples(lesson: &Lesson<'_>) -> Vec<PathExample> {
    let mut examples = Vec::new();
    for (task, path) in lesson.paths {
        let executed = lesson.labels.iter().rev().find_map(|label| match label {
            Labelled::Observation(seen) if seen.task == *task && seen.set == path.terminal => Some(seen),
            _ => None,
        });
        let allowed = path.steps.iter().flat_map(|step| &step.mask);
        let texts = lesson.texts;
        if let Some(seen) = executed.filter(|seen| known(texts, seen))
            && allowed.into_iter().all(|id| texts.memories.contains_key(id))
        {
            examples.push(PathExample {
                task: *task,
                path: path.clone(),
                uplift: seen.uplift,
            });
        }
    }
    examples
}

fn corpus(texts: &LearningTexts) -> Corpus {
    let mut corpus = Corpus::default();
    for (id, task) in &texts.tasks {
        corpus.add_task(*id, task.task.context.clone(), task.embedding.clone());
    }
    for (id, memory) in &texts.memories {
        corpus.add_memory(*id, memory.text.clone(), memory.embedding.clone());
    }
    corpus
}
