//! Memories that are written from episodes: validated, revised, admitted or refused, and never twice.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use upliftmem_agent::{
    Draft, Execution, ExecutionRequest, Executor, ExecutorError, Writer, WriterError,
    chat::Usage,
    prompts::{Episode, ValidatedMemory},
};
use upliftmem_core::{Cost, Performance, Purpose, Task, TrajectoryStep};
use upliftmem_engine::{Trained, Trainer, Writing, WritingSettings};
use upliftmem_store::{MemoryFilter, MemoryStatus, SqlitePlace, Store, StoredMemory};

use support::{Mood, fill, open, scope, settings, trainer};

/// A task succeeds with a memory that says "help with" and its word. Every episode shows one step.
struct Helpdesk {
    executed: Arc<AtomicU64>,
    /// After so many it stops; 0 never does.
    stops_after: u64,
}

#[async_trait]
impl Executor for Helpdesk {
    fn name(&self) -> &str {
        "helpdesk"
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        if self.stops_after > 0 && self.executed.load(Ordering::SeqCst) >= self.stops_after {
            return Err(ExecutorError::Unavailable("closed".into()));
        }
        self.executed.fetch_add(1, Ordering::SeqCst);
        let word = request.task.context.split_whitespace().last().unwrap();
        let wanted = format!("help with {word}");
        let helped = request
            .memories
            .iter()
            .any(|memory| memory.text.contains(&wanted));
        Ok(Execution {
            performance: Performance::new(if helped { 1.0 } else { 0.0 }).unwrap(),
            cost: Cost::new(1.0).unwrap(),
            trajectory: vec![TrajectoryStep {
                action: "try".into(),
                observation: if helped { "done" } else { "not done" }.into(),
            }],
            diagnostics: serde_json::Map::new(),
        })
    }
}

/// Begins with small talk. Some tasks it understands after a revision, some never, about some it has nothing to say.
struct Apprentice {
    asked: Arc<AtomicU64>,
}

impl Apprentice {
    fn draft(&self, text: String) -> Result<Draft, WriterError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(Draft {
            text,
            usage: Usage::default(),
        })
    }
}

#[async_trait]
impl Writer for Apprentice {
    fn name(&self) -> &str {
        "apprentice"
    }

    async fn write(&self, episode: Episode<'_>, _: u64) -> Result<Draft, WriterError> {
        let task = episode.task.context();
        if task.contains("mute") {
            return Err(WriterError::Malformed {
                problem: "nothing".into(),
                said: "...".into(),
            });
        }
        let word = task.split_whitespace().last().unwrap();
        self.draft(format!(
            "Customers like to talk about {word} and its long history."
        ))
    }

    async fn revise(
        &self,
        episode: Episode<'_>,
        memory: ValidatedMemory<'_>,
        seed: u64,
    ) -> Result<Draft, WriterError> {
        assert_eq!((memory.utility, memory.baseline), (0.0, 0.0));
        assert_eq!(episode.trajectory[0].observation, "not done");
        let word = episode.task.context().split_whitespace().last().unwrap();
        if episode.task.context().contains("hard") {
            return self.draft(format!(
                "Version {seed} of a rumour on {word}, told by nobody in particular."
            ));
        }
        self.draft(format!("This is how to help with {word} at once."))
    }
}

fn tasks() -> Vec<Task> {
    ["easy", "hard", "mute", "easy", "hard", "mute"]
        .iter()
        .enumerate()
        .map(|(number, kind)| {
            Task::new(
                format!("t{number}"),
                format!("A {kind} call about subject{number}"),
            )
        })
        .collect()
}

fn apprentice(
    store: &Arc<dyn Store>,
    counters: &(Arc<AtomicU64>, Arc<AtomicU64>),
    stops_after: u64,
) -> Trainer {
    let mut settings = settings();
    settings.training.max_executions = 0;
    let mut trainer = trainer(store, &Arc::new(Mood::default()), settings);
    trainer.rollouts.executor = Arc::new(Helpdesk {
        executed: Arc::clone(&counters.0),
        stops_after,
    });
    trainer.seed_tasks = Vec::new();
    trainer.stream = tasks();
    trainer.writing = Some(Writing {
        writer: Arc::new(Apprentice {
            asked: Arc::clone(&counters.1),
        }),
        settings: WritingSettings::default(),
    });
    trainer
}

async fn written(store: &Arc<dyn Store>) -> Vec<StoredMemory> {
    let all = store
        .list_memories(&scope(), MemoryFilter::default(), 500)
        .await
        .unwrap();
    all.into_iter()
        .filter(|memory| memory.provenance.contains_key("writer"))
        .collect()
}

async fn run(place: SqlitePlace, stops: &[u64]) -> (Arc<dyn Store>, Trained, u64, u64) {
    let store = open(place).await;
    fill(&store).await;
    let counters = (Arc::default(), Arc::default());
    for &stop in stops {
        let stopped = apprentice(&store, &counters, stop).train(&|_| {}).await;
        assert!(stopped.is_err(), "not stopped after {stop}");
    }
    let trained = apprentice(&store, &counters, 0).train(&|_| {}).await.unwrap();
    let (executed, asked) = (
        counters.0.load(Ordering::SeqCst),
        counters.1.load(Ordering::SeqCst),
    );
    (store, trained, executed, asked)
}

#[tokio::test]
async fn only_what_helps_is_admitted_and_every_validation_is_counted() {
    let (store, trained, executed, asked) = run(SqlitePlace::Memory, &[]).await;
    let memories = written(&store).await;
    let active: Vec<&str> = memories
        .iter()
        .filter(|memory| memory.status == MemoryStatus::Active)
        .map(|memory| memory.memory.text.as_str())
        .collect();
    // Two easy tasks: one revision each. Two hard ones: three revisions each, none helps. Two mute ones: nothing.
    assert_eq!(
        active,
        [
            "This is how to help with subject0 at once.",
            "This is how to help with subject3 at once."
        ]
    );
    assert_eq!(memories.len(), 2 * 2 + 2 * 4);
    assert_eq!(asked, 2 * 2 + 2 * 4);
    let ledger = store.ledger(&scope()).await.unwrap();
    assert_eq!(ledger.line(Purpose::Validation).executions, 2 * 2 + 2 * 4);
    assert_eq!(ledger.training().executions, executed);
    // One label for each memory, admitted or not.
    let validated = trained
        .state
        .labels
        .iter()
        .filter(|label| {
            matches!(label, upliftmem_engine::Labelled::Observation(seen) if seen.purpose == Purpose::Validation)
        })
        .count();
    assert_eq!(validated, 4);
}

#[tokio::test]
async fn a_run_that_was_stopped_writes_and_validates_nothing_twice() {
    let (whole, trained, executed, asked) = run(SqlitePlace::Memory, &[]).await;
    let (parts, again, in_parts, asked_in_parts) = run(SqlitePlace::Memory, &[3, 9, 13, 16]).await;
    assert_eq!((executed, asked), (in_parts, asked_in_parts));
    assert_eq!(trained.state.labels, again.state.labels);
    let texts = |memories: Vec<StoredMemory>| -> Vec<(String, MemoryStatus)> {
        memories
            .into_iter()
            .map(|memory| (memory.memory.text, memory.status))
            .collect()
    };
    assert_eq!(texts(written(&whole).await), texts(written(&parts).await));
}
