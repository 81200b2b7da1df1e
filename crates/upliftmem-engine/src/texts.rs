//! Texts with their vectors: tasks as they come, memories as the store has them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use upliftmem_core::{Candidate, CandidatePool, MemoryId, Task, TaskId};
use upliftmem_scorer::{
    Embedding, MemoryInput, TaskInput,
    embedder::{Embedder, Generation},
};
use upliftmem_store::{
    EmbedTexts, EmbedderGeneration, NewMemory, RecallQuery, ReembedProgress, Scope, Store, Timestamp, reembed,
};

use crate::{
    error::{Error, Result},
    settings::RetrievalSettings,
};

/// Vectors that are kept at hand; beyond, half of them are forgotten: of memories, the older ones.
const CACHED_MAX: usize = 200_000;

/// A task with its vector.
#[derive(Debug, Clone)]
pub struct KnownTask {
    /// The task.
    pub task: Task,
    /// The vector of its context.
    pub embedding: Embedding,
}

impl KnownTask {
    /// How similar a memory's text is to it: the cosine of their vectors.
    pub fn similarity(&self, memory: &KnownMemory) -> f64 {
        self.embedding.cosine(&memory.embedding)
    }

    /// As scorers see it.
    pub fn input(&self) -> TaskInput<'_> {
        TaskInput {
            id: self.task.id,
            context: &self.task.context,
            embedding: &self.embedding,
        }
    }
}

/// A memory with its vector.
#[derive(Debug)]
pub struct KnownMemory {
    /// Which memory.
    pub id: MemoryId,
    /// What it says.
    pub text: String,
    /// Its length.
    pub tokens: u32,
    /// The vector of its text.
    pub embedding: Embedding,
}

impl KnownMemory {
    /// As scorers see it.
    pub fn input(&self) -> MemoryInput<'_> {
        MemoryInput {
            id: self.id,
            text: &self.text,
            embedding: &self.embedding,
        }
    }
}

/// What a task can be given: the candidates, and what is known of them.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The candidates.
    pub pool: CandidatePool,
    /// The same, best recalled first.
    pub ranked: Vec<Arc<KnownMemory>>,
}

impl Offer {
    /// The candidates as scorers see them.
    pub fn inputs(&self) -> Vec<MemoryInput<'_>> {
        inputs(&self.ranked)
    }
}

/// Memories as scorers see them.
pub fn inputs(memories: &[Arc<KnownMemory>]) -> Vec<MemoryInput<'_>> {
    memories.iter().map(|memory| memory.input()).collect()
}

/// Where texts get their vectors. One embedder, one scope.
pub struct Texts {
    store: Arc<dyn Store>,
    scope: Scope,
    embedder: Arc<dyn Embedder>,
    generation: EmbedderGeneration,
    memories: Mutex<BTreeMap<MemoryId, Arc<KnownMemory>>>,
    tasks: Mutex<BTreeMap<TaskId, Arc<KnownTask>>>,
    own: BTreeMap<TaskId, Vec<MemoryId>>,
}

/// What the store calls an embedder.
pub fn store_generation(generation: &Generation) -> EmbedderGeneration {
    EmbedderGeneration {
        name: generation.name.clone(),
        dimension: u32::try_from(generation.dimension).unwrap_or(u32::MAX),
        digest: generation.content.clone(),
    }
}

impl Texts {
    /// The embedder.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// The texts of a scope, as this embedder sees them.
    pub fn new(store: Arc<dyn Store>, scope: Scope, embedder: Arc<dyn Embedder>) -> Self {
        Self {
            store,
            scope,
            generation: store_generation(embedder.generation()),
            embedder,
            memories: Mutex::default(),
            tasks: Mutex::default(),
            own: BTreeMap::new(),
        }
    }

    /// The same with tasks that have memories of their own: they are offered no others.
    #[must_use]
    pub fn with_own_memories(mut self, own: BTreeMap<TaskId, Vec<MemoryId>>) -> Self {
        self.own = own;
        self
    }

    /// Vectors of texts. Models take a while, so others get their turn meanwhile.
    pub async fn embed(&self, texts: Vec<String>) -> Result<Vec<Embedding>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let embedder = Arc::clone(&self.embedder);
        let work = tokio::task::spawn_blocking(move || {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            embedder.embed(&texts)
        });
        let vectors = work
            .await
            .map_err(|error| Error::Internal(format!("embedding stopped: {error}")))?;
        Ok(vectors?)
    }

    fn stored(&self, embedding: &Embedding) -> Result<upliftmem_store::Embedding> {
        Ok(upliftmem_store::Embedding::new(
            self.generation.clone(),
            embedding.values().to_vec(),
        )?)
    }

    /// Gives every memory of the scope a vector of this embedder, where it has none.
    pub async fn give_vectors(
        &self,
        progress: impl FnMut(ReembedProgress) + Send,
    ) -> Result<ReembedProgress> {
        Ok(reembed(self.store.as_ref(), &self.scope, self, progress).await?)
    }

    /// Gives new memories their vectors.
    pub async fn with_vectors(&self, mut batch: Vec<NewMemory>) -> Result<Vec<NewMemory>> {
        let texts = batch.iter().map(|new| new.memory.text.clone()).collect();
        for (new, embedding) in batch.iter_mut().zip(self.embed(texts).await?) {
            new.embedding = Some(self.stored(&embedding)?);
        }
        Ok(batch)
    }

    /// Forgets a memory that was removed, so that nobody is offered it.
    pub fn forget(&self, id: MemoryId) {
        let mut known = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&id);
    }

    /// A task whose vector is at hand.
    pub fn known_task(&self, id: TaskId) -> Option<Arc<KnownTask>> {
        let known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&id).cloned()
    }

    /// Tasks with their vectors, in order.
    pub async fn tasks(&self, tasks: &[Task]) -> Result<Vec<Arc<KnownTask>>> {
        let missing: Vec<Task> = {
            let known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks
                .iter()
                .filter(|task| !known.contains_key(&task.id))
                .cloned()
                .collect()
        };
        let vectors = self
            .embed(missing.iter().map(|task| task.context.clone()).collect())
            .await?;
        let mut known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut made: BTreeMap<TaskId, Arc<KnownTask>> = BTreeMap::new();
        for (task, embedding) in missing.into_iter().zip(vectors) {
            made.insert(task.id, Arc::new(KnownTask { task, embedding }));
        }
        let found = tasks
            .iter()
            .map(|task| Arc::clone(made.get(&task.id).unwrap_or_else(|| &known[&task.id])))
            .collect();
        keep(&mut known, made);
        Ok(found)
    }

    /// Memories with their vectors, in the order asked; one that is gone is left out.
    pub async fn memories(&self, ids: &[MemoryId]) -> Result<Vec<Arc<KnownMemory>>> {
        let missing: Vec<MemoryId> = {
            let known = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
            ids.iter().copied().filter(|id| !known.contains_key(id)).collect()
        };
        if !missing.is_empty() {
            self.load(&missing).await?;
        }
        let known = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(ids.iter().filter_map(|id| known.get(id).cloned()).collect())
    }

    async fn load(&self, ids: &[MemoryId]) -> Result<()> {
        let generation = &self.generation;
        let stored = self.store.memories(&self.scope, ids).await?;
        let bare: Vec<String> = stored
            .iter()
            .filter(|memory| {
                (memory.embedding.as_ref()).is_none_or(|vector| vector.generation() != generation)
            })
            .map(|memory| memory.memory.text.clone())
            .collect();
        let mut made = self.embed(bare).await?.into_iter();
        let mut loaded = BTreeMap::new();
        for memory in stored {
            let vector = memory
                .embedding
                .filter(|vector| vector.generation() == generation);
            let embedding = match vector {
                Some(vector) => Embedding::new(vector.vector())?,
                None => made
                    .next()
                    .ok_or_else(|| Error::Internal("an embedder returned too few vectors".into()))?,
            };
            let known = KnownMemory {
                id: memory.memory.id,
                tokens: memory.memory.tokens,
                text: memory.memory.text,
                embedding,
            };
            loaded.insert(known.id, Arc::new(known));
        }
        let mut known = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        keep(&mut known, loaded);
        Ok(())
    }

    /// The best candidates for a task.
    pub async fn recall(&self, task: &KnownTask, settings: &RetrievalSettings) -> Result<Offer> {
        if let Some(own) = self.own.get(&task.task.id) {
            let mut own = self.memories(own).await?;
            own.sort_by(|left, right| task.similarity(right).total_cmp(&task.similarity(left)));
            let ids: Vec<MemoryId> = own.iter().map(|memory| memory.id).collect();
            return self.offer(&ids[..settings.candidates.min(ids.len())]).await;
        }
        let query = RecallQuery {
            text: task.task.context.clone(),
            embedding: Some(self.stored(&task.embedding)?),
            candidates: settings.candidates,
            mode: settings.recall,
        };
        let recall = self.store.recall(&self.scope, Timestamp::now(), query).await?;
        let ids: Vec<MemoryId> = recall.hits.iter().map(|hit| hit.id).collect();
        self.offer(&ids).await
    }

    /// These memories as candidates, in this order.
    pub async fn offer(&self, ids: &[MemoryId]) -> Result<Offer> {
        let ranked = self.memories(ids).await?;
        let candidates = ranked.iter().map(|memory| Candidate {
            id: memory.id,
            tokens: memory.tokens,
        });
        Ok(Offer {
            pool: CandidatePool::new(candidates.collect())?,
            ranked,
        })
    }
}

/// Adds what is new, one by one: the others stay where they are, however many.
fn keep<K: Ord, V>(known: &mut BTreeMap<K, V>, new: BTreeMap<K, V>) {
    if known.len() + new.len() > CACHED_MAX {
        let half = known.len() / 2;
        *known = std::mem::take(known).into_iter().skip(half).collect();
    }
    known.extend(new);
}

#[async_trait]
impl EmbedTexts for Texts {
    fn generation(&self) -> &EmbedderGeneration {
        &self.generation
    }

    async fn embed(&self, texts: Vec<String>) -> std::result::Result<Vec<Vec<f32>>, String> {
        let vectors = Self::embed(self, texts)
            .await
            .map_err(|error| error.to_string())?;
        Ok(vectors.iter().map(|vector| vector.values().to_vec()).collect())
    }
}
