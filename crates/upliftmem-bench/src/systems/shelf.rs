//! Texts with the vectors they are found by.

use std::sync::Arc;

use upliftmem_scorer::{Embedding, embedder::Embedder};

use crate::protocol::Result;

/// Texts, each with the vector of its key.
#[derive(Clone)]
pub struct Shelf {
    embedder: Arc<dyn Embedder>,
    texts: Vec<String>,
    keys: Vec<Embedding>,
}

impl Shelf {
    /// An empty shelf.
    pub fn new(embedder: &Arc<dyn Embedder>) -> Self {
        Self {
            embedder: Arc::clone(embedder),
            texts: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Texts that are found by themselves.
    ///
    /// # Errors
    /// A text has no vector.
    pub fn of(embedder: &Arc<dyn Embedder>, texts: Vec<String>) -> Result<Self> {
        let words: Vec<&str> = texts.iter().map(String::as_str).collect();
        Ok(Self {
            keys: embedder.embed(&words)?,
            embedder: Arc::clone(embedder),
            texts,
        })
    }

    /// The vector of a text.
    ///
    /// # Errors
    /// It has none.
    pub fn embed(&self, text: &str) -> Result<Embedding> {
        let mut vectors = self.embedder.embed(&[text])?;
        vectors
            .pop()
            .ok_or_else(|| crate::protocol::Error::Input("an embedder returned no vector".into()))
    }

    /// The texts, in order.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The key of a text.
    pub fn key(&self, place: usize) -> &Embedding {
        &self.keys[place]
    }

    /// Adds a text that is found by this key; says where it is.
    pub fn push(&mut self, text: String, key: Embedding) -> usize {
        self.texts.push(text);
        self.keys.push(key);
        self.texts.len() - 1
    }

    /// Replaces a text and its key.
    pub fn replace(&mut self, place: usize, text: String, key: Embedding) {
        self.texts[place] = text;
        self.keys[place] = key;
    }

    /// Takes a text away; what stands behind it moves up.
    pub fn remove(&mut self, place: usize) {
        self.texts.remove(place);
        self.keys.remove(place);
    }

    /// The places of the nearest texts, nearest first.
    pub fn found(&self, query: &Embedding, count: usize) -> Vec<usize> {
        let nearest = self.nearest(query, count, |_| true);
        nearest.into_iter().map(|(place, _)| place).collect()
    }

    /// The nearest texts with their similarity, nearest first; of equals the older first. `may` says which count.
    pub fn nearest(&self, query: &Embedding, count: usize, may: impl Fn(usize) -> bool) -> Vec<(usize, f64)> {
        let mut ranked: Vec<(usize, f64)> = (0..self.keys.len())
            .filter(|&place| may(place))
            .map(|place| (place, query.cosine(&self.keys[place])))
            .collect();
        ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        ranked.truncate(count);
        ranked
    }
}
