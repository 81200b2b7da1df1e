//! Distilling conversations in the background: kept at once, out of recall, and turned into memories when a model finds time.
//!
//! The store is the queue. What was kept and not distilled is found again after a restart, and a claim keeps two processes
//! from asking a model about the same conversation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::{sync::Notify, time::Instant};
use upliftmem_agent::{Distiller, Said, WriterError, chat::ChatError, conversation, is_near_duplicate};
use upliftmem_core::{MemoryId, Task};
use upliftmem_store::{
    AnswerKey, Claim, ItemResult, ItemStatus, MemoryFilter, MemoryStatus, NewMemory, RecallMode, Scope,
    ScopeParts, StoredMemory, Timestamp,
};

use super::Live;
use crate::{error::Result, settings::RetrievalSettings, texts::KnownTask};

/// What sort of experience an undistilled conversation is.
const KIND: &str = "conversation";
/// Why it is out of recall until it is distilled.
const WAITING: &str = "to be distilled";
/// Memories that a note is compared with, the most similar ones.
const COMPARED: usize = 8;
/// Rows of the pages that are read when looking for what is left over.
const ROWS: usize = 100;
/// Conversations that are waited for in memory; more of them wait in the store alone.
const WAITED_FOR_MAX: usize = 10_000;
/// First and longest wait before a conversation is tried again.
const WAITS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));
/// Times a model may give no answer about one conversation while it answers others.
const TRIES_MAX: u32 = 5;
/// Nobody works longer on a conversation: whoever claimed it is gone.
const ABANDONED: Duration = Duration::from_secs(1_800);

/// Turns conversations into memories, one after the other.
pub struct Distilling {
    live: Arc<Live>,
    distiller: Distiller,
    waiting: Mutex<Waiting>,
    more: Notify,
}

/// What waits, and when each is due.
#[derive(Debug, Default)]
struct Waiting {
    due: BTreeMap<(Instant, MemoryId), Piece>,
    /// Some found no place here and have to be looked for in the store.
    left_over: bool,
}

#[derive(Debug, Clone)]
struct Piece {
    scope: Scope,
    tries: u32,
}

/// What became of a conversation.
enum End {
    /// There is nothing more to do about it.
    Over,
    /// Later: the model is away, or somebody else is at it.
    Later,
    /// The model gave no answer.
    Failed(String),
}

impl Distilling {
    /// Distils what is kept in scopes of `live`.
    pub fn new(live: Arc<Live>, distiller: Distiller) -> Arc<Self> {
        let waiting = Waiting {
            // What an earlier process left.
            left_over: true,
            ..Waiting::default()
        };
        Arc::new(Self {
            live,
            distiller,
            waiting: Mutex::new(waiting),
            more: Notify::new(),
        })
    }

    /// What to keep of a conversation until it is distilled; the notes will have its metadata and its end.
    pub fn record(id: MemoryId, said: &[Said]) -> NewMemory {
        let mut record = NewMemory::note(id, conversation(said));
        KIND.clone_into(&mut record.kind);
        record.quarantine = Some(WAITING.into());
        record
    }

    /// Whether this is why a memory is out of recall.
    pub fn is_waiting(reason: &str) -> bool {
        reason == WAITING
    }

    /// Distils a conversation that was just kept.
    pub fn soon(&self, scope: &Scope, conversation: MemoryId) {
        let piece = Piece {
            scope: scope.clone(),
            tries: 0,
        };
        self.put(Instant::now(), conversation, piece);
        self.more.notify_one();
    }

    fn put(&self, due: Instant, conversation: MemoryId, piece: Piece) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.due.len() < WAITED_FOR_MAX {
            waiting.due.insert((due, conversation), piece);
        } else {
            waiting.left_over = true;
        }
    }

    /// Conversations that this process waits to distil.
    pub fn waiting(&self) -> usize {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.due.len()
    }

    /// Distils for as long as it is polled, a few conversations at once.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(self.work(), self.work(), self.work(), self.work());
    }

    async fn work(&self) {
        let mut pause = WAITS.0;
        loop {
            if self.takes_left_over() {
                if let Err(error) = self.look().await {
                    tracing::warn!(%error, "conversations that wait to be distilled were not looked for");
                    self.leave_over();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(WAITS.1);
                    continue;
                }
                pause = WAITS.0;
            }
            match self.next() {
                Some((due, conversation, piece)) if due <= Instant::now() => {
                    self.tried(conversation, piece).await;
                }
                Some((due, conversation, piece)) => {
                    self.put(due, conversation, piece);
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = self.more.notified() => {}
                    }
                }
                None => self.more.notified().await,
            }
        }
    }

    fn next(&self) -> Option<(Instant, MemoryId, Piece)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let ((due, conversation), piece) = waiting.due.pop_first()?;
        Some((due, conversation, piece))
    }

    /// Whether the store is to be looked through: when nothing that is known of waits.
    fn takes_left_over(&self) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.due.is_empty() && std::mem::take(&mut waiting.left_over)
    }

    fn leave_over(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.left_over = true;
    }

    /// Finds what waits in the store.
    async fn look(&self) -> Result<()> {
        let store = self.live.store();
        let mut after = 0;
        loop {
            let scopes = store.scopes(&ScopeParts::default(), after, ROWS).await?;
            let Some((last, _)) = scopes.last() else {
                return Ok(());
            };
            after = *last;
            for (_, scope) in scopes {
                self.look_in(&scope).await?;
            }
        }
    }

    async fn look_in(&self, scope: &Scope) -> Result<()> {
        let mut filter = MemoryFilter {
            status: Some(MemoryStatus::Quarantined),
            after: None,
        };
        loop {
            let found = self.live.store().list_memories(scope, filter, ROWS).await?;
            let Some(last) = found.last() else {
                return Ok(());
            };
            filter.after = Some(last.memory.id);
            for memory in found.into_iter().filter(waits) {
                let piece = Piece {
                    scope: scope.clone(),
                    tries: 0,
                };
                self.put(Instant::now(), memory.memory.id, piece);
            }
        }
    }

    /// Tries one conversation; what is not over waits for its next turn.
    async fn tried(&self, conversation: MemoryId, mut piece: Piece) {
        let end = self.distil(&piece.scope, conversation).await;
        let end = end.unwrap_or_else(|error| {
            tracing::warn!(scope = %piece.scope, memory = %conversation, %error, "a conversation was not distilled");
            End::Later
        });
        let wait = WAITS.0 * 2_u32.saturating_pow(piece.tries.min(16));
        match end {
            End::Over => return,
            End::Later => piece.tries += 1,
            End::Failed(problem) => {
                piece.tries += 1;
                if piece.tries >= TRIES_MAX {
                    let reason = format!("not distilled: {problem}");
                    match self.close(&piece.scope, conversation, &reason).await {
                        Ok(()) => return,
                        Err(error) => tracing::warn!(%error, "a conversation could not be given up"),
                    }
                }
            }
        }
        self.put(Instant::now() + wait.min(WAITS.1), conversation, piece);
    }

    async fn distil(&self, scope: &Scope, conversation: MemoryId) -> Result<End> {
        let store = self.live.store();
        let Some(record) = store.memories(scope, &[conversation]).await?.pop().filter(waits) else {
            return Ok(End::Over);
        };
        let key = claim_of(scope, conversation);
        let now = store.clock().await?;
        let abandoned = Timestamp::from_millis(now.millis().saturating_sub(ABANDONED.as_millis() as u64));
        if store.claim_answer(&key, now, abandoned).await? != Claim::Granted {
            return Ok(End::Later);
        }
        let end = self.distil_claimed(scope, &record).await;
        // Whoever comes next sees from the record what became of it.
        store.settle_answer(&key, store.clock().await?, None).await?;
        end
    }

    async fn distil_claimed(&self, scope: &Scope, record: &StoredMemory) -> Result<End> {
        let notes = match self.distiller.notes(&record.memory.text).await {
            Ok(notes) => notes,
            Err(WriterError::Chat(ChatError::Unavailable(problem))) => {
                tracing::warn!(%problem, "the model that distils is away");
                return Ok(End::Later);
            }
            Err(WriterError::Chat(ChatError::Failed(problem))) => return Ok(End::Failed(problem)),
            Err(error) => {
                let reason = format!("not distilled: {error}");
                self.close(scope, record.memory.id, &reason).await?;
                return Ok(End::Over);
            }
        };
        let results = self.write(scope, record, notes).await?;
        let stored = results
            .iter()
            .filter(|result| result.status == ItemStatus::Stored)
            .count();
        let memories = if stored == 1 { "memory" } else { "memories" };
        let mut reason = format!("distilled: {stored} {memories}");
        for result in &results {
            if let ItemStatus::Failed { reason: why } | ItemStatus::Quarantined { reason: why } =
                &result.status
            {
                reason += &format!("; one not: {why}");
            }
        }
        self.close(scope, record.memory.id, &reason).await?;
        Ok(End::Over)
    }

    /// Writes the notes that say something new; says what became of them.
    async fn write(
        &self,
        scope: &Scope,
        record: &StoredMemory,
        notes: Vec<String>,
    ) -> Result<Vec<ItemResult>> {
        let live = self.live.scope(scope).await?;
        let mut batch: Vec<NewMemory> = Vec::new();
        for (note, embedding) in notes.iter().zip(live.texts().embed(notes.clone()).await?) {
            let query = KnownTask {
                task: Task::new("note", note.as_str()),
                embedding,
            };
            let settings = RetrievalSettings {
                candidates: COMPARED,
                recall: RecallMode::Hybrid,
                ..self.live.settings().retrieval.clone()
            };
            let similar = live.texts().recall(&query, &settings).await?;
            let known = similar.ranked.iter().map(|memory| memory.text.as_str());
            let new = batch.iter().map(|new| new.memory.text.as_str());
            if is_near_duplicate(note, known.chain(new)) {
                continue;
            }
            batch.push(self.note(live.mint_memory(), note, record));
        }
        let batch = live.texts().with_vectors(batch).await?;
        Ok(self
            .live
            .store()
            .add_memories(scope, Timestamp::now(), batch)
            .await?)
    }

    fn note(&self, id: MemoryId, text: &str, record: &StoredMemory) -> NewMemory {
        let mut note = NewMemory::note(id, text);
        note.memory.metadata = record.memory.metadata.clone();
        note.expires_at = record.expires_at;
        let mut provenance: Map<String, Value> = record.provenance.clone();
        provenance.insert("distilled_from".into(), json!(record.memory.id));
        provenance.insert("writer".into(), json!(self.distiller.name()));
        note.provenance = provenance;
        note
    }

    /// Nothing more is to be done about a conversation; it stays out of recall, as evidence of where notes came from.
    async fn close(&self, scope: &Scope, conversation: MemoryId, reason: &str) -> Result<()> {
        const REASON_CHARS: usize = 200;
        let reason: String = reason
            .chars()
            .filter(|c| !c.is_control())
            .take(REASON_CHARS)
            .collect();
        let store = self.live.store();
        store
            .quarantine_memory(scope, Timestamp::now(), conversation, &reason)
            .await?;
        Ok(())
    }
}

fn waits(memory: &StoredMemory) -> bool {
    memory.kind == KIND
        && memory.status == MemoryStatus::Quarantined
        && memory.quarantine_reason.as_deref() == Some(WAITING)
}

/// The claim on a conversation, in a name space of its own.
fn claim_of(scope: &Scope, conversation: MemoryId) -> AnswerKey {
    let hash: [u8; 32] = Sha256::digest(format!("distil\n{scope}\n{conversation}")).into();
    AnswerKey {
        key: hash,
        request: hash,
    }
}
