//! Which documents have a word, and how much the word can add in each stretch of them.

use super::weigh::Weigh;
use crate::lexical::COUNT_MAX;

/// Bits of a posting that hold how often the word occurs; the rest is the slot.
const COUNT_BITS: u32 = 7;
const _: () = assert!(COUNT_MAX < 1 << COUNT_BITS);
/// Documents that are scored together: their sums and lengths stay in the nearest cache.
pub(super) const WINDOW: usize = 2_048;
/// Lists up to this length are looked through for what they add at most; longer ones know it.
const SHORT: usize = 1_024;
/// Counts that are told apart in a [`Bound`]: once, twice, more often.
const CLASSES: usize = 3;

/// A slot and how often the word occurs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Posting(u32);

impl Posting {
    const fn first(slot: u32) -> Self {
        Self(slot << COUNT_BITS | 1)
    }

    #[inline(always)]
    pub(super) const fn slot(self) -> u32 {
        self.0 >> COUNT_BITS
    }

    #[inline(always)]
    pub(super) const fn count(self) -> u32 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

/// What became of a word that was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// The document had not had it.
    New,
    /// It occurs once more.
    Again,
    /// It occurs so often that it is not counted any more.
    Uncounted,
}

/// The documents of one window that have a word: where their postings end, and the shortest of them by count.
#[derive(Debug, Clone, Copy)]
struct Bound {
    window: u32,
    end: u32,
    shortest: [u16; CLASSES],
    most: u8,
}

impl Bound {
    const fn new(window: u32) -> Self {
        Self {
            window,
            end: 0,
            shortest: [u16::MAX; CLASSES],
            most: 0,
        }
    }

    fn take(&mut self, position: usize, count: u32, length: u32) {
        self.end = u32::try_from(position + 1).unwrap_or(u32::MAX);
        // A length that is cut makes the bound higher, never lower.
        let length = u16::try_from(length).unwrap_or(u16::MAX).min(u16::MAX - 1);
        let shortest = &mut self.shortest[(count as usize).clamp(1, CLASSES) - 1];
        *shortest = length.min(*shortest);
        self.most = self.most.max(u8::try_from(count).unwrap_or(u8::MAX));
    }

    /// The largest factor of any of its documents, or more.
    fn factor(&self, weigh: Weigh) -> f32 {
        let mut factor = 0.0_f32;
        for (count, &shortest) in (1..).zip(&self.shortest) {
            if shortest < u16::MAX {
                let count = if count < CLASSES as u32 {
                    count
                } else {
                    self.most.into()
                };
                factor = factor.max(weigh.factor(count, shortest.into()));
            }
        }
        factor
    }
}

/// The postings of a word by slot.
#[derive(Debug, Default)]
pub(super) struct PostingList {
    postings: Vec<Posting>,
    /// Of a long list: its windows that no document will be added to. Empty ones are left out.
    bounds: Vec<Bound>,
}

impl PostingList {
    /// Enters a word of the newest document.
    pub(super) fn enter(&mut self, slot: u32) -> Entered {
        match self.postings.last_mut() {
            Some(last) if last.slot() == slot && last.count() == COUNT_MAX => Entered::Uncounted,
            Some(last) if last.slot() == slot => {
                last.0 += 1;
                Entered::Again
            }
            _ => {
                self.postings.push(Posting::first(slot));
                Entered::New
            }
        }
    }

    /// Bounds the windows that ended before document `end`.
    pub(super) fn seal(&mut self, end: usize, lengths: &[u32]) {
        if self.postings.len() <= SHORT {
            return;
        }
        for position in self.sealed()..self.postings.len() {
            let posting = self.postings[position];
            let slot = posting.slot() as usize;
            if slot >= end {
                break;
            }
            let window = window_of(posting);
            match self.bounds.last_mut() {
                Some(bound) if bound.window == window => bound.take(position, posting.count(), lengths[slot]),
                _ => {
                    let mut bound = Bound::new(window);
                    bound.take(position, posting.count(), lengths[slot]);
                    self.bounds.push(bound);
                }
            }
        }
    }

    /// Postings whose windows are bounded.
    fn sealed(&self) -> usize {
        self.bounds.last().map_or(0, |bound| bound.end as usize)
    }

    /// How often the word occurs in a document.
    pub(super) fn count(&self, slot: u32) -> u32 {
        count_in(&self.postings, slot)
    }
}

fn window_of(posting: Posting) -> u32 {
    posting.slot() / WINDOW as u32
}

/// How often a word occurs in a document, by some of its postings.
pub(super) fn count_in(postings: &[Posting], slot: u32) -> u32 {
    let position = postings.partition_point(|posting| posting.slot() < slot);
    postings
        .get(position)
        .filter(|posting| posting.slot() == slot)
        .map_or(0, |posting| posting.count())
}

/// A list that is read window by window.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    list: &'a PostingList,
    position: usize,
    bound: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(list: &'a PostingList) -> Self {
        Self {
            list,
            position: 0,
            bound: 0,
        }
    }

    /// The postings of a window and the largest factor among them, or more. Windows are asked for in order.
    pub(super) fn enter(&mut self, window: u32, weigh: Weigh, lengths: &[u32]) -> (&'a [Posting], f32) {
        let list = self.list;
        while let Some(bound) = list.bounds.get(self.bound)
            && bound.window <= window
        {
            let from = self.position;
            (self.position, self.bound) = (bound.end as usize, self.bound + 1);
            if bound.window == window {
                return (&list.postings[from..self.position], bound.factor(weigh));
            }
        }
        if self.bound < list.bounds.len() {
            return (&[], 0.0);
        }
        // The rest of a list is either short or one open window.
        let rest = &list.postings[self.position..];
        let before = rest
            .iter()
            .take_while(|&&posting| window_of(posting) < window)
            .count();
        let rest = &rest[before..];
        let inside = if list.bounds.is_empty() {
            rest.iter()
                .take_while(|&&posting| window_of(posting) == window)
                .count()
        } else {
            rest.partition_point(|&posting| window_of(posting) == window)
        };
        self.position += before + inside;
        let postings = &rest[..inside];
        let factor = if list.bounds.is_empty() {
            let factor = |posting: &Posting| weigh.factor(posting.count(), lengths[posting.slot() as usize]);
            postings.iter().map(factor).fold(0.0, f32::max)
        } else {
            weigh.factor_max()
        };
        (postings, if postings.is_empty() { 0.0 } else { factor })
    }
}
