//! Memories that are written from episodes: validated, revised, admitted or refused, and never twice.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use std::sync::{
    Arc, Mutex,
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
use upliftmem_store::{
    EntryKind, JournalEntry, JournalFilter, MemoryFilter, MemoryStatus, SqlitePlace, Store, StoredMemory,
};

use support::{Mood, fill, open, scope, settings, trainer};

/// A task succeeds with a memory that says "help with" and its word, a simple one without any. Every episode shows one step.
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

    fn steps_max(&self) -> Option<usize> {
        Some(3)
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
            .any(|memory| memory.text.contains(&wanted))
            || request.task.context.contains("simple");
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

/// What saying nothing took.
const PAID: Usage = Usage {
    prompt_tokens: 40,
    completion_tokens: 2,
    cached_tokens: 0,
};

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
                usage: PAID,
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

/// What a run recorded about its drafts.
async fn records(store: &Arc<dyn Store>) -> Vec<serde_json::Value> {
    let filter = JournalFilter {
        kind: Some(EntryKind::TrainingEvent),
        task: None,
        after: 0,
    };
    let mut found = Vec::new();
    for entry in store.list_entries(&scope(), filter, 100).await.unwrap() {
        if let JournalEntry::TrainingEvent(event) = entry.entry
            && let Some(records) = event.detail.get("records").and_then(|records| records.as_array())
        {
            found.extend(records.clone());
        }
    }
    found
}

#[tokio::test]
async fn what_came_to_nothing_is_counted_too() {
    let (store, ..) = run(SqlitePlace::Memory, &[]).await;
    let records = records(&store).await;
    let mute: Vec<_> = records
        .iter()
        .filter(|record| record["versions"].as_array().unwrap().is_empty())
        .collect();
    assert_eq!(mute.len(), 2);
    for record in mute {
        assert_eq!(record["tokens"], 42, "{record}");
    }
}

/// A task with what a writer was shown about it.
type Shown = (String, Vec<String>, Option<usize>);

/// Says of a task what it is told to; has nothing to add later. Remembers what it was shown.
#[derive(Default)]
struct Scribe {
    says: Vec<(&'static str, &'static str)>,
    shown: Mutex<Vec<Shown>>,
    at_work: AtomicU64,
    most: AtomicU64,
}

#[async_trait]
impl Writer for Scribe {
    fn name(&self) -> &str {
        "scribe"
    }

    async fn write(&self, episode: Episode<'_>, _: u64) -> Result<Draft, WriterError> {
        let working = self.at_work.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(working, Ordering::SeqCst);
        let task = episode.task.context().to_owned();
        // The later it is asked, the sooner it answers.
        let place = self.says.iter().position(|(of, _)| *of == task).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(40 / (place as u64 + 1))).await;
        self.at_work.fetch_sub(1, Ordering::SeqCst);
        let shown = (task, episode.references.to_vec(), episode.steps_max);
        self.shown.lock().unwrap().push(shown);
        Ok(Draft {
            text: self.says[place].1.to_owned(),
            usage: Usage::default(),
        })
    }

    async fn revise(&self, _: Episode<'_>, _: ValidatedMemory<'_>, _: u64) -> Result<Draft, WriterError> {
        Err(WriterError::Malformed {
            problem: "nothing to add".into(),
            said: String::new(),
            usage: PAID,
        })
    }
}

/// A trainer whose scribe writes about these tasks.
fn with_scribe(
    store: &Arc<dyn Store>,
    executed: &Arc<AtomicU64>,
    stops_after: u64,
    says: &[(&'static str, &'static str)],
) -> (Trainer, Arc<Scribe>) {
    let scribe = Arc::new(Scribe {
        says: says.to_vec(),
        ..Scribe::default()
    });
    let mut trainer = apprentice(store, &(Arc::clone(executed), Arc::default()), stops_after);
    trainer.stream = (0..)
        .zip(says)
        .map(|(number, (context, _))| {
            let mut task = Task::new(format!("t{number}"), *context);
            task.metadata.insert("task_type".into(), "call".into());
            task
        })
        .collect();
    trainer.writing = Some(Writing {
        writer: Arc::clone(&scribe) as Arc<dyn Writer>,
        settings: WritingSettings::default(),
    });
    (trainer, scribe)
}

/// A whole run of it.
async fn scribbled(
    says: &[(&'static str, &'static str)],
    change: impl FnOnce(&mut Trainer),
) -> (Arc<dyn Store>, Trained, Arc<Scribe>) {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    let (mut trainer, scribe) = with_scribe(&store, &Arc::default(), 0, says);
    change(&mut trainer);
    let trained = trainer.train(&|_| {}).await.unwrap();
    (store, trained, scribe)
}

fn active(memories: &[StoredMemory]) -> Vec<&str> {
    memories
        .iter()
        .filter(|memory| memory.status == MemoryStatus::Active)
        .map(|memory| memory.memory.text.as_str())
        .collect()
}

#[tokio::test]
async fn of_two_drafts_of_a_batch_that_say_the_same_one_is_admitted() {
    let first =
        "This is how to help with subject7 at once: be polite, be quick and stay honest all the while.";
    let second = "Please, this is how to help with subject7 at once: be polite, be quick and stay honest all the while.";
    let says = [
        ("A call about subject7", first),
        ("Another call about subject7", second),
    ];
    let (store, trained, _) = scribbled(&says, |_| {}).await;
    let memories = written(&store).await;
    assert_eq!(memories.len(), 2);
    assert_eq!(active(&memories), [first]);
    // Both were tried, and both are labels.
    let ledger = store.ledger(&scope()).await.unwrap();
    assert_eq!(ledger.line(Purpose::Validation).executions, 2);
    let validated = trained.state.labels.iter().filter(|label| {
        matches!(label, upliftmem_engine::Labelled::Observation(seen) if seen.purpose == Purpose::Validation)
    });
    assert_eq!(validated.count(), 2);
    let ends: Vec<_> = records(&store).await;
    assert!(
        ends[1]["end"].as_str().unwrap().contains("says the same"),
        "{ends:?}"
    );
}

#[tokio::test]
async fn what_did_not_help_elsewhere_may_help_here() {
    let text = "This is how to help with beta now.";
    let says = [("A call about alpha", text), ("A call about beta", text)];
    for batch in [1, 7] {
        let (store, ..) = scribbled(&says, |trainer| trainer.settings.training.batch = batch).await;
        let memories = written(&store).await;
        assert_eq!(memories.len(), 1, "in batches of {batch}");
        assert_eq!(active(&memories), [text], "in batches of {batch}");
        let ledger = store.ledger(&scope()).await.unwrap();
        assert_eq!(ledger.line(Purpose::Validation).executions, 2);
    }
}

#[tokio::test]
async fn a_run_that_was_stopped_tries_the_same_text_again_and_executes_nothing_twice() {
    let text = "This is how to help with beta now.";
    let says = [("A call about alpha", text), ("A call about beta", text)];
    let (whole, trained, _) = scribbled(&says, |_| {}).await;
    let all = whole.ledger(&scope()).await.unwrap().training().executions;
    for stop in 1..all {
        let store = open(SqlitePlace::Memory).await;
        fill(&store).await;
        let executed = Arc::new(AtomicU64::new(0));
        let (stopped, _) = with_scribe(&store, &executed, stop, &says);
        assert!(stopped.train(&|_| {}).await.is_err(), "not stopped after {stop}");
        let (resumed, _) = with_scribe(&store, &executed, 0, &says);
        let again = resumed.train(&|_| {}).await.unwrap();
        assert_eq!(again.state.labels, trained.state.labels, "stopped after {stop}");
        assert_eq!(executed.load(Ordering::SeqCst), all, "stopped after {stop}");
        assert_eq!(active(&written(&store).await), [text], "stopped after {stop}");
    }
}

#[tokio::test]
async fn drafts_of_a_batch_are_asked_for_at_once_and_kept_in_order() {
    let says = [
        ("A call about alpha", "This is how to help with alpha now."),
        ("A call about beta", "Here is the way to help with beta quickly."),
        ("A call about gamma", "Nobody knows how gamma works, be kind."),
        ("A call about delta", "What you say is: we help with delta soon."),
    ];
    let (one, alone, slow) = scribbled(&says, |trainer| trainer.settings.execution.concurrency = 1).await;
    let (many, together, quick) =
        scribbled(&says, |trainer| trainer.settings.execution.concurrency = 3).await;
    assert_eq!(slow.most.load(Ordering::SeqCst), 1);
    assert_eq!(quick.most.load(Ordering::SeqCst), 3);
    assert_eq!(records(&one).await, records(&many).await);
    assert_eq!(alone.state.labels, together.state.labels);
    let texts: Vec<String> = written(&many)
        .await
        .into_iter()
        .map(|memory| memory.memory.text)
        .collect();
    assert_eq!(texts, says.map(|(_, text)| text));
}

#[tokio::test]
async fn a_writer_is_shown_what_is_known_of_similar_tasks() {
    let says = [
        (
            "A simple call about the kettle",
            "A kettle boils water in a minute.",
        ),
        (
            "A call about another kettle",
            "Kettles are heavy when they are full.",
        ),
    ];
    let (_, _, scribe) = scribbled(&says, |trainer| trainer.settings.training.batch = 1).await;
    let shown = scribe.shown.lock().unwrap();
    let (task, references, steps_max) = shown.last().unwrap();
    assert_eq!((task.as_str(), *steps_max), (says[1].0, Some(3)));
    assert!(references.len() <= 4, "{references:?}");
    assert!(
        references
            .iter()
            .any(|text| text.contains("how to repair a kettle")),
        "{references:?}"
    );
    let done = references.last().unwrap();
    assert!(
        done.contains("same type") && done.contains(says[0].0) && done.contains("Observation: done"),
        "{done}"
    );
}
