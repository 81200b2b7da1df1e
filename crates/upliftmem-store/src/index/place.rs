//! Where a new node goes in the [`Graph`].

use super::{
    graph::{Graph, Links, NEIGHBOURS, Near, ROOM, nears},
    vectors::Vectors,
};

/// Candidates that are looked at to place a node.
const BREADTH_INSERT: usize = 128;
/// Levels are bounded; 2^4 per level makes this unreachable.
const LEVEL_MAX: u8 = 12;

/// The neighbours of a new node by level: found under a shared lock, entered under an exclusive one.
#[derive(Debug)]
pub(super) struct Place {
    neighbours: Vec<Vec<u32>>,
}

impl Graph {
    /// Finds the neighbours of a slot among the nodes of the graph, which are `first`, and the slots between them
    /// and this one. So the slots of a batch can be placed in any order and on any number of threads.
    pub(super) fn place(&self, vectors: &Vectors, first: usize, slot: u32) -> Place {
        let level = level_of(slot);
        let query = vectors.code(slot);
        let mut neighbours = vec![Vec::new(); usize::from(level) + 1];
        let mut nearest = self.entry_point(vectors, &query);
        for depth in (0..self.height().max(neighbours.len())).rev() {
            if depth >= neighbours.len() {
                nearest = nearest.map(|near| self.descend(vectors, &query, near, depth));
                continue;
            }
            let mut found = Vec::new();
            if let Some(start) = nearest.filter(|_| depth < self.height()) {
                found = self
                    .search_level(vectors, &query, start, depth, BREADTH_INSERT, |_| true)
                    .unwrap_or_default();
                nearest = found.first().copied().or(nearest);
            }
            let mates: Vec<u32> = (slot_number(first)..slot)
                .filter(|&mate| usize::from(level_of(mate)) >= depth)
                .collect();
            let mut similarities = Vec::new();
            vectors.compare(&query, &mates, &mut similarities);
            found.extend(nears(&mates, &similarities));
            found.sort_unstable_by(|a, b| b.cmp(a));
            found.truncate(BREADTH_INSERT);
            neighbours[depth] = select(vectors, &found, width(depth));
        }
        Place { neighbours }
    }

    /// Enters the next slot where [`Self::place`] put it.
    pub(super) fn enter(&mut self, vectors: &Vectors, place: Place) {
        let slot = slot_number(self.len());
        let taller = place.neighbours.len() > self.height();
        for (depth, neighbours) in place.neighbours.iter().enumerate() {
            for &neighbour in neighbours {
                self.link(vectors, neighbour, slot, depth);
            }
        }
        let mut levels = place.neighbours.into_iter();
        self.lowest.push(Links::new(&levels.next().unwrap_or_default()));
        let upper: Vec<Vec<u32>> = levels.collect();
        if !upper.is_empty() {
            self.upper.insert(slot, upper);
        }
        if self.entry.is_none() || taller {
            self.entry = Some(slot);
        }
    }

    fn link(&mut self, vectors: &Vectors, from: u32, to: u32, depth: usize) {
        let mut neighbours = self.neighbours(from, depth).to_vec();
        neighbours.push(to);
        if neighbours.len() > width(depth) + ROOM {
            let mut similarities = Vec::new();
            vectors.compare_slots(from, &neighbours, &mut similarities);
            let mut ranked: Vec<Near> = nears(&neighbours, &similarities).collect();
            ranked.sort_unstable_by(|a, b| b.cmp(a));
            neighbours = select(vectors, &ranked, width(depth));
        }
        if depth == 0 {
            self.lowest[from as usize] = Links::new(&neighbours);
        } else if let Some(level) = self
            .upper
            .get_mut(&from)
            .and_then(|levels| levels.get_mut(depth - 1))
        {
            *level = neighbours;
        }
    }
}

/// Neighbours that point in different directions: one that is closer to a chosen neighbour than to the centre
/// is reached through that neighbour. Places left over go to the nearest of the rest.
fn select(vectors: &Vectors, ranked: &[Near], most: usize) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(most + 1);
    let mut passed = Vec::new();
    let mut similarities = Vec::new();
    for near in ranked {
        if chosen.len() == most {
            break;
        }
        // The nearest of the chosen are the likeliest to be in the way: a few at a time.
        let apart = chosen.chunks(8).all(|some| {
            vectors.compare_slots(near.slot, some, &mut similarities);
            similarities.iter().all(|&other| other < near.similarity)
        });
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

pub(super) fn slot_number(position: usize) -> u32 {
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
