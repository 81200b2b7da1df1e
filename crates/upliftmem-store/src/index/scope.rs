//! One index a scope, brought up to date before every answer.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use upliftmem_core::MemoryId;

use super::{
    graph::{Graph, Near},
    vectors::{Vectors, dot},
};
use crate::{error::Result, time::Timestamp};

/// Up to so many vectors a scan is exact and as fast as the graph.
const EXACT_MAX: usize = 8_192;
/// Candidates the graph looks at, at least; the answer is the best of them.
const BREADTH_MIN: usize = 256;
/// Numbers of all indexes together (4 GiB), and scopes that have one, at most.
const FLOATS_MAX: usize = 1 << 30;
const SCOPES_MAX: usize = 10_000;
/// A graph with more dead slots than this share is built anew.
const DEAD_SHARE_MAX: usize = 4;

/// One changed memory, as the database has it.
#[derive(Debug)]
pub(crate) struct IndexRow {
    /// The row's number in the database.
    pub(crate) number: i64,
    /// The memory.
    pub(crate) id: MemoryId,
    /// Its length in tokens.
    pub(crate) tokens: u32,
    /// From when on it is not recalled.
    pub(crate) expires_at: Option<Timestamp>,
    /// Its vector; none if it is not to be found.
    pub(crate) vector: Option<Vec<f32>>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    id: MemoryId,
    tokens: u32,
    expires_at: Option<Timestamp>,
    alive: bool,
}

/// A found memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    pub(crate) id: MemoryId,
    pub(crate) tokens: u32,
    pub(crate) cosine: f32,
}

/// The vectors of one scope and one generation.
#[derive(Debug)]
struct ScopeIndex {
    generation: i64,
    version: i64,
    vectors: Vectors,
    slots: Vec<Slot>,
    slot_of: HashMap<i64, u32>,
    dead: usize,
    graph: Graph,
}

impl ScopeIndex {
    fn new(generation: i64, dimension: usize) -> Self {
        Self {
            generation,
            version: 0,
            vectors: Vectors::new(dimension),
            slots: Vec::new(),
            slot_of: HashMap::new(),
            dead: 0,
            graph: Graph::default(),
        }
    }

    fn apply(&mut self, row: &IndexRow) {
        let known = self.slot_of.get(&row.number).copied();
        if let Some(slot) = known {
            let unchanged = row
                .vector
                .as_deref()
                .is_some_and(|vector| vector == self.vectors.get(slot));
            if unchanged {
                self.slots[slot as usize].expires_at = row.expires_at;
                return;
            }
            self.slots[slot as usize].alive = false;
            self.slot_of.remove(&row.number);
            self.dead += 1;
        }
        if let Some(vector) = &row.vector {
            let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.vectors.push(vector);
            self.slots.push(Slot {
                id: row.id,
                tokens: row.tokens,
                expires_at: row.expires_at,
                alive: true,
            });
            self.slot_of.insert(row.number, slot);
        }
    }

    fn wanted(&self, slot: u32, now: Timestamp) -> bool {
        let slot = &self.slots[slot as usize];
        slot.alive && slot.expires_at.is_none_or(|end| end > now)
    }

    fn search(&self, query: &[f32], n: usize, now: Timestamp) -> Vec<Found> {
        let covered = if self.vectors.len() > EXACT_MAX {
            self.graph.len()
        } else {
            0
        };
        let mut near = Vec::new();
        if covered > 0 {
            let breadth = BREADTH_MIN.max(2 * n);
            // A filter that leaves little can starve the walk: then every slot is looked at.
            near = self
                .graph
                .search(&self.vectors, query, breadth, |slot| self.wanted(slot, now))
                .filter(|near| near.len() >= n)
                .unwrap_or_else(|| self.scan(query, 0..covered, now));
        }
        near.extend(self.scan(query, covered..self.vectors.len(), now));
        self.best(near, n)
    }

    fn scan(&self, query: &[f32], slots: std::ops::Range<usize>, now: Timestamp) -> Vec<Near> {
        slots
            .filter_map(|slot| u32::try_from(slot).ok())
            .filter(|&slot| self.wanted(slot, now))
            .map(|slot| Near {
                similarity: dot(query, self.vectors.get(slot)),
                slot,
            })
            .collect()
    }

    /// The best `n`, ties by id.
    fn best(&self, mut near: Vec<Near>, n: usize) -> Vec<Found> {
        let order = |a: &Near, b: &Near| {
            let id = |near: &Near| self.slots[near.slot as usize].id;
            b.similarity.total_cmp(&a.similarity).then(id(a).cmp(&id(b)))
        };
        if near.len() > n && n > 0 {
            near.select_nth_unstable_by(n - 1, order);
        }
        near.truncate(n);
        near.sort_unstable_by(order);
        near.into_iter()
            .map(|near| {
                let slot = &self.slots[near.slot as usize];
                Found {
                    id: slot.id,
                    tokens: slot.tokens,
                    cosine: near.similarity,
                }
            })
            .collect()
    }
}

/// One scope's index with the state of its builder.
#[derive(Debug, Default)]
struct Shared {
    index: RwLock<Option<ScopeIndex>>,
    building: AtomicBool,
    /// Numbers of the index, and when it was last asked, by the count of questions.
    floats: AtomicUsize,
    asked: AtomicU64,
}

/// The indexes of all scopes that were searched since the store was opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScopeIndexes {
    scopes: Arc<Mutex<HashMap<i64, Arc<Shared>>>>,
    questions: Arc<AtomicU64>,
}

impl ScopeIndexes {
    /// The best `n` of a scope as of `version`, which the caller read in the same snapshot that `changes` reads.
    ///
    /// `changes(since, into)` hands over every row that changed after version `since`.
    #[expect(
        clippy::too_many_arguments,
        reason = "a snapshot's coordinates and a question"
    )]
    pub(crate) fn nearest(
        &self,
        scope: i64,
        version: i64,
        generation: i64,
        query: &[f32],
        n: usize,
        now: Timestamp,
        changes: impl FnOnce(i64, &mut dyn FnMut(IndexRow)) -> Result<()>,
    ) -> Result<Vec<Found>> {
        let shared = {
            let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(scopes.entry(scope).or_default())
        };
        let question = self.questions.fetch_add(1, Ordering::Relaxed);
        shared.asked.store(question, Ordering::Relaxed);
        let fresh = |index: &Option<ScopeIndex>| {
            index
                .as_ref()
                .is_some_and(|index| index.generation == generation && index.version >= version)
        };
        {
            let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
            if fresh(&index)
                && let Some(index) = index.as_ref()
            {
                return Ok(index.search(query, n, now));
            }
        }
        {
            let mut index = shared.index.write().unwrap_or_else(PoisonError::into_inner);
            if !fresh(&index) {
                catch_up(&mut index, generation, version, query.len(), changes)?;
                let slots = index.as_ref().map_or(0, |index| index.slots.len());
                shared.floats.store(slots * query.len(), Ordering::Relaxed);
            }
        }
        self.forget_unused(scope);
        build_in_background(&shared);
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        Ok(index
            .as_ref()
            .map(|index| index.search(query, n, now))
            .unwrap_or_default())
    }

    /// Drops the indexes that were asked longest ago while all of them together are too large. They are read again
    /// from the database when they are asked again.
    fn forget_unused(&self, current: i64) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let floats = |shared: &Arc<Shared>| shared.floats.load(Ordering::Relaxed);
        while scopes.len() > SCOPES_MAX || scopes.values().map(floats).sum::<usize>() > FLOATS_MAX {
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

impl ScopeIndex {
    const fn unbuilt(&self) -> usize {
        if self.vectors.len() > EXACT_MAX {
            self.vectors.len() - self.graph.len()
        } else {
            0
        }
    }
}

fn catch_up(
    index: &mut Option<ScopeIndex>,
    generation: i64,
    version: i64,
    dimension: usize,
    changes: impl FnOnce(i64, &mut dyn FnMut(IndexRow)) -> Result<()>,
) -> Result<()> {
    // A new generation, or too many dead slots, starts from nothing.
    let mut current = index
        .take()
        .filter(|index| index.generation == generation && index.dead * DEAD_SHARE_MAX <= index.slots.len())
        .unwrap_or_else(|| ScopeIndex::new(generation, dimension));
    // On an error the index stays empty and the next question starts over: never half a change.
    changes(current.version, &mut |row| current.apply(&row))?;
    current.version = version;
    *index = Some(current);
    Ok(())
}

/// Extends the graph, a node at a time, while questions are answered: what it does not cover is scanned.
fn build_in_background(shared: &Arc<Shared>) {
    let behind = {
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        index
            .as_ref()
            .is_some_and(|index| index.unbuilt() > EXACT_MAX / 4)
    };
    if !behind || shared.building.swap(true, Ordering::AcqRel) {
        return;
    }
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        while extend(&shared) {}
        shared.building.store(false, Ordering::Release);
    });
}

/// Enters one node; false when there is none left, or nobody but the builder holds the index.
fn extend(shared: &Arc<Shared>) -> bool {
    if Arc::strong_count(shared) == 1 {
        return false;
    }
    let (placement, position, generation) = {
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        match index.as_ref() {
            Some(index) if index.unbuilt() > 0 => (
                index.graph.place(&index.vectors),
                index.graph.len(),
                index.generation,
            ),
            _ => return false,
        }
    };
    let mut index = shared.index.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = index.as_mut()
        && index.generation == generation
        && index.graph.len() == position
        && index.vectors.len() > position
    {
        let ScopeIndex { graph, vectors, .. } = index;
        graph.enter(vectors, placement);
    }
    true
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
            indexes
                .nearest(scope, 1, 1, &[1.0], 1, Timestamp::default(), none)
                .unwrap();
        }
        let kept = indexes.scopes.lock().unwrap();
        assert_eq!(kept.len(), SCOPES_MAX);
        assert!(kept.contains_key(&11_999) && !kept.contains_key(&0));
    }

    #[test]
    fn changes_are_seen_and_the_dead_are_not() {
        let indexes = ScopeIndexes::default();
        let ask = |version: i64, generation: i64, now: u64, rows: Vec<IndexRow>| {
            let found = indexes
                .nearest(
                    1,
                    version,
                    generation,
                    &[1.0, 0.0],
                    10,
                    Timestamp::from_millis(now),
                    |_, each| {
                        rows.into_iter().for_each(each);
                        Ok(())
                    },
                )
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
}
