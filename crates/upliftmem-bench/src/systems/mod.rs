//! Memory systems: each builds its own store from experience and retrieves its own way.
//!
//! One file a system, after its published algorithm, in our own code. Where the original asks a language model, [one is
//! asked](Steps) if there is one; otherwise, and where its answer is none, a rule stands in its place; each file says which. What a
//! rule extracts from a play are the suite's [lessons](crate::suite::Suite::lessons).

mod amem;
mod dense;
mod lexical;
mod light_mem;
mod mem0;
mod mem_gpt;
mod mem_p;
mod mem_rl;
mod own;
mod plain;
mod shelf;
mod steps;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use upliftmem_core::{Task, TaskId};
use upliftmem_scorer::{Embedding, embedder::Embedder};

use crate::{
    protocol::{Error, Result},
    suite::{Experience, Suite},
};

pub use plain::{lesson_pool, no_memory, random};
pub use shelf::Shelf;
pub use steps::{StepCounts, Steps};

/// A store that was built, with its own way to retrieve from it.
#[async_trait]
pub trait MemorySystem: Send + Sync {
    /// The texts of the store, in the order in which they were written.
    fn memories(&self) -> &[String];

    /// What it gives a task: at most `count` memories by their places in the store, in the order in which they are shown.
    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize>;

    /// Tasks that have a store of their own, with the places of what they may be given; none where all share one.
    fn own(&self) -> BTreeMap<TaskId, Vec<usize>> {
        BTreeMap::new()
    }

    /// Whether it learns from how tasks went that it gave memories to.
    fn learns(&self) -> bool {
        false
    }

    /// Learns from a task that was given these memories.
    ///
    /// # Errors
    /// A text has no vector, or no answer can be had from the model.
    async fn learn(
        &mut self,
        _given: &[usize],
        _experience: &Experience,
        _sources: Sources<'_>,
    ) -> Result<()> {
        Ok(())
    }
}

/// A task that memories are wanted for.
pub struct Query<'q> {
    /// The task.
    pub task: &'q Task,
    /// The vector of its context.
    pub embedding: &'q Embedding,
    /// Randomness, for systems that draw.
    pub seed: u64,
}

/// What every system is built from.
#[derive(Clone, Copy)]
pub struct Sources<'s> {
    /// The benchmark.
    pub suite: &'s dyn Suite,
    /// Vectors of texts.
    pub embedder: &'s Arc<dyn Embedder>,
    /// The model that does steps; without one, rules do them all.
    pub steps: Option<&'s Steps>,
    /// What has been lived through, in order.
    pub experiences: &'s [Experience],
}

/// A system by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemName {
    /// No memory at all.
    React,
    /// Memories by lot.
    Random,
    /// Lessons by BM25.
    Bm25Rag,
    /// Lessons by vectors.
    DenseRag,
    /// Plays as they were, by vectors.
    NaiveRag,
    /// Procedural memory.
    MemP,
    /// Memories with learned values.
    MemRl,
    /// Facts that are added, updated, deleted.
    Mem0,
    /// A small core and a large archive.
    MemGpt,
    /// Linked notes.
    AMem,
    /// Compressed and consolidated by topic.
    LightMem,
}

impl SystemName {
    /// All, in the order of tables.
    pub const ALL: [Self; 11] = [
        Self::React,
        Self::Random,
        Self::Bm25Rag,
        Self::DenseRag,
        Self::NaiveRag,
        Self::MemP,
        Self::MemRl,
        Self::Mem0,
        Self::MemGpt,
        Self::AMem,
        Self::LightMem,
    ];

    /// Those whose stores the controlled evaluation holds fixed. Paper: app. protocol.
    pub const STORES: [Self; 5] = [
        Self::NaiveRag,
        Self::Mem0,
        Self::AMem,
        Self::MemGpt,
        Self::LightMem,
    ];

    /// The name in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::React => "ReAct",
            Self::Random => "Random",
            Self::Bm25Rag => "BM25-RAG",
            Self::DenseRag => "Dense-RAG",
            Self::NaiveRag => "NaiveRAG",
            Self::MemP => "MemP",
            Self::MemRl => "MemRL",
            Self::Mem0 => "Mem0",
            Self::MemGpt => "MemGPT",
            Self::AMem => "A-MEM",
            Self::LightMem => "LightMem",
        }
    }

    /// The name in commands and files.
    pub fn key(self) -> String {
        self.title().to_lowercase()
    }
}

impl std::str::FromStr for SystemName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let key = text.to_lowercase();
        let found = Self::ALL.into_iter().find(|name| name.key() == key);
        found.ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(|name| name.key()).collect();
            Error::Input(format!(
                "{text:?} is not one of {} and upliftmem",
                names.join(", ")
            ))
        })
    }
}

/// Builds a system from experience, or one for every task from what the task brings along.
///
/// # Errors
/// A text has no vector, or the system learns from a store that tasks do not share.
pub async fn build(name: SystemName, sources: Sources<'_>) -> Result<Box<dyn MemorySystem>> {
    if sources.suite.has_own_stores() && name != SystemName::React {
        return Ok(Box::new(own::OwnStores::build(name, sources).await?));
    }
    shared(name, sources).await
}

/// Builds a system from experience.
async fn shared(name: SystemName, sources: Sources<'_>) -> Result<Box<dyn MemorySystem>> {
    Ok(match name {
        SystemName::React => Box::new(no_memory()),
        SystemName::Random => Box::new(random(sources)),
        SystemName::Bm25Rag => Box::new(lexical::Lexical::build(sources)),
        SystemName::DenseRag => Box::new(dense::Dense::of_lessons(sources)?),
        SystemName::NaiveRag => Box::new(dense::Dense::of_transcripts(sources)?),
        SystemName::MemP => Box::new(mem_p::MemP::build(sources).await?),
        SystemName::MemRl => Box::new(mem_rl::MemRl::build(sources).await?),
        SystemName::Mem0 => Box::new(mem0::Mem0::build(sources).await?),
        SystemName::MemGpt => Box::new(mem_gpt::MemGpt::build(sources).await?),
        SystemName::AMem => Box::new(amem::AMem::build(sources).await?),
        SystemName::LightMem => Box::new(light_mem::LightMem::build(sources).await?),
    })
}
