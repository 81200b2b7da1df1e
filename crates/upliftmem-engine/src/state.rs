//! Where a run stands: read from the journal, so that a run that was killed goes on as if it had not been.
//!
//! Every step of Algorithm 1 ends with one transaction that holds all its labels and the fact that it is done. What
//! is in memory is a fold over these entries.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use upliftmem_core::{
    MemoryId, Observation, Reference, RetrievalPath, Schedule, ScheduleStep, TaskId, WindowEntry,
};
use upliftmem_store::{EntryKind, JournalEntry, RecordedPath, Scope, Store, TrainingEvent};

use crate::{
    error::{Error, Result},
    journal::each_entry,
    settings::RetrievalSettings,
};

/// One label in the order of the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum Labelled {
    /// A task without memory.
    Reference(Reference),
    /// A task with a set.
    Observation(Observation),
}

/// What the scorer has learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learned {
    /// Number of the version; 0 knows nothing.
    pub version: u64,
    /// Labels it rests on, from the first.
    pub labels: usize,
    /// Labels that its hyper-parameters were chosen on, from the first.
    pub fitted: usize,
}

/// All that a run has done.
#[derive(Debug, Clone)]
pub struct RunState {
    run: String,
    /// What is due.
    pub schedule: Schedule,
    /// Every label of the scope, in order. Paper: D_v, and the references.
    pub labels: Vec<Labelled>,
    /// The reference of each task.
    pub references: BTreeMap<TaskId, Reference>,
    /// Retrievals since the last acquisition. Paper: W.
    pub window: Vec<WindowEntry>,
    /// Paths since the last update, with what they led to. Paper: D_pi.
    pub paths: Vec<(TaskId, RetrievalPath)>,
    /// Memories that this run wrote and admitted.
    pub admitted: Vec<MemoryId>,
    /// What the active scorer has learned from.
    pub learned: Learned,
    /// Every label that was taken, so that none is taken twice.
    seen: BTreeSet<u128>,
    executor: String,
    settings: RetrievalSettings,
}

impl RunState {
    /// A run that has done nothing.
    pub fn new(run: &str, schedule: Schedule, executor: &str, settings: &RetrievalSettings) -> Self {
        Self {
            run: run.to_owned(),
            schedule,
            labels: Vec::new(),
            references: BTreeMap::new(),
            window: Vec::new(),
            paths: Vec::new(),
            admitted: Vec::new(),
            learned: Learned::default(),
            seen: BTreeSet::new(),
            executor: executor.to_owned(),
            settings: settings.clone(),
        }
    }

    /// Goes through the journal.
    pub async fn load(&mut self, store: &dyn Store, scope: &Scope) -> Result<()> {
        each_entry(store, scope, None, |entry| self.take(&entry)).await
    }

    /// Takes one entry of the journal.
    pub fn take(&mut self, entry: &JournalEntry) -> Result<()> {
        match entry {
            JournalEntry::Reference(reference) if reference.executor == self.executor => {
                if !self.seen.insert(reference.id.as_u128()) {
                    return Ok(());
                }
                self.references
                    .entry(reference.task)
                    .or_insert_with(|| reference.clone());
                self.labels.push(Labelled::Reference(reference.clone()));
            }
            // Outcomes of another executor are not comparable: their references were not taken.
            JournalEntry::Observation(observation)
                if self.seen.contains(&observation.reference.as_u128())
                    && self.seen.insert(observation.id.as_u128()) =>
            {
                self.labels.push(Labelled::Observation(observation.clone()));
            }
            JournalEntry::Path(recorded) if recorded.run == self.run => self.take_path(recorded),
            JournalEntry::TrainingEvent(event) => return self.take_event(event),
            _ => {}
        }
        Ok(())
    }

    fn take_path(&mut self, recorded: &RecordedPath) {
        self.window.push(WindowEntry::of_path(
            recorded.task,
            recorded.pool.clone(),
            &recorded.path,
            self.settings.limits(),
        ));
        self.paths.push((recorded.task, recorded.path.clone()));
    }

    fn take_event(&mut self, event: &TrainingEvent) -> Result<()> {
        let Some(step) = event.key.strip_prefix(&format!("{}/", self.run)) else {
            return Ok(());
        };
        let run = self.run.clone();
        let damaged = |problem: String| Error::Journal {
            run: run.clone(),
            problem,
        };
        let number = |name: &str| {
            event
                .detail
                .get(name)
                .and_then(Value::as_u64)
                .ok_or_else(|| damaged(format!("event {} has no {name}", event.key)))
        };
        let (word, _) = step.split_once('/').unwrap_or((step, ""));
        match word {
            "warm-up" => self.advance(ScheduleStep::WarmUp)?,
            "tasks" => {
                let last = number("last")?;
                while let ScheduleStep::Task(count) = self.schedule.due() {
                    if count > last {
                        break;
                    }
                    self.advance(ScheduleStep::Task(count))?;
                }
            }
            "acquire" => {
                self.advance(ScheduleStep::Acquire(number("count")?))?;
                self.window.clear();
            }
            "update" => {
                self.learned = Learned {
                    version: number("version")?,
                    labels: usize::try_from(number("labels")?).unwrap_or(usize::MAX),
                    fitted: usize::try_from(number("fitted")?).unwrap_or(usize::MAX),
                };
                self.paths.clear();
                // The update that ends warm-up, or a run whose budget is spent, is no step of its own.
                if let Some(count) = event.detail.get("count").and_then(Value::as_u64) {
                    self.advance(ScheduleStep::Update(count))?;
                }
            }
            "write" => {
                let admitted = event.detail.get("admitted").cloned().unwrap_or_default();
                let admitted: Vec<MemoryId> =
                    serde_json::from_value(admitted).map_err(|error| damaged(error.to_string()))?;
                self.admitted.extend(admitted);
            }
            "start" => {}
            other => return Err(damaged(format!("{other:?} is no step"))),
        }
        if self.learned.labels > self.labels.len() || self.learned.fitted > self.learned.labels {
            return Err(damaged(format!(
                "event {} counts labels that are not there",
                event.key
            )));
        }
        Ok(())
    }

    fn advance(&mut self, step: ScheduleStep) -> Result<()> {
        self.schedule
            .complete(step)
            .map(drop)
            .map_err(|error| Error::Journal {
                run: self.run.clone(),
                problem: error.to_string(),
            })
    }

    /// An event of this run.
    pub fn event(&self, step: &str, event: &str, detail: Value) -> JournalEntry {
        let detail = match detail {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => [("value".to_owned(), other)].into_iter().collect(),
        };
        JournalEntry::TrainingEvent(TrainingEvent {
            key: format!("{}/{step}", self.run),
            event: event.to_owned(),
            detail,
        })
    }

    /// The event that the scorer has learned.
    pub fn update_event(
        &self,
        learned: Learned,
        count: Option<u64>,
        mut report: Map<String, Value>,
    ) -> JournalEntry {
        report.insert("version".into(), json!(learned.version));
        report.insert("labels".into(), json!(learned.labels));
        report.insert("fitted".into(), json!(learned.fitted));
        if let Some(count) = count {
            report.insert("count".into(), json!(count));
        }
        self.event(
            &format!("update/{}", learned.version),
            "update",
            Value::Object(report),
        )
    }

    /// Number of the next task of the stream; tasks before it are done.
    pub fn tasks_done(&self) -> u64 {
        match self.schedule.due() {
            ScheduleStep::WarmUp => 0,
            ScheduleStep::Task(count) => count - 1,
            ScheduleStep::Acquire(count) | ScheduleStep::Update(count) => count,
            ScheduleStep::Finished => self.schedule.rule().tasks * self.schedule.rule().epochs,
        }
    }
}

/// Checks that a run is continued with what it was started with, and notes what it is started with if it is new.
pub(crate) async fn start_run(
    store: &dyn Store,
    scope: &Scope,
    state: &RunState,
    settings: &Map<String, Value>,
) -> Result<()> {
    let key = format!("{}/start", state.run);
    if let Some(found) = store.entry(scope, EntryKind::TrainingEvent, &key).await? {
        let JournalEntry::TrainingEvent(event) = &found.entry else {
            return Ok(());
        };
        for (setting, now) in settings {
            let before = event.detail.get(setting).unwrap_or(&Value::Null);
            if before != now {
                return Err(Error::OtherSettings {
                    run: state.run.clone(),
                    setting: setting.clone(),
                    before: before.to_string(),
                    now: now.to_string(),
                });
            }
        }
        return Ok(());
    }
    let entry = state.event("start", "start", Value::Object(settings.clone()));
    store
        .append(scope, upliftmem_store::Timestamp::now(), vec![entry])
        .await?;
    Ok(())
}
