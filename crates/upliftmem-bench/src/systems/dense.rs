//! Retrieval by vectors: of lessons (Dense-RAG), or of plays as they were (NaiveRAG).

use super::{MemorySystem, Query, Shelf, Sources, plain::lesson_pool};
use crate::protocol::Result;

/// The nearest texts, whatever they do.
pub(super) struct Dense(Shelf);

impl Dense {
    pub(super) fn of_lessons(sources: Sources<'_>) -> Result<Self> {
        Ok(Self(Shelf::of(sources.embedder, lesson_pool(sources))?))
    }

    /// One play, one memory.
    pub(super) fn of_transcripts(sources: Sources<'_>) -> Result<Self> {
        let plays = sources.experiences.iter();
        let texts = plays.filter_map(|experience| sources.suite.transcript(experience));
        Ok(Self(Shelf::of(sources.embedder, texts.collect())?))
    }
}

impl MemorySystem for Dense {
    fn memories(&self) -> &[String] {
        self.0.texts()
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        self.0.found(query.embedding, count)
    }
}
