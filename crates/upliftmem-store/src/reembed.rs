//! The move of a scope to a new embedder: in batches, in the background, resumed where it stopped.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    EmbedderGeneration, Scope, Store,
    error::{Error, Result},
};

/// Memories a batch of [`reembed`] embeds at once.
const BATCH: usize = 64;

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReembedProgress {
    /// Memories of the scope.
    pub total: u64,
    /// Those that have a vector of the target.
    pub done: u64,
}

/// Whatever turns texts into vectors.
#[async_trait]
pub trait EmbedTexts: Send + Sync {
    /// Who it is.
    fn generation(&self) -> &EmbedderGeneration;

    /// One vector for each text, in their order; or why not.
    async fn embed(&self, texts: Vec<String>) -> std::result::Result<Vec<Vec<f32>>, String>;
}

/// Embeds every memory of a scope anew and then switches to the new generation at once.
///
/// Until the switch the old generation is searched. Run it on a task of its own; dropped or killed, it goes on
/// from the last batch when it is called again. Memories written meanwhile are embedded too.
pub async fn reembed(
    store: &dyn Store,
    scope: &Scope,
    embedder: &dyn EmbedTexts,
    mut progress: impl FnMut(ReembedProgress) + Send,
) -> Result<ReembedProgress> {
    progress(store.reembed_begin(scope, embedder.generation()).await?);
    loop {
        let pending = store.reembed_pending(scope, BATCH).await?;
        if pending.is_empty() {
            let end = store.reembed_finish(scope).await?;
            progress(end);
            if end.done == end.total {
                return Ok(end);
            }
            continue;
        }
        let (ids, texts): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
        let vectors = embedder
            .embed(texts)
            .await
            .map_err(|problem| Error::invalid(format_args!("embedder {}", embedder.generation()), problem))?;
        if vectors.len() != ids.len() {
            return Err(Error::invalid(
                format_args!("embedder {}", embedder.generation()),
                format_args!("it made {} vectors of {} texts", vectors.len(), ids.len()),
            ));
        }
        progress(
            store
                .reembed_put(scope, ids.into_iter().zip(vectors).collect())
                .await?,
        );
    }
}
