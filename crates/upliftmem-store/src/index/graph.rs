//! A hierarchical navigable small world graph (Malkov and Yashunin 2016) over the codes of [`Vectors`].
//!
//! Written here because the order of insertion and a hash of the slot decide everything: the same vectors in
//! the same order give the same graph, which the libraries that insert in parallel do not promise.

use std::{
    cell::RefCell,
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap},
};

use super::vectors::{Code, Vectors};

/// Neighbours of a node on upper levels; twice as many on the lowest.
pub(super) const NEIGHBOURS: usize = 16;
/// Neighbours that a node may have above that: choosing among them anew is most of the work of building, and
/// happens only when this room is used up.
pub(super) const ROOM: usize = 8;
/// A walk that compared so many slots for each wanted answer is given up.
const VISITS_PER_BREADTH: usize = 64;

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

/// Neighbours of a node on the lowest level, where nearly all of a walk happens: one place in memory a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) count: u32,
    pub(super) slots: [u32; 2 * NEIGHBOURS + ROOM],
}

impl Links {
    pub(super) fn new(neighbours: &[u32]) -> Self {
        let mut slots = [0; 2 * NEIGHBOURS + ROOM];
        let count = neighbours.len().min(slots.len());
        slots[..count].copy_from_slice(&neighbours[..count]);
        Self {
            count: u32::try_from(count).unwrap_or_default(),
            slots,
        }
    }

    pub(super) fn get(&self) -> &[u32] {
        &self.slots[..self.count as usize]
    }
}

/// The graph. Nodes are the first slots of the vectors, in order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Graph {
    pub(super) lowest: Vec<Links>,
    /// Neighbours on the levels above the lowest, of the few nodes that are there.
    pub(super) upper: HashMap<u32, Vec<Vec<u32>>>,
    pub(super) entry: Option<u32>,
}

impl Graph {
    /// How many slots the graph covers.
    pub(super) const fn len(&self) -> usize {
        self.lowest.len()
    }

    /// The most similar wanted slots by their codes, best first, at most `breadth`. `None` if so few are wanted
    /// that the walk would not end soon.
    pub(super) fn search(
        &self,
        vectors: &Vectors,
        query: &Code,
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

    pub(super) fn height(&self) -> usize {
        self.entry
            .map_or(0, |slot| 1 + self.upper.get(&slot).map_or(0, Vec::len))
    }

    pub(super) fn neighbours(&self, slot: u32, depth: usize) -> &[u32] {
        if depth == 0 {
            return self.lowest[slot as usize].get();
        }
        self.upper
            .get(&slot)
            .and_then(|levels| levels.get(depth - 1))
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn entry_point(&self, vectors: &Vectors, query: &Code) -> Option<Near> {
        let slot = self.entry?;
        let mut found = Vec::new();
        vectors.compare(query, &[slot], &mut found);
        Some(Near {
            similarity: found[0],
            slot,
        })
    }

    /// The node of a level that no neighbour is nearer than.
    pub(super) fn descend(&self, vectors: &Vectors, query: &Code, mut nearest: Near, depth: usize) -> Near {
        let mut similarities = Vec::new();
        loop {
            let neighbours = self.neighbours(nearest.slot, depth);
            vectors.compare(query, neighbours, &mut similarities);
            match nears(neighbours, &similarities).max() {
                Some(best) if best > nearest => nearest = best,
                _ => return nearest,
            }
        }
    }

    pub(super) fn search_level(
        &self,
        vectors: &Vectors,
        query: &Code,
        start: Near,
        depth: usize,
        breadth: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<Vec<Near>> {
        VISITED.with_borrow_mut(|visited| {
            visited.begin(self.len());
            visited.first_visit(start.slot);
            let mut open = BinaryHeap::from([start]);
            let mut best = BinaryHeap::with_capacity(breadth + 1);
            if wanted(start.slot) {
                best.push(Reverse(start));
            }
            let (mut fresh, mut similarities) = (Vec::new(), Vec::new());
            let mut visits = 0;
            while let Some(next) = open.pop() {
                if best.len() >= breadth && best.peek().is_some_and(|worst: &Reverse<Near>| next < worst.0) {
                    break;
                }
                let neighbours = self.neighbours(next.slot, depth).iter().copied();
                fresh.clear();
                fresh.extend(neighbours.filter(|&slot| visited.first_visit(slot)));
                vectors.compare(query, &fresh, &mut similarities);
                for near in nears(&fresh, &similarities) {
                    // Unwanted slots lead on like wanted ones, but are not answers.
                    let hopeless = best.len() >= breadth && best.peek().is_some_and(|worst| near < worst.0);
                    if !hopeless {
                        open.push(near);
                        if wanted(near.slot) {
                            keep(&mut best, near, breadth);
                        }
                    }
                }
                visits += fresh.len();
                if visits > VISITS_PER_BREADTH * breadth {
                    return None;
                }
            }
            let mut found: Vec<Near> = best.into_iter().map(|near| near.0).collect();
            found.sort_unstable_by(|a, b| b.cmp(a));
            Some(found)
        })
    }
}

/// Slots with their similarities.
pub(super) fn nears(slots: &[u32], similarities: &[f32]) -> impl Iterator<Item = Near> {
    slots
        .iter()
        .zip(similarities)
        .map(|(&slot, &similarity)| Near { similarity, slot })
}

/// Keeps the `most` best in a heap whose top is the worst.
pub(super) fn keep(heap: &mut BinaryHeap<Reverse<Near>>, near: Near, most: usize) {
    if heap.len() < most {
        heap.push(Reverse(near));
    } else if let Some(mut worst) = heap.peek_mut()
        && near > worst.0
    {
        *worst = Reverse(near);
    }
}

thread_local! {
    /// Clearing a mark for each node would cost more than the search: a round number does it at once.
    static VISITED: RefCell<Visited> = const { RefCell::new(Visited { round: 0, marks: Vec::new() }) };
}

/// Marks are bytes: most of them stay near the processor.
struct Visited {
    round: u8,
    marks: Vec<u8>,
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

    use super::{super::vectors::dot, *};

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
            let first = graph.len();
            let batch = first..vectors.len().min(first + 50);
            let places: Vec<_> = batch
                .map(|slot| graph.place(vectors, first, slot as u32))
                .collect();
            for place in places {
                graph.enter(vectors, place);
            }
        }
        graph
    }

    fn exact(vectors: &Vectors, query: &[f32], n: usize, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut all: Vec<Near> = (0..vectors.len())
            .map(|slot| slot as u32)
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
                let answer = graph.search(&vectors, &Code::of(query), 100, wanted).unwrap();
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
        assert_eq!(build(&vectors), build(&vectors));
    }
}
