//! One evaluation under way.

use std::{path::PathBuf, sync::Arc};

use rand::RngExt;
use serde_json::json;
use tokio::sync::OnceCell;
use upliftmem_agent::Writer;
use upliftmem_core::{Purpose, Task};
use upliftmem_engine::{EngineSettings, ExecutionSettings, RetrievalSettings, Seeds};
use upliftmem_scorer::{CompactSettings, Embedding, embedder::Embedder};

use super::{Result, Sizes, scores::PartScores};
use crate::{
    suite::{Experience, Suite, Wanted, execute_all},
    systems::{Sources, Steps},
};

/// What an evaluation tells while it goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something begins that takes so many executions.
    Step {
        /// What it is, in words.
        what: String,
        /// Executions it wants.
        executions: usize,
    },
    /// So many executions ended.
    Executed(usize),
    /// A figure was written, as SVG.
    Figure {
        /// Its file.
        file: PathBuf,
        /// What is in it.
        svg: String,
    },
    /// Something worth a line.
    Note(String),
}

/// Called with every [`Event`].
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// One evaluation under way.
pub struct Bench {
    /// The benchmark.
    pub suite: Arc<dyn Suite>,
    /// Vectors of texts.
    pub embedder: Arc<dyn Embedder>,
    /// How much of it.
    pub sizes: Sizes,
    /// Times that every task of the evaluation is executed with every method.
    pub runs: usize,
    /// Randomness of everything.
    pub seed: u64,
    /// Where stores, results, tables and figures go.
    pub folder: PathBuf,
    /// How UpliftMem retrieves, acquires and trains.
    pub engine: EngineSettings,
    /// How its scorer learns.
    pub compact: CompactSettings,
    /// Whether UpliftMem writes memories while it trains, each validated by executions. Paper: app. writing.
    pub writes: bool,
    /// What writes them; without one, the suite's lessons are proposed.
    pub writer: Option<Arc<dyn Writer>>,
    /// The model that does steps of memory systems; without one, rules do them.
    pub steps: Option<Arc<Steps>>,
    /// Whom to tell.
    pub on_event: OnEvent,
    experiences: OnceCell<Vec<Experience>>,
}

impl Bench {
    /// An evaluation of a suite with the settings that the suite asks for.
    pub fn new(suite: Arc<dyn Suite>, embedder: Arc<dyn Embedder>, sizes: Sizes, folder: PathBuf) -> Self {
        let engine = EngineSettings {
            retrieval: RetrievalSettings {
                memories_max: suite.memories_max(),
                ..RetrievalSettings::default()
            },
            utility: suite.utility(),
            execution: ExecutionSettings {
                concurrency: 64,
                ..ExecutionSettings::default()
            },
            ..EngineSettings::default()
        };
        let compact = CompactSettings {
            member_cost: suite.member_cost(),
            ..CompactSettings::default()
        };
        Self {
            suite,
            embedder,
            sizes,
            runs: 3,
            seed: 1,
            folder,
            engine,
            compact,
            writes: false,
            writer: None,
            steps: None,
            on_event: Arc::new(|_| {}),
            experiences: OnceCell::new(),
        }
    }

    /// What memory systems are built from.
    pub(super) fn sources<'s>(&'s self, experiences: &'s [Experience]) -> Sources<'s> {
        Sources {
            suite: self.suite.as_ref(),
            embedder: &self.embedder,
            steps: self.steps.as_deref(),
            experiences,
        }
    }

    pub(super) fn tell(&self, event: Event) {
        (self.on_event)(event);
    }

    /// Vectors of the contexts of tasks.
    pub(super) fn embed(&self, tasks: &[Task]) -> Result<Vec<Embedding>> {
        let texts: Vec<&str> = tasks.iter().map(|task| task.context.as_str()).collect();
        Ok(self.embedder.embed(&texts)?)
    }

    /// The randomness of one execution: the same for all methods.
    pub(super) fn execution_seed(&self, what: &str, task: &Task, run: usize) -> u64 {
        Seeds::new(what, self.seed).rng(&task.name, run as u64).random()
    }

    /// Executes tasks with these memories each, and says what came of it.
    pub(super) async fn live(
        &self,
        what: &str,
        tasks: &[Task],
        memories: Vec<Vec<String>>,
        run: usize,
    ) -> Result<Vec<Experience>> {
        let purpose = if memories.iter().all(Vec::is_empty) {
            Purpose::Reference
        } else {
            Purpose::Retrieval
        };
        let wanted = tasks.iter().zip(memories).map(|(task, memories)| Wanted {
            seed: self.execution_seed(what, task, run),
            task: task.clone(),
            memories,
            purpose,
        });
        let told = |count| self.tell(Event::Executed(count));
        let ended = execute_all(&self.suite.executor(), wanted.collect(), &told).await?;
        let lived = tasks.iter().zip(ended).map(|(task, execution)| Experience {
            task: task.clone(),
            execution,
        });
        Ok(lived.collect())
    }

    /// Plays without memory of all seed tasks, then of all runtime tasks: what memory systems are built from, unless tasks bring
    /// that along.
    pub(super) async fn experiences(&self) -> Result<&[Experience]> {
        let all = self.experiences.get_or_try_init(|| async {
            if self.suite.has_own_stores() {
                return Ok(Vec::new());
            }
            let tasks: Vec<Task> = [self.suite.seed_tasks(), self.suite.runtime_tasks()].concat();
            self.tell(Event::Step {
                what: "experience".into(),
                executions: tasks.len(),
            });
            let nothing = vec![Vec::new(); tasks.len()];
            self.live("experience", &tasks, nothing, 0).await
        });
        Ok(all.await?)
    }

    /// Those of the seed tasks.
    pub(super) async fn seed_experiences(&self) -> Result<&[Experience]> {
        let all = self.experiences().await?;
        Ok(&all[..self.suite.seed_tasks().len().min(all.len())])
    }

    /// Executes tasks with the memories that a method gives each, as often as there are runs; every play is written down
    /// under this name, if there is one.
    pub(super) async fn score(
        &self,
        what: &str,
        tasks: &[Task],
        memories: &[Vec<String>],
        traced: Option<&str>,
    ) -> Result<PartScores> {
        let runs = self.runs;
        self.tell(Event::Step {
            what: what.to_owned(),
            executions: tasks.len() * runs,
        });
        let mut outcomes = Vec::with_capacity(runs);
        let mut behaviours = Vec::new();
        let mut traces = String::new();
        for run in 0..runs {
            let ended = self.live("evaluation", tasks, memories.to_vec(), run).await?;
            let of = |ended: &Experience| (ended.execution.performance.get(), ended.execution.cost.get());
            outcomes.push(ended.iter().map(of).collect());
            let shown = |ended: &Experience| ended.execution.diagnostics.get("behaviour")?.as_bool();
            if let Some(shown) = ended.iter().map(shown).collect() {
                behaviours.push(shown);
            }
            for (ended, memories) in ended.iter().zip(memories) {
                traces += &format!("{}\n", trace(ended, run, memories));
            }
        }
        if let Some(name) = traced {
            self.write(&self.folder.join("traces").join(format!("{name}.jsonl")), &traces)?;
        }
        Ok(PartScores {
            outcomes,
            behaviours,
            sizes: memories.iter().map(Vec::len).collect(),
        })
    }
}

/// A play as a line of a file.
fn trace(ended: &Experience, run: usize, memories: &[String]) -> serde_json::Value {
    let actions = ended.execution.trajectory.iter().map(|step| step.action.as_str());
    json!({
        "task": ended.task.name,
        "run": run,
        "memories": memories,
        "performance": ended.execution.performance.get(),
        "cost": ended.execution.cost.get(),
        "actions": actions.collect::<Vec<_>>(),
    })
}
