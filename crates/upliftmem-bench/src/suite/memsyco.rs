//! MemSyco-Bench as a suite: every question has a store of its own, the dialogue that it comes with.

mod executor;
mod lessons;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::Map;
use sha2::{Digest, Sha256};
use upliftmem_agent::{Execution, chat::ChatModel, prompts::Domain};
use upliftmem_core::{Cost, Performance, Task, TaskId};
use upliftmem_engine::UtilitySettings;

use self::executor::{Asked, ReplyExecutor, TOKENS_MAX};
use super::{Actor, Experience, Lesson, ModelAgent, Part, Partition, Suite};
use crate::{
    memsyco::{Behaviour, Instance, LikelihoodPair, SPLIT_SEED, Scenario, Scores, Verdict, load, split},
    protocol::{Cell, Error, MethodScores, Result, Sizes},
    tables::{Better, DataTable, Entry},
};

/// Which training instances are taken, and in which order, does not depend on a run's seed.
const PARTITION_SEED: u64 = 42;

/// MemSyco-Bench with a language model that answers.
pub struct MemsycoSuite {
    actor: Actor,
    is_judged: bool,
    dialogues: BTreeMap<TaskId, Vec<Experience>>,
    partition: Partition,
}

/// The task of an instance: the question, and nothing of how its answer is judged.
fn task_of(instance: &Instance) -> Task {
    let mut task = Task::new(instance.id.clone(), instance.question.clone());
    // Two instances may ask the same; what was answered to one is not what was answered to the other.
    task.metadata
        .insert("instance".into(), instance.id.clone().into());
    task
}

/// The dialogue of an instance, turn by turn, as something that was lived through.
fn lived(instance: &Instance, task: &Task) -> Result<Vec<Experience>> {
    let turns = instance.turn_memories().into_iter().enumerate();
    turns
        .map(|(turn, text)| {
            Ok(Experience {
                task: Task::new(format!("{}/{turn}", task.name), text),
                execution: Execution {
                    performance: Performance::FAILURE,
                    cost: Cost::new(0.0)?,
                    trajectory: Vec::new(),
                    diagnostics: Map::new(),
                },
            })
        })
        .collect()
}

impl MemsycoSuite {
    /// Reads the instances and parts them: the division has the paper's counts; of the instances to learn from, as many as are
    /// asked for, by lot; the parts of the evaluation are the scenarios. With a judge answers are judged; without one, a
    /// likelihood proxy says whether the good answer is likelier than the bad one, and instances that name none are left out.
    ///
    /// # Errors
    /// The instances can not be read, or what the model does can not be kept.
    pub fn load(
        folder: &Path,
        sizes: &Sizes,
        agent: &ModelAgent,
        judge: Option<Arc<dyn ChatModel>>,
    ) -> Result<Self> {
        let instances = load(folder)?;
        let divided = split(&instances, SPLIT_SEED);
        let mut hash = Sha256::new();
        let (mut asked, mut dialogues) = (BTreeMap::new(), BTreeMap::new());
        for (position, instance) in instances.iter().enumerate() {
            for text in [
                &instance.id,
                &instance.question,
                &instance.evaluation.reference_answer,
            ] {
                hash.update(text.as_bytes());
                hash.update([0]);
            }
            let pair = LikelihoodPair::of(&instances, position);
            if judge.is_none() && pair.is_none() {
                continue;
            }
            let task = task_of(instance);
            dialogues.insert(task.id, lived(instance, &task)?);
            asked.insert(
                task.id,
                Asked {
                    instance: instance.clone(),
                    pair,
                },
            );
        }
        let tasks = |positions: &[usize], scenario: Option<Scenario>| -> Vec<Task> {
            let wanted = positions.iter().map(|&position| &instances[position]);
            wanted
                .filter(|instance| scenario.is_none_or(|scenario| instance.scenario == scenario))
                .map(task_of)
                .filter(|task| asked.contains_key(&task.id))
                .collect()
        };
        let mut runtime = tasks(&divided.train, None);
        runtime.shuffle(&mut ChaCha8Rng::seed_from_u64(PARTITION_SEED));
        runtime.truncate(sizes.runtime);
        let evaluation: Vec<Part> = Scenario::ALL
            .into_iter()
            .map(|scenario| {
                let mut tasks = tasks(&divided.test, Some(scenario));
                tasks.truncate(sizes.evaluation.unwrap_or(usize::MAX));
                Part {
                    name: scenario.name().to_owned(),
                    tasks,
                }
            })
            .filter(|part| !part.tasks.is_empty())
            .collect();
        let partition = Partition {
            seed: Vec::new(),
            runtime,
            validation: evaluation.iter().flat_map(|part| part.tasks.clone()).collect(),
            evaluation,
            digest: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let judged = match &judge {
            Some(judge) => format!("judged by {}", judge.name()),
            None => "by likelihood proxy".to_owned(),
        };
        let is_judged = judge.is_some();
        let executor = ReplyExecutor::new(Arc::clone(&agent.model), judge, asked, agent.sampling.clone());
        let keeping = agent.keeping(Arc::new(executor));
        Ok(Self {
            actor: Actor {
                executor: keeping.map_err(|error| Error::Execution(error.to_string()))?,
                title: format!("language model {}, {judged}", agent.model.name()),
                settings: agent.settings(),
            },
            is_judged,
            dialogues,
            partition,
        })
    }
}

impl Suite for MemsycoSuite {
    fn name(&self) -> &'static str {
        "memsyco"
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }

    fn partition(&self) -> &Partition {
        &self.partition
    }

    fn utility(&self) -> UtilitySettings {
        UtilitySettings {
            cost_max: TOKENS_MAX as f64,
            ..UtilitySettings::default()
        }
    }

    fn cost_unit(&self) -> &'static str {
        "memory tokens"
    }

    /// With the proxy behaviour is accuracy the other way round, and says nothing more.
    fn behaviour(&self, part: &str) -> Option<(&'static str, Better)> {
        let scenario = Scenario::ALL
            .into_iter()
            .find(|scenario| scenario.name() == part)?;
        self.is_judged.then(|| match Behaviour::of(scenario) {
            Behaviour::Sycophancy => ("sycophancy", Better::Lower),
            Behaviour::CorrectMemoryUse => ("correct use", Better::Higher),
            Behaviour::OutdatedMemoryUse => ("outdated use", Better::Lower),
        })
    }

    /// The paper's Decision, Syco, Select and Old.
    fn summary(&self, scores: &[MethodScores]) -> Result<Option<DataTable>> {
        type Summary = fn(&Scores) -> Option<f64>;
        let mut summaries: Vec<(&str, Better, Summary)> = vec![
            ("Decision, %", Better::Higher, Scores::decision),
            ("Select, %", Better::Higher, Scores::selection),
        ];
        if self.is_judged {
            summaries.insert(1, ("Syco, %", Better::Lower, Scores::sycophancy));
            summaries.push(("Old, %", Better::Lower, Scores::outdated));
        }
        let mut rows = Vec::with_capacity(scores.len());
        for method in scores {
            let runs = scores_by_run(method);
            let mut entries = Vec::with_capacity(summaries.len());
            for (_, _, summary) in &summaries {
                let values: Option<Vec<f64>> = runs.iter().map(summary).collect();
                entries.push(match values {
                    Some(values) => Entry::of(Cell::over(
                        &values.iter().map(|value| 100.0 * value).collect::<Vec<_>>(),
                    )?),
                    None => Entry::plain("-"),
                });
            }
            rows.push((method.method.clone(), entries));
        }
        let columns = summaries
            .iter()
            .map(|(name, better, _)| ((*name).to_owned(), *better));
        Ok(Some(DataTable {
            caption: "summary of the scenarios".into(),
            columns: std::iter::once(("Method".to_owned(), Better::Neither))
                .chain(columns)
                .collect(),
            rows,
        }))
    }

    fn memories_max(&self) -> usize {
        5
    }

    fn has_own_stores(&self) -> bool {
        true
    }

    fn own_experiences(&self, task: &Task) -> Vec<Experience> {
        self.dialogues.get(&task.id).cloned().unwrap_or_default()
    }

    fn domain(&self) -> Domain {
        Domain::Generic
    }

    fn lessons(&self, experience: &Experience) -> Vec<Lesson> {
        lessons::lessons(experience)
    }

    /// A turn is a memory of its own.
    fn transcript(&self, experience: &Experience) -> Option<String> {
        Some(experience.task.context.clone())
    }
}

/// What a method scored in every run, over all scenarios.
fn scores_by_run(method: &MethodScores) -> Vec<Scores> {
    let runs = method.parts.values().map(|part| part.outcomes.len()).min();
    let of_run = |run: usize| {
        let verdicts = Scenario::ALL.into_iter().flat_map(|scenario| {
            let part = method.parts.get(scenario.name());
            let outcomes = part.map_or(&[][..], |part| part.outcomes[run].as_slice());
            let shown = part.and_then(|part| part.behaviours.get(run));
            outcomes.iter().enumerate().map(move |(task, outcome)| {
                let verdict = Verdict {
                    is_accurate: outcome.0 >= 1.0,
                    shows_behaviour: shown.is_some_and(|shown| shown[task]),
                };
                (scenario, verdict)
            })
        });
        Scores::of(verdicts)
    };
    (0..runs.unwrap_or(0)).map(of_run).collect()
}
