//! One index a scope, brought up to date before every answer.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use upliftmem_core::MemoryId;

use super::{
    builder::build_in_background,
    saved,
    scope::{Found, IndexRow, ScopeIndex},
    words::{WordIndex, WordRow},
};
use crate::{error::Result, lexical::Collection, time::Timestamp};

/// Numbers and postings of all indexes together (4 GiB), and scopes that have one, at most.
const NUMBERS_MAX: usize = 1 << 30;
const SCOPES_MAX: usize = 10_000;
/// A graph with more dead slots than this share is built anew.
const DEAD_SHARE_MAX: usize = 4;

/// One scope's index with the state of its builder.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) index: RwLock<Option<ScopeIndex>>,
    words: RwLock<WordIndex>,
    pub(super) building: AtomicBool,
    /// Where the graph is saved, and how many nodes it had when it was.
    pub(super) file: Option<PathBuf>,
    pub(super) saved_nodes: AtomicUsize,
    /// Numbers and postings of the indexes, and when they were last asked, by the count of questions.
    floats: AtomicUsize,
    postings: AtomicUsize,
    asked: AtomicU64,
}

/// The indexes of all scopes that were searched since the store was opened.
#[derive(Debug, Clone)]
pub(crate) struct ScopeIndexes {
    /// The database's file; graphs are saved beside it.
    database: Option<PathBuf>,
    /// Larger scopes are searched by the database.
    memories_max: u64,
    scopes: Arc<Mutex<HashMap<i64, Arc<Shared>>>>,
    questions: Arc<AtomicU64>,
}

impl Default for ScopeIndexes {
    fn default() -> Self {
        Self::up_to(u64::MAX)
    }
}

impl ScopeIndexes {
    /// Indexes of the database in this file.
    pub(crate) fn beside(database: PathBuf) -> Self {
        Self {
            database: Some(database),
            ..Self::default()
        }
    }

    /// Indexes of the scopes that have at most so many memories.
    pub(crate) fn up_to(memories_max: u64) -> Self {
        Self {
            database: None,
            memories_max,
            scopes: Arc::default(),
            questions: Arc::default(),
        }
    }

    /// Whether a scope with so many memories is searched here.
    pub(crate) const fn take(&self, memories: u64) -> bool {
        memories <= self.memories_max
    }

    /// The vectors of a scope as of `version` at least, which the caller read in the same snapshot that `changes` reads.
    ///
    /// `changes(since, into)` hands over every row that changed after version `since`.
    pub(crate) fn vectors(
        &self,
        scope: i64,
        version: i64,
        generation: i64,
        dimension: usize,
        changes: impl FnMut(i64, &mut dyn FnMut(IndexRow)) -> Result<()>,
    ) -> Result<FreshVectors> {
        let shared = self.asked(scope);
        let fresh = |index: &Option<ScopeIndex>| {
            index
                .as_ref()
                .is_some_and(|index| index.generation == generation && index.version >= version)
        };
        let is_fresh = fresh(&shared.index.read().unwrap_or_else(PoisonError::into_inner));
        if !is_fresh {
            {
                let mut index = shared.index.write().unwrap_or_else(PoisonError::into_inner);
                if !fresh(&index) {
                    catch_up(&mut index, &shared, generation, version, dimension, changes)?;
                    let slots = index.as_ref().map_or(0, |index| index.slots.len());
                    shared.floats.store(slots * dimension, Ordering::Relaxed);
                }
            }
            self.forget_unused(scope);
            build_in_background(&shared);
        }
        Ok(FreshVectors { shared, generation })
    }

    /// What is kept of a scope that is asked now.
    fn asked(&self, scope: i64) -> Arc<Shared> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(Shared {
                file: self.database.as_deref().map(|path| saved::file(path, scope)),
                ..Shared::default()
            })
        };
        let shared = Arc::clone(scopes.entry(scope).or_insert_with(new));
        drop(scopes);
        let question = self.questions.fetch_add(1, Ordering::Relaxed);
        shared.asked.store(question, Ordering::Relaxed);
        shared
    }

    /// The words of a scope as of `version` at least, like [`Self::vectors`].
    pub(crate) fn words(
        &self,
        scope: i64,
        version: i64,
        mut changes: impl FnMut(i64, &mut dyn FnMut(WordRow)) -> Result<()>,
    ) -> Result<FreshWords> {
        let shared = self.asked(scope);
        let is_fresh = {
            let index = shared.words.read().unwrap_or_else(PoisonError::into_inner);
            index.version >= version
        };
        if !is_fresh {
            let mut index = shared.words.write().unwrap_or_else(PoisonError::into_inner);
            if index.version < version {
                // On an error the index stays empty and the next question starts over: never half a change.
                let mut current = std::mem::take(&mut *index);
                if current.worn() {
                    current = WordIndex::default();
                }
                changes(current.version, &mut |row| current.apply(&row))?;
                current.seal();
                current.version = version;
                shared.postings.store(current.entries, Ordering::Relaxed);
                *index = current;
            }
            drop(index);
            self.forget_unused(scope);
        }
        Ok(FreshWords { shared })
    }

    /// Drops the indexes that were asked longest ago while all of them together are too large. They are read again
    /// from the database when they are asked again.
    fn forget_unused(&self, current: i64) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = |shared: &Arc<Shared>| {
            shared.floats.load(Ordering::Relaxed) + shared.postings.load(Ordering::Relaxed)
        };
        while scopes.len() > SCOPES_MAX || scopes.values().map(numbers).sum::<usize>() > NUMBERS_MAX {
            let oldest = scopes
                .iter()
                .filter(|&(&scope, _)| scope != current)
                .min_by_key(|(_, shared)| shared.asked.load(Ordering::Relaxed))
                .map(|(&scope, _)| scope);
            let Some(oldest) = oldest else { break };
            scopes.remove(&oldest);
        }
    }

    /// Slots of a scope that its graph does not cover yet; zero for a scope that is scanned.
    pub(crate) fn unbuilt(&self, scope: i64) -> usize {
        let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shared) = scopes.get(&scope) else {
            return 0;
        };
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        index.as_ref().map_or(0, ScopeIndex::unbuilt)
    }
}

/// Vectors that were brought up to date.
#[derive(Debug)]
pub(crate) struct FreshVectors {
    shared: Arc<Shared>,
    generation: i64,
}

impl FreshVectors {
    /// The best `n`. None if the scope went to another generation meanwhile: its vectors say nothing about this query.
    pub(crate) fn nearest(&self, query: &[f32], n: usize, now: Timestamp) -> Option<Vec<Found>> {
        let index = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
        index
            .as_ref()
            .filter(|index| index.generation == self.generation)
            .map(|index| index.search(query, n, now))
    }
}

/// Words that were brought up to date.
#[derive(Debug)]
pub(crate) struct FreshWords {
    shared: Arc<Shared>,
}

impl FreshWords {
    /// The best `n` by BM25.
    pub(crate) fn best(
        &self,
        words: &[(String, u64)],
        collection: Collection,
        n: usize,
        now: Timestamp,
    ) -> Vec<(MemoryId, u32, f64)> {
        let index = self.shared.words.read().unwrap_or_else(PoisonError::into_inner);
        index.search(words, collection, n, now)
    }
}

fn catch_up(
    index: &mut Option<ScopeIndex>,
    shared: &Shared,
    generation: i64,
    version: i64,
    dimension: usize,
    mut changes: impl FnMut(i64, &mut dyn FnMut(IndexRow)) -> Result<()>,
) -> Result<()> {
    let first = index.is_none();
    // A new generation, or too many dead slots, starts from nothing.
    let mut current = index
        .take()
        .filter(|index| index.generation == generation && index.dead * DEAD_SHARE_MAX <= index.slots.len())
        .unwrap_or_else(|| ScopeIndex::new(generation, dimension));
    let saved = shared.file.as_deref().filter(|_| first);
    if let Some(saved) = saved.and_then(|path| saved::load(path, generation, dimension)) {
        let nodes = saved.rows.len();
        let mut restored = ScopeIndex::from_saved(generation, dimension, saved);
        changes(0, &mut |row| restored.apply(&row))?;
        restored.expected = HashMap::new();
        if restored.fits() {
            shared.saved_nodes.store(nodes, Ordering::Relaxed);
            restored.version = version;
            *index = Some(restored);
            return Ok(());
        }
    }
    // On an error the index stays empty and the next question starts over: never half a change.
    changes(current.version, &mut |row| current.apply(&row))?;
    current.version = version;
    *index = Some(current);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: i64, vector: Option<[f32; 2]>, expires_at: Option<u64>) -> IndexRow {
        IndexRow {
            number,
            id: MemoryId::from_u128(u128::from(number.unsigned_abs())),
            tokens: 1,
            expires_at: expires_at.map(Timestamp::from_millis),
            vector: vector.map(Vec::from),
        }
    }

    #[test]
    fn the_scopes_that_were_asked_longest_ago_are_forgotten() {
        let indexes = ScopeIndexes::default();
        for scope in 0..12_000 {
            let none = |_: i64, _: &mut dyn FnMut(IndexRow)| Ok(());
            indexes.vectors(scope, 1, 1, 1, none).unwrap();
        }
        let kept = indexes.scopes.lock().unwrap();
        assert_eq!(kept.len(), SCOPES_MAX);
        assert!(kept.contains_key(&11_999) && !kept.contains_key(&0));
    }

    #[test]
    fn changes_are_seen_and_the_dead_are_not() {
        let indexes = ScopeIndexes::default();
        let ask = |version: i64, generation: i64, now: u64, rows: Vec<IndexRow>| {
            let vectors = indexes
                .vectors(1, version, generation, 2, |_, each| {
                    rows.iter().cloned().for_each(each);
                    Ok(())
                })
                .unwrap();
            let found = vectors
                .nearest(&[1.0, 0.0], 10, Timestamp::from_millis(now))
                .unwrap();
            found.iter().map(|found| found.id.as_u128()).collect::<Vec<_>>()
        };
        let rows = vec![
            row(2, Some([0.6, 0.8]), Some(100)),
            row(1, Some([1.0, 0.0]), None),
        ];
        assert_eq!(ask(1, 1, 0, rows), [1, 2]);
        assert_eq!(ask(1, 1, 100, vec![]), [1], "expired ones go without a write");
        assert_eq!(ask(2, 1, 0, vec![row(1, None, None)]), [2]);
        assert_eq!(
            ask(2, 2, 0, vec![row(1, Some([1.0, 0.0]), None)]),
            [1],
            "a new generation starts over"
        );
    }

    #[test]
    fn a_question_never_meets_the_vectors_of_another_generation() {
        let indexes = ScopeIndexes::default();
        let open = |generation: i64, vector: Vec<f32>| {
            let changed = IndexRow {
                vector: Some(vector),
                ..row(1, None, None)
            };
            let dimension = changed.vector.as_ref().unwrap().len();
            let all = move |_: i64, each: &mut dyn FnMut(IndexRow)| {
                each(changed.clone());
                Ok(())
            };
            indexes.vectors(1, 1, generation, dimension, all).unwrap()
        };
        let before = open(1, vec![1.0, 0.0]);
        let after = open(2, vec![0.0, 0.0, 1.0]);
        let now = Timestamp::default();
        assert_eq!(before.nearest(&[1.0, 0.0], 5, now), None);
        assert_eq!(after.nearest(&[0.0, 0.0, 1.0], 5, now).unwrap().len(), 1);
    }

    #[test]
    fn a_saved_graph_is_used_when_it_fits_and_only_then() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("store.db");
        let rows: Vec<IndexRow> = (1..=60_000_i64)
            .map(|number| {
                let angle = number as f32 * 0.37;
                row(number, Some([angle.cos(), angle.sin()]), None)
            })
            .collect();
        let open = |rows: &[IndexRow], generation: i64| {
            let indexes = ScopeIndexes::beside(database.clone());
            let all = |_: i64, each: &mut dyn FnMut(IndexRow)| {
                rows.iter().cloned().for_each(each);
                Ok(())
            };
            let vectors = indexes.vectors(1, 1, generation, 2, all).unwrap();
            let found = vectors.nearest(&[1.0, 0.0], 20, Timestamp::default()).unwrap();
            (indexes.unbuilt(1), found, indexes)
        };
        let (unbuilt, truth, indexes) = open(&rows, 1);
        assert!(unbuilt > 0, "nothing was saved yet");
        let file = saved::file(&database, 1);
        while !file.exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        drop(indexes);
        let (unbuilt, found, _) = open(&rows, 1);
        assert_eq!((unbuilt, &found), (0, &truth));
        // Gone rows, changed vectors and another order of rows are noticed.
        let mut fewer: Vec<IndexRow> = rows[1_000..].to_vec();
        fewer.reverse();
        fewer[0].vector = Some(vec![1.0, 0.0]);
        let (unbuilt, found, _) = open(&fewer, 1);
        assert_eq!(unbuilt, 0);
        assert!(found.iter().any(|hit| hit.id == fewer[0].id));
        assert!(found.iter().all(|hit| hit.id.as_u128() > 1_000));
        assert!(open(&rows[10_000..], 1).0 > 0, "too much is missing");
        assert!(open(&rows, 2).0 > 0, "another generation");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[5_000] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert!(open(&rows, 1).0 > 0, "damaged");
    }
}
