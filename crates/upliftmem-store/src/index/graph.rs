//! A hierarchical navigable small world graph (Malkov and Yashunin 2016) over [`Vectors`].
//!
//! Written here because the order of insertion and a hash of the slot decide everything: the same vectors in
//! the same order give the same graph, which the libraries that insert in parallel do not promise.

use std::{
    cell::RefCell,
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::vectors::{Vectors, dot};

/// Neighbours of a node on upper levels; twice as many on the lowest.
const NEIGHBOURS: usize = 16;
/// Candidates that are looked at to place a node.
const BREADTH_INSERT: usize = 128;
/// A walk that compared so many slots for each wanted answer is given up.
const VISITS_PER_BREADTH: usize = 64;
/// Levels are bounded; 2^4 per level makes this unreachable.
const LEVEL_MAX: u8 = 12;

/// A slot and how similar it is to what is looked for. The order is by similarity, then the smaller slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Near {
    pub(super) similarity: f32,
    pub(super) slot: u32,
}

impl Eq for Near {}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        self.similarity
            .total_cmp(&other.similarity)
            .then(other.slot.cmp(&self.slot))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Default)]
struct Node {
    /// Neighbours by level, the lowest first.
    levels: Vec<Vec<u32>>,
}

/// The graph. Nodes are the first slots of the vectors, in order.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    entry: Option<u32>,
}

/// Where a node goes: found under a shared lock, entered under an exclusive one.
#[derive(Debug)]
pub(super) struct Placement {
    neighbours: Vec<Vec<u32>>,
}

impl Graph {
    /// How many slots the graph covers.
    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Finds the neighbours of the next slot. Only reads.
    pub(super) fn place(&self, vectors: &Vectors) -> Placement {
        let slot = slot_number(self.nodes.len());
        let level = level_of(slot);
        let mut neighbours = vec![Vec::new(); usize::from(level) + 1];
        if let Some(mut nearest) = self.entry_point(vectors, vectors.get(slot)) {
            let query = vectors.get(slot);
            for depth in (0..self.height()).rev() {
                if depth > usize::from(level) {
                    nearest = self.descend(vectors, query, nearest, depth);
                    continue;
                }
                let found = self
                    .search_level(vectors, query, nearest, depth, BREADTH_INSERT, |_| true)
                    .unwrap_or_default();
                if let Some(&best) = found.first() {
                    nearest = best;
                }
                neighbours[depth] = select(vectors, &found, width(depth));
            }
        }
        Placement { neighbours }
    }

    /// Enters the next slot where [`Self::place`] put it.
    pub(super) fn enter(&mut self, vectors: &Vectors, placement: Placement) {
        let slot = slot_number(self.nodes.len());
        let taller = placement.neighbours.len() > self.height();
        for (depth, neighbours) in placement.neighbours.iter().enumerate() {
            for &neighbour in neighbours {
                self.link(vectors, neighbour, slot, depth);
            }
        }
        self.nodes.push(Node {
            levels: placement.neighbours,
        });
        if self.entry.is_none() || taller {
            self.entry = Some(slot);
        }
    }

    /// The most similar wanted slots, best first, at most `breadth`. `None` if so few are wanted that the walk would
    /// not end soon.
    pub(super) fn search(
        &self,
        vectors: &Vectors,
        query: &[f32],
        breadth: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<Vec<Near>> {
        let Some(mut nearest) = self.entry_point(vectors, query) else {
            return Some(Vec::new());
        };
        for depth in (1..self.height()).rev() {
            nearest = self.descend(vectors, query, nearest, depth);
        }
        self.search_level(vectors, query, nearest, 0, breadth, wanted)
    }

    fn height(&self) -> usize {
        self.entry
            .map_or(0, |slot| self.nodes[slot as usize].levels.len())
    }

    fn entry_point(&self, vectors: &Vectors, query: &[f32]) -> Option<Near> {
        self.entry.map(|slot| Near {
            similarity: dot(query, vectors.get(slot)),
            slot,
        })
    }

    fn descend(&self, vectors: &Vectors, query: &[f32], mut nearest: Near, depth: usize) -> Near {
        loop {
            let neighbours = &self.nodes[nearest.slot as usize].levels[depth];
            let best = neighbours
                .iter()
                .map(|&slot| Near {
                    similarity: dot(query, vectors.get(slot)),
                    slot,
                })
                .max();
            match best {
                Some(best) if best > nearest => nearest = best,
                _ => return nearest,
            }
        }
    }

    fn search_level(
        &self,
        vectors: &Vectors,
        query: &[f32],
        start: Near,
        depth: usize,
        breadth: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<Vec<Near>> {
        VISITED.with_borrow_mut(|visited| {
            visited.begin(self.nodes.len());
            visited.first_visit(start.slot);
            let mut open = BinaryHeap::from([start]);
            let mut best = BinaryHeap::new();
            if wanted(start.slot) {
                best.push(Reverse(start));
            }
            let mut visits = 0;
            while let Some(next) = open.pop() {
                if best.len() >= breadth && best.peek().is_some_and(|worst: &Reverse<Near>| next < worst.0) {
                    break;
                }
                for &slot in &self.nodes[next.slot as usize].levels[depth] {
                    if !visited.first_visit(slot) {
                        continue;
                    }
                    visits += 1;
                    let near = Near {
                        similarity: dot(query, vectors.get(slot)),
                        slot,
                    };
                    // Unwanted slots lead on like wanted ones, but are not answers.
                    let hopeless = best.len() >= breadth && best.peek().is_some_and(|worst| near < worst.0);
                    if !hopeless {
                        open.push(near);
                        if wanted(slot) {
                            keep(&mut best, near, breadth);
                        }
                    }
                }
                if visits > VISITS_PER_BREADTH * breadth {
                    return None;
                }
            }
            let mut found: Vec<Near> = best.into_iter().map(|near| near.0).collect();
            found.sort_unstable_by(|a, b| b.cmp(a));
            Some(found)
        })
    }

    fn link(&mut self, vectors: &Vectors, from: u32, to: u32, depth: usize) {
        let neighbours = &mut self.nodes[from as usize].levels[depth];
        neighbours.push(to);
        if neighbours.len() <= width(depth) {
            return;
        }
        let centre = vectors.get(from);
        let mut ranked: Vec<Near> = neighbours
            .iter()
            .map(|&slot| Near {
                similarity: dot(centre, vectors.get(slot)),
                slot,
            })
            .collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        *neighbours = select(vectors, &ranked, width(depth));
    }
}

/// Keeps the `most` best in a heap whose top is the worst.
fn keep(heap: &mut BinaryHeap<Reverse<Near>>, near: Near, most: usize) {
    if heap.len() < most {
        heap.push(Reverse(near));
    } else if let Some(mut worst) = heap.peek_mut()
        && near > worst.0
    {
        *worst = Reverse(near);
    }
}

/// Neighbours that point in different directions: one that is closer to a chosen neighbour than to the centre
/// is reached through that neighbour. Places left over go to the nearest of the rest.
fn select(vectors: &Vectors, ranked: &[Near], most: usize) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(most + 1);
    let mut passed = Vec::new();
    for near in ranked {
        if chosen.len() == most {
            break;
        }
        let vector = vectors.get(near.slot);
        let apart = chosen
            .iter()
            .all(|&other| dot(vector, vectors.get(other)) < near.similarity);
        if apart {
            chosen.push(near.slot);
        } else {
            passed.push(near.slot);
        }
    }
    let room = most - chosen.len();
    chosen.extend(passed.into_iter().take(room));
    chosen
}

const fn width(depth: usize) -> usize {
    if depth == 0 { 2 * NEIGHBOURS } else { NEIGHBOURS }
}

fn slot_number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// One slot in sixteen reaches the next level, by a hash of its number.
fn level_of(slot: u32) -> u8 {
    let mut bits = (u64::from(slot) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let level = bits.trailing_zeros() / 4;
    u8::try_from(level).unwrap_or(LEVEL_MAX).min(LEVEL_MAX)
}

thread_local! {
    /// Clearing a mark for each node would cost more than the search: a round number does it at once.
    static VISITED: RefCell<Visited> = const { RefCell::new(Visited { round: 0, marks: Vec::new() }) };
}

struct Visited {
    round: u32,
    marks: Vec<u32>,
}

impl Visited {
    fn begin(&mut self, nodes: usize) {
        if self.marks.len() < nodes {
            self.marks.resize(nodes.next_power_of_two(), 0);
        }
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.marks.fill(0);
            self.round = 1;
        }
    }

    fn first_visit(&mut self, slot: u32) -> bool {
        let mark = &mut self.marks[slot as usize];
        let first = *mark != self.round;
        *mark = self.round;
        first
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn clustered(count: usize, dimension: usize, seed: u64) -> Vectors {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut number = move || rng.random_range(-1.0..1.0_f32);
        let centres: Vec<Vec<f32>> = (0..30)
            .map(|_| (0..dimension).map(|_| number()).collect())
            .collect();
        let mut vectors = Vectors::new(dimension);
        for i in 0..count {
            let centre = &centres[i % centres.len()];
            let raw: Vec<f32> = centre.iter().map(|x| x + 0.7 * number()).collect();
            let length = dot(&raw, &raw).sqrt();
            vectors.push(&raw.iter().map(|x| x / length).collect::<Vec<_>>());
        }
        vectors
    }

    fn build(vectors: &Vectors) -> Graph {
        let mut graph = Graph::default();
        while graph.len() < vectors.len() {
            let placement = graph.place(vectors);
            graph.enter(vectors, placement);
        }
        graph
    }

    fn exact(vectors: &Vectors, query: &[f32], n: usize, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut all: Vec<Near> = (0..vectors.len())
            .map(slot_number)
            .filter(|&slot| wanted(slot))
            .map(|slot| Near {
                similarity: dot(query, vectors.get(slot)),
                slot,
            })
            .collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().take(n).map(|near| near.slot).collect()
    }

    #[test]
    fn the_graph_finds_what_a_scan_finds_with_and_without_a_filter() {
        let vectors = clustered(3_000, 32, 1);
        let graph = build(&vectors);
        let everything = |_: u32| true;
        let some = |slot: u32| slot.is_multiple_of(3);
        for (name, wanted) in [("all", &everything as &dyn Fn(u32) -> bool), ("third", &some)] {
            let mut found = 0;
            for query in 0..100 {
                let query = vectors.get(query * 29);
                let truth = exact(&vectors, query, 20, wanted);
                let answer = graph.search(&vectors, query, 100, wanted).unwrap();
                assert!(answer.iter().all(|near| wanted(near.slot)));
                found += answer
                    .iter()
                    .take(20)
                    .filter(|near| truth.contains(&near.slot))
                    .count();
            }
            assert!(found >= 1_960, "{name}: {found} of 2000");
        }
    }

    #[test]
    fn the_same_vectors_give_the_same_graph() {
        let vectors = clustered(500, 16, 2);
        let [one, two] = [build(&vectors), build(&vectors)];
        for (a, b) in one.nodes.iter().zip(&two.nodes) {
            assert_eq!(a.levels, b.levels);
        }
    }
}
