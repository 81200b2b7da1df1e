//! BigCodeBench as a suite: the paper's division, a model that writes programs, lessons of programs that passed.

mod lessons;

use std::{path::Path, sync::Arc};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use upliftmem_agent::prompts::{Domain, MemoryBudget};
use upliftmem_core::Task;
use upliftmem_engine::UtilitySettings;

use super::{Actor, Experience, Lesson, ModelAgent, Part, Partition, Suite};
use crate::{
    bigcodebench::{Benchmark, CodeExecutor, CodeSettings, CodeTask, PythonSandbox},
    protocol::{Error, Result, Sizes},
};

/// Which training tasks are taken does not depend on a run's seed: the partition is part of the benchmark.
const PARTITION_SEED: u64 = 42;
/// How much evidence a prompt may hold. A token has a character at least, so this bounds what evidence can cost.
const EVIDENCE: MemoryBudget = MemoryBudget {
    memory_chars: 1_600,
    total_chars: 4_800,
};

/// BigCodeBench with a language model that writes programs.
pub struct BigCodeBenchSuite {
    actor: Actor,
    partition: Partition,
}

impl BigCodeBenchSuite {
    /// Reads the tasks and parts them: seed and runtime tasks by lot from the tasks to learn from, the held-out tasks for the
    /// evaluation, the hard ones among them once more. Probe curves are measured on the held-out tasks, as in the paper.
    /// `wanted` says which tasks are used at all.
    ///
    /// # Errors
    /// The tasks can not be read, none is wanted, or what the model does can not be kept.
    pub fn load(
        folder: &Path,
        sizes: &Sizes,
        agent: &ModelAgent,
        sandbox: PythonSandbox,
        wanted: impl Fn(&CodeTask) -> bool,
    ) -> Result<Self> {
        let benchmark = Benchmark::load(folder)?;
        let mut hash = Sha256::new();
        for task in benchmark.tasks() {
            for text in [&task.task_id, &task.instruct_prompt, &task.test] {
                hash.update(text.as_bytes());
                hash.update([0]);
            }
        }
        let mut train: Vec<Task> = benchmark
            .train()
            .filter(|task| wanted(task))
            .map(CodeTask::task)
            .collect();
        train.shuffle(&mut ChaCha8Rng::seed_from_u64(PARTITION_SEED));
        let mut train = train.into_iter();
        let held_out: Vec<&CodeTask> = benchmark
            .held_out()
            .filter(|task| wanted(task))
            .take(sizes.evaluation.unwrap_or(usize::MAX))
            .collect();
        if held_out.is_empty() {
            return Err(Error::Input("bigcodebench: no held-out task is asked for".into()));
        }
        let hard = held_out.iter().filter(|task| benchmark.is_hard(task));
        let parts = [
            ("all", held_out.iter().map(|task| task.task()).collect::<Vec<_>>()),
            ("hard", hard.map(|task| task.task()).collect()),
        ];
        let partition = Partition {
            seed: train.by_ref().take(sizes.seed).collect(),
            runtime: train.take(sizes.runtime).collect(),
            validation: parts[0].1.clone(),
            evaluation: parts
                .into_iter()
                .filter(|(_, tasks)| !tasks.is_empty())
                .map(|(name, tasks)| Part {
                    name: name.to_owned(),
                    tasks,
                })
                .collect(),
            digest: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let settings = CodeSettings {
            sampling: agent.sampling.clone(),
            budget: EVIDENCE,
        };
        let tasks = benchmark.tasks().iter().filter(|task| wanted(task)).cloned();
        let executor = CodeExecutor::new(Arc::clone(&agent.model), sandbox, tasks, settings);
        let keeping = agent.keeping(Arc::new(executor));
        Ok(Self {
            actor: Actor {
                executor: keeping.map_err(|error| Error::Execution(error.to_string()))?,
                title: format!("language model {}", agent.model.name()),
                settings: agent.settings(),
            },
            partition,
        })
    }
}

impl Suite for BigCodeBenchSuite {
    fn name(&self) -> &'static str {
        "bigcodebench"
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }

    fn partition(&self) -> &Partition {
        &self.partition
    }

    fn utility(&self) -> UtilitySettings {
        UtilitySettings {
            cost_max: EVIDENCE.total_chars as f64,
            ..UtilitySettings::default()
        }
    }

    fn cost_unit(&self) -> &'static str {
        "evidence tokens"
    }

    fn memories_max(&self) -> usize {
        3
    }

    fn domain(&self) -> Domain {
        Domain::Code
    }

    fn lessons(&self, experience: &Experience) -> Vec<Lesson> {
        lessons::lessons(experience)
    }

    fn transcript(&self, experience: &Experience) -> Option<String> {
        lessons::transcript(experience)
    }
}
