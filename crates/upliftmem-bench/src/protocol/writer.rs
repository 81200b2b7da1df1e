//! A writer of memories that needs no language model: what it proposes are the suite's lessons of an episode.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Map;
use upliftmem_agent::{
    Draft, Execution, Writer, WriterError,
    chat::Usage,
    prompts::{Episode, ValidatedMemory},
};
use upliftmem_core::{Cost, Performance, Task};

use crate::suite::{Experience, Lesson, LessonKind, Suite};

/// Writes down how a task was solved or what went wrong; a version that did not help is replaced by what else there is to
/// say of the episode in which it was tried.
pub(super) struct LessonWriter {
    suite: Arc<dyn Suite>,
}

impl LessonWriter {
    pub(super) fn new(suite: Arc<dyn Suite>) -> Self {
        Self { suite }
    }

    /// What an episode says: how or why first, then facts.
    fn lessons(&self, episode: Episode<'_>) -> Result<Vec<Lesson>, WriterError> {
        let nothing = |problem: String| WriterError::Malformed {
            problem,
            said: String::new(),
            usage: Usage::default(),
        };
        let performance = Performance::new(episode.outcome.performance);
        let cost = Cost::new(episode.trajectory.len() as f64);
        let experience = Experience {
            task: Task::new("episode", episode.task.context()),
            execution: Execution {
                performance: performance.map_err(|error| nothing(error.to_string()))?,
                cost: cost.map_err(|error| nothing(error.to_string()))?,
                trajectory: episode.trajectory.to_vec(),
                diagnostics: Map::new(),
            },
        };
        let mut lessons = self.suite.lessons(&experience);
        lessons.sort_by_key(|lesson| lesson.kind == LessonKind::Fact);
        Ok(lessons)
    }

    fn propose(&self, episode: Episode<'_>, tried: Option<&str>) -> Result<Draft, WriterError> {
        let lessons = self.lessons(episode)?;
        let found = lessons
            .into_iter()
            .find(|lesson| Some(lesson.text.as_str()) != tried);
        let lesson = found.ok_or_else(|| WriterError::Malformed {
            problem: "the episode says nothing more".into(),
            said: String::new(),
            usage: Usage::default(),
        })?;
        Ok(Draft {
            text: lesson.text,
            usage: Usage::default(),
        })
    }
}

#[async_trait]
impl Writer for LessonWriter {
    fn name(&self) -> &'static str {
        "lessons"
    }

    async fn write(&self, episode: Episode<'_>, _seed: u64) -> Result<Draft, WriterError> {
        self.propose(episode, None)
    }

    async fn revise(
        &self,
        episode: Episode<'_>,
        memory: ValidatedMemory<'_>,
        _seed: u64,
    ) -> Result<Draft, WriterError> {
        self.propose(episode, Some(memory.text))
    }
}
