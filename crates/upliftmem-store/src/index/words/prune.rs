//! The best documents without looking at every posting, and without missing one.
//!
//! Documents are scored a window at a time, word by word (Ding and Suel 2011: block-max; Turtle and Flood 1995: the
//! split into words that can bring a document in and words that can not). Once enough good documents are known,
//! the words that together add less than the worst of them has are asked only about documents that other words brought.

use super::{
    postings::{Cursor, Posting, PostingList, WINDOW, count_in},
    weigh::Weigh,
};

/// Sums of single precision are nearer than this, relatively: whoever is so near the cut is kept. With at most 256
/// words a sum is off by 2^-24 for each of about 260 roundings, and two sums are compared.
pub(super) const ROUNDING: f32 = 1e-4;
/// Looking a document up in a list costs about as much as adding so many postings.
const LOOK_UP: usize = 8;

/// Sums that are compared together.
const LANES: usize = 16;

/// A word of a query.
#[derive(Debug)]
pub(super) struct Term<'a> {
    pub(super) list: &'a PostingList,
    /// How many memories have it.
    pub(super) having: u64,
    pub(super) rarity: f32,
}

/// What a word has in one window.
#[derive(Debug)]
struct Part<'a> {
    postings: &'a [Posting],
    rarity: f32,
    /// What it adds to any document at most, rounded up.
    most: f32,
    /// What it and all parts after it add at most.
    from_here: f32,
}

/// Every wanted document that can be among the best `n`, with its score.
pub(super) fn candidates(
    terms: &[Term<'_>],
    lengths: &[u32],
    weigh: Weigh,
    n: usize,
    mut wanted: impl FnMut(u32) -> bool,
) -> Vec<(u32, f32)> {
    let mut cursors: Vec<Cursor<'_>> = terms.iter().map(|term| Cursor::new(term.list)).collect();
    let mut pool = Pool::new(n);
    let mut parts: Vec<Part<'_>> = Vec::with_capacity(terms.len());
    let mut sums = [0.0_f32; WINDOW];
    let mut places: Vec<u32> = Vec::new();
    for (window, lengths_here) in (0_u32..).zip(lengths.chunks(WINDOW)) {
        parts.clear();
        for (cursor, term) in cursors.iter_mut().zip(terms) {
            let (postings, factor) = cursor.enter(window, weigh, lengths);
            if !postings.is_empty() {
                parts.push(Part {
                    postings,
                    rarity: term.rarity,
                    most: (term.rarity * factor).max(f32::MIN_POSITIVE) * (1.0 + ROUNDING),
                    from_here: 0.0,
                });
            }
        }
        parts.sort_by(|a, b| b.most.total_cmp(&a.most));
        let mut sum = 0.0;
        for part in parts.iter_mut().rev() {
            sum += part.most;
            part.from_here = sum;
        }
        let leading = parts.partition_point(|part| part.from_here >= pool.cut);
        if leading == 0 {
            continue;
        }
        let (leading, others) = parts.split_at(leading);
        for part in leading {
            part.add_all(&mut sums, lengths_here, weigh);
        }
        let to_come = others.first().map_or(0.0, |part| part.from_here);
        reaching(&sums[..lengths_here.len()], pool.cut - to_come, &mut places);
        for (number, part) in others.iter().enumerate() {
            part.add_to(&places, &mut sums, lengths_here, weigh, window);
            let to_come = others.get(number + 1).map_or(0.0, |next| next.from_here);
            places.retain(|&place| sums[place as usize] + to_come >= pool.cut);
        }
        for &place in &places {
            let slot = window * WINDOW as u32 + place;
            if wanted(slot) {
                pool.found.push((slot, sums[place as usize]));
            }
        }
        sums.fill(0.0);
        pool.settle();
    }
    pool.finish()
}

/// The places of all sums that are touched and reach a number. Most do not, so they are asked together.
fn reaching(sums: &[f32], floor: f32, places: &mut Vec<u32>) {
    let floor = floor.max(f32::MIN_POSITIVE);
    places.clear();
    for (first, some) in (0..).step_by(LANES).zip(sums.chunks(LANES)) {
        if some.iter().fold(false, |any, &sum| any | (sum >= floor)) {
            places.extend(
                (first..)
                    .zip(some)
                    .filter(|&(_, &sum)| sum >= floor)
                    .map(|(place, _)| place),
            );
        }
    }
}

impl Part<'_> {
    #[inline(always)]
    fn add(&self, posting: Posting, sums: &mut [f32; WINDOW], lengths: &[u32], weigh: Weigh) {
        let place = posting.slot() as usize % WINDOW;
        let more = self.rarity * weigh.factor(posting.count(), lengths[place]);
        // A word that adds nothing must not make its document look untouched.
        sums[place] += more.max(f32::MIN_POSITIVE);
    }

    fn add_all(&self, sums: &mut [f32; WINDOW], lengths: &[u32], weigh: Weigh) {
        for &posting in self.postings {
            self.add(posting, sums, lengths, weigh);
        }
    }

    /// Adds to these documents at least.
    fn add_to(&self, places: &[u32], sums: &mut [f32; WINDOW], lengths: &[u32], weigh: Weigh, window: u32) {
        if places.len() * LOOK_UP > self.postings.len() {
            return self.add_all(sums, lengths, weigh);
        }
        for &place in places {
            let count = count_in(self.postings, window * WINDOW as u32 + place);
            if count > 0 {
                sums[place as usize] += self.rarity * weigh.factor(count, lengths[place as usize]);
            }
        }
    }
}

/// The best documents so far.
#[derive(Debug)]
struct Pool {
    n: usize,
    found: Vec<(u32, f32)>,
    /// Whoever has less is not among the best.
    cut: f32,
    /// How many there may be before the worst are dropped.
    room: usize,
}

impl Pool {
    const fn new(n: usize) -> Self {
        Self {
            n,
            found: Vec::new(),
            cut: f32::NEG_INFINITY,
            room: n,
        }
    }

    fn settle(&mut self) {
        if self.found.len() < self.room {
            return;
        }
        self.drop_worst();
        // Ties at the cut all stay: their number must not make every window look at all of them.
        self.room = self.found.len() + (self.n / 4).max(self.found.len() / 4);
    }

    fn drop_worst(&mut self) {
        if self.n == 0 || self.found.len() < self.n {
            return;
        }
        let mut scores: Vec<f32> = self.found.iter().map(|&(_, score)| score).collect();
        let (_, &mut nth, _) = scores.select_nth_unstable_by(self.n - 1, |a, b| b.total_cmp(a));
        self.cut = nth * (1.0 - ROUNDING);
        let cut = self.cut;
        self.found.retain(|&(_, score)| score >= cut);
    }

    fn finish(mut self) -> Vec<(u32, f32)> {
        self.drop_worst();
        self.found
    }
}
