//! Takes the best embedder there is, and says what a better one would give.

use super::{KNOWN_MODELS, KnownModel, ModelLibrary, Result};
use crate::embedder::{Embedder, HashEmbedder};

/// The embedder that was chosen, and why it is not a better one.
pub struct Auto {
    /// The choice.
    pub embedder: Box<dyn Embedder>,
    /// Set if no model was found.
    pub fallback: Option<Fallback>,
}

/// What is lost without a model, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// A plain sentence for the user.
    pub lost: String,
    /// The models that can be pulled.
    pub available: &'static [KnownModel],
}

impl ModelLibrary {
    /// The first model of the list that is here, or else [`HashEmbedder`], which needs none.
    ///
    /// A model that is here but damaged is an error: falling back in silence would make vectors of another generation.
    pub fn auto(&self) -> Result<Auto> {
        if let Some(model) = self.present()?.first() {
            return Ok(Auto {
                embedder: self.open(model.name)?,
                fallback: None,
            });
        }
        let best = &KNOWN_MODELS[0];
        Ok(Auto {
            embedder: Box::new(HashEmbedder::default()),
            fallback: Some(Fallback {
                lost: format!(
                    "No embedding model is here, so texts are compared by the words and spellings they share: a memory \
                     that says the same in other words is not found. {} ({} MB) would find it.",
                    best.name,
                    best.bytes / 1_000_000
                ),
                available: KNOWN_MODELS,
            }),
        })
    }
}
