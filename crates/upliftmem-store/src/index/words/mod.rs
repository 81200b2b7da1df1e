//! The words of one scope: posting lists in memory, and BM25 over them without short cuts that change an answer.

mod postings;
mod prune;
mod weigh;

use std::collections::HashMap;

use upliftmem_core::MemoryId;

use self::{
    postings::{Entered, PostingList, WINDOW},
    prune::Term,
    weigh::Weigh,
};
use crate::{
    lexical::{self, Collection},
    time::Timestamp,
};

/// One changed memory, as the database has it.
#[derive(Debug, Clone)]
pub(crate) struct WordRow {
    /// The row's number in the database.
    pub(crate) number: i64,
    /// The memory.
    pub(crate) id: MemoryId,
    /// Its length in tokens.
    pub(crate) tokens: u32,
    /// From when on it is not recalled.
    pub(crate) expires_at: Option<Timestamp>,
    /// Its text, which never changes; none if it is not to be found.
    pub(crate) text: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Document {
    id: MemoryId,
    tokens: u32,
    expires_at: Option<Timestamp>,
    alive: bool,
}

/// The words of one scope.
#[derive(Debug, Default)]
pub(super) struct WordIndex {
    pub(super) version: i64,
    documents: Vec<Document>,
    /// Words of each document, repetitions included. Beside the documents, as scoring reads nothing else of them.
    lengths: Vec<u32>,
    /// Whether a document is alive and has no end: then nothing else need be looked at.
    sure: Vec<bool>,
    slot_of: HashMap<i64, u32>,
    lists: HashMap<String, PostingList>,
    /// Windows whose documents are all there and in the lists' bounds.
    sealed: usize,
    pub(super) entries: usize,
    dead: usize,
}

impl WordIndex {
    /// Whether so many documents are dead that it is better read again.
    pub(super) const fn worn(&self) -> bool {
        self.dead * 4 > self.documents.len()
    }

    pub(super) fn apply(&mut self, row: &WordRow) {
        if let Some(&slot) = self.slot_of.get(&row.number) {
            let document = &mut self.documents[slot as usize];
            let alive = row.text.is_some();
            match (document.alive, alive) {
                (true, false) => self.dead += 1,
                (false, true) => self.dead -= 1,
                _ => {}
            }
            document.alive = alive;
            if alive {
                document.expires_at = row.expires_at;
            }
            self.sure[slot as usize] = alive && document.expires_at.is_none();
            return;
        }
        let Some(text) = &row.text else { return };
        let slot = u32::try_from(self.documents.len()).unwrap_or(u32::MAX);
        let mut length = 0;
        lexical::each_word(text, |word| {
            length += 1;
            let entered = match self.lists.get_mut(word) {
                Some(list) => list.enter(slot),
                None => self.lists.entry(word.to_owned()).or_default().enter(slot),
            };
            match entered {
                Entered::New => self.entries += 1,
                Entered::Again => {}
                Entered::Uncounted => length -= 1,
            }
        });
        self.lengths.push(length);
        self.sure.push(row.expires_at.is_none());
        self.documents.push(Document {
            id: row.id,
            tokens: row.tokens,
            expires_at: row.expires_at,
            alive: true,
        });
        self.slot_of.insert(row.number, slot);
    }

    /// Makes the lists ready for the next questions, after some rows were applied. Without it they are right and slower.
    pub(super) fn seal(&mut self) {
        let whole = self.documents.len() / WINDOW;
        if whole > self.sealed {
            self.sealed = whole;
            for list in self.lists.values_mut() {
                list.seal(whole * WINDOW, &self.lengths);
            }
        }
    }

    fn wanted(&self, slot: u32, now: Timestamp) -> bool {
        if self.sure[slot as usize] {
            return true;
        }
        let document = &self.documents[slot as usize];
        document.alive && document.expires_at.is_none_or(|end| end > now)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a first look needs no more")]
    fn terms(&self, words: &[(String, u64)], collection: Collection) -> Vec<Term<'_>> {
        let term = |(word, having): &(String, u64)| {
            Some(Term {
                list: self.lists.get(word)?,
                having: *having,
                rarity: lexical::rarity(*having, collection) as f32,
            })
        };
        words.iter().filter_map(term).collect()
    }

    /// The best `n` by BM25, ties by id. `words` come with the number of memories that have them.
    pub(super) fn search(
        &self,
        words: &[(String, u64)],
        collection: Collection,
        n: usize,
        now: Timestamp,
    ) -> Vec<(MemoryId, u32, f64)> {
        let terms = self.terms(words, collection);
        let wanted = |slot| self.wanted(slot, now);
        let found = prune::candidates(&terms, &self.lengths, Weigh::new(collection), n, wanted);
        let mut exact: Vec<(MemoryId, u32, f64)> = found
            .into_iter()
            .map(|(slot, _)| {
                let document = &self.documents[slot as usize];
                (document.id, document.tokens, self.score(&terms, slot, collection))
            })
            .collect();
        exact.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        exact.truncate(n);
        exact
    }

    /// The score as every store computes it, to the bit.
    fn score(&self, terms: &[Term<'_>], slot: u32, collection: Collection) -> f64 {
        let mut found: Vec<(u64, u32)> = terms
            .iter()
            .map(|term| (term.having, term.list.count(slot)))
            .filter(|&(_, count)| count > 0)
            .collect();
        found.sort_unstable();
        lexical::score(&found, self.lengths[slot as usize].into(), collection)
    }
}

#[cfg(test)]
mod tests;
