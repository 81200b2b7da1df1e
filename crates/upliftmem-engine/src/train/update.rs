//! Updates: the scorer learns from everything so far.

use std::sync::Arc;

use serde_json::{Map, Value};
use upliftmem_store::{JournalEntry, ScorerVersion};

use super::{Progress, Trainer, run::Running};
use crate::{
    error::Result,
    learning::{LearningTexts, Lesson},
    serving::learning_texts,
    state::Learned,
};

impl Running<'_> {
    /// Learns from everything so far and publishes a new version. Paper: Optimize.
    pub(super) async fn update(&mut self, count: Option<u64>, mut also: Vec<JournalEntry>) -> Result<()> {
        let texts = self.learning_texts(self.state.labels.len()).await?;
        let progress = self.progress;
        let lesson = Lesson {
            labels: &self.state.labels,
            paths: &self.state.paths,
            texts: &texts,
        };
        let (learned, report) = self.learning.update(&lesson, &|read| {
            progress(Progress::Learning {
                tokens: read.done,
                total: read.total,
            });
        })?;
        self.scorer = self.learning.publish()?;
        let mut entries = vec![
            JournalEntry::ScorerVersion(self.version_record(learned, report.clone())),
            self.state.update_event(learned, count, report),
        ];
        entries.append(&mut also);
        self.commit(entries).await?;
        (self.progress)(Progress::Updated {
            version: learned.version,
            labels: learned.labels,
        });
        Ok(())
    }

    fn version_record(&self, learned: Learned, metrics: Map<String, Value>) -> ScorerVersion {
        ScorerVersion {
            name: format!("{}/{}", self.trainer.run, self.scorer.name()),
            version: learned.version,
            digest: self.learning.digest(&self.state.labels[..learned.labels]),
            location: self.learning.location(),
            metrics,
        }
    }

    pub(super) async fn learning_texts(&self, labels: usize) -> Result<Arc<LearningTexts>> {
        let Trainer {
            store, scope, texts, ..
        } = self.trainer;
        Ok(Arc::new(
            learning_texts(store, scope, texts, &self.state.labels[..labels]).await?,
        ))
    }
}
