//! The vectors of one scope: changed row by row, searched exactly while they are few and by the graph when they are many.

use std::collections::HashMap;

use upliftmem_core::MemoryId;

use super::{
    graph::{Graph, Near, nears},
    saved::Saved,
    vectors::{Code, Vectors, dot},
};
use crate::time::Timestamp;

/// Up to so many vectors a scan is exact and as fast as the graph.
pub(super) const EXACT_MAX: usize = 16_384;
/// Candidates the graph looks at, at least; the answer is the best of them. More with every doubling of the vectors
/// from some number on: the same breadth finds less among more.
const BREADTH_MIN: usize = 256;
const BREADTH_STEP: usize = 64;
const BREADTH_GROWS_FROM: usize = 32_768;
/// Slots that are placed in the graph side by side.
pub(super) const BATCH: usize = 128;
/// A saved graph is used if at most one in so many of its nodes has no row any more.
const MISSING_SHARE_MAX: usize = 20;
/// Slots whose codes are asked for together in a scan.
const SCAN_CHUNK: usize = 16;

/// One changed memory, as the database has it.
#[derive(Debug, Clone)]
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
pub(super) struct Slot {
    pub(super) number: i64,
    id: MemoryId,
    tokens: u32,
}

/// The first moment at which a slot is no answer any more, plus one; zero if it has no row. One number a slot, as a walk
/// asks thousands of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Until(u64);

impl Until {
    const GONE: Self = Self(0);

    fn expiry(expires_at: Option<Timestamp>) -> Self {
        Self(expires_at.map_or(u64::MAX, |end| end.millis() + 1))
    }

    const fn is_after(self, now: Timestamp) -> bool {
        self.0 > now.millis() + 1
    }
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
pub(super) struct ScopeIndex {
    pub(super) generation: i64,
    pub(super) version: i64,
    pub(super) vectors: Vectors,
    pub(super) slots: Vec<Slot>,
    until: Vec<Until>,
    slot_of: HashMap<i64, u32>,
    pub(super) dead: usize,
    pub(super) graph: Graph,
    /// Rows of a saved graph that were not seen yet: their slots and the fingerprints of their vectors.
    pub(super) expected: HashMap<i64, (u32, u32)>,
}

impl ScopeIndex {
    pub(super) fn new(generation: i64, dimension: usize) -> Self {
        Self {
            generation,
            version: 0,
            vectors: Vectors::new(dimension),
            slots: Vec::new(),
            until: Vec::new(),
            slot_of: HashMap::new(),
            dead: 0,
            graph: Graph::default(),
            expected: HashMap::new(),
        }
    }

    /// An index whose nodes wait for their rows.
    pub(super) fn from_saved(generation: i64, dimension: usize, saved: Saved) -> Self {
        let mut index = Self::new(generation, dimension);
        let nothing = vec![0.0; dimension];
        for (slot, &(number, fingerprint)) in (0..).zip(&saved.rows) {
            index.vectors.push(&nothing);
            index.slots.push(Slot {
                number,
                id: MemoryId::from_u128(0),
                tokens: 0,
            });
            index.until.push(Until::GONE);
            index.expected.insert(number, (slot, fingerprint));
        }
        index.dead = saved.rows.len();
        index.graph = saved.graph;
        index
    }

    /// Whether so many nodes found their rows that their edges still lead everywhere.
    pub(super) fn fits(&self) -> bool {
        self.dead * MISSING_SHARE_MAX <= self.graph.len()
    }

    /// Gives a row to the node that was saved for it, if its vector is the same.
    fn revive(&mut self, row: &IndexRow, vector: &[f32]) -> bool {
        let Some((slot, fingerprint)) = self.expected.remove(&row.number) else {
            return false;
        };
        self.vectors.set(slot, vector);
        if self.vectors.fingerprint(slot) != fingerprint {
            return false;
        }
        self.slots[slot as usize] = Slot {
            number: row.number,
            id: row.id,
            tokens: row.tokens,
        };
        self.until[slot as usize] = Until::expiry(row.expires_at);
        self.slot_of.insert(row.number, slot);
        self.dead -= 1;
        true
    }

    pub(super) fn apply(&mut self, row: &IndexRow) {
        let known = self.slot_of.get(&row.number).copied();
        if let Some(slot) = known {
            let unchanged = row
                .vector
                .as_deref()
                .is_some_and(|vector| vector == self.vectors.get(slot));
            if unchanged {
                self.until[slot as usize] = Until::expiry(row.expires_at);
                return;
            }
            self.until[slot as usize] = Until::GONE;
            self.slot_of.remove(&row.number);
            self.dead += 1;
        }
        if let Some(vector) = &row.vector {
            if self.revive(row, vector) {
                return;
            }
            let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.vectors.push(vector);
            self.slots.push(Slot {
                number: row.number,
                id: row.id,
                tokens: row.tokens,
            });
            self.until.push(Until::expiry(row.expires_at));
            self.slot_of.insert(row.number, slot);
        }
    }

    /// Whether a slot has no row.
    pub(super) fn gone(&self, slot: usize) -> bool {
        self.until[slot] == Until::GONE
    }

    fn wanted(&self, slot: u32, now: Timestamp) -> bool {
        self.until[slot as usize].is_after(now)
    }

    pub(super) fn search(&self, query: &[f32], n: usize, now: Timestamp) -> Vec<Found> {
        let code = Code::of(query);
        let covered = if self.vectors.len() > EXACT_MAX {
            self.graph.len()
        } else {
            0
        };
        let mut near = Vec::new();
        if covered > 0 {
            let breadth = breadth(covered).max(2 * n);
            // A filter that leaves little can starve the walk: then every slot is looked at.
            near = self
                .graph
                .search(&self.vectors, &code, breadth, |slot| self.wanted(slot, now))
                .filter(|near| near.len() >= n)
                .unwrap_or_else(|| self.scan(&code, 0..covered, n, now));
        }
        near.extend(self.scan(&code, covered..self.vectors.len(), n, now));
        self.cut(&code, &mut near, n);
        for near in &mut near {
            near.similarity = dot(query, self.vectors.get(near.slot));
        }
        self.best(near, n)
    }

    /// Every wanted slot of a range that can be among its best `n`: nothing is left out that belongs there.
    fn scan(&self, code: &Code, slots: std::ops::Range<usize>, n: usize, now: Timestamp) -> Vec<Near> {
        let slots: Vec<u32> = slots
            .filter_map(|slot| u32::try_from(slot).ok())
            .filter(|&slot| self.wanted(slot, now))
            .collect();
        let (mut near, mut similarities) = (Vec::with_capacity(slots.len()), Vec::new());
        for some in slots.chunks(SCAN_CHUNK) {
            self.vectors.compare(code, some, &mut similarities);
            near.extend(nears(some, &similarities));
        }
        self.cut(code, &mut near, n);
        near
    }

    /// Leaves out what can not be among the best `n`: the others need not be compared by their vectors.
    fn cut(&self, code: &Code, near: &mut Vec<Near>, n: usize) {
        if n == 0 || near.len() <= n {
            return;
        }
        let bound = |near: &Near| self.vectors.error_bound(code, near.slot);
        // The n-th best of what each is at least; whatever can not reach it is not among the best n.
        let mut least: Vec<f32> = near.iter().map(|near| near.similarity - bound(near)).collect();
        let (_, &mut cut, _) = least.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a));
        near.retain(|near| near.similarity + bound(near) >= cut);
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

    /// Slots that wait to be entered into the graph: whole batches, so that where a batch ends, and with it the
    /// graph, does not depend on when rows arrive. The few behind them are scanned.
    pub(super) const fn unbuilt(&self) -> usize {
        if self.vectors.len() > EXACT_MAX {
            (self.vectors.len() - self.graph.len()) / BATCH * BATCH
        } else {
            0
        }
    }
}

const fn breadth(vectors: usize) -> usize {
    match (vectors / BREADTH_GROWS_FROM).checked_ilog2() {
        Some(doublings) => BREADTH_MIN + BREADTH_STEP * doublings as usize,
        None => BREADTH_MIN,
    }
}
