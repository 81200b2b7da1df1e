//! Keys and values that later calls may need again, within a bound of memory.
//!
//! A cache belongs to one version of a scorer: another adapter has other keys.

use std::{ops::Range, sync::Arc};

use super::ops::KeptLayers;

/// Kept tokens of a text, from its start on.
pub type Spans = Vec<(KeptLayers, Range<usize>)>;

/// A prefix tree of kept tokens; what was not used for longest goes first.
#[derive(Debug)]
pub struct PrefixCache {
    children: Vec<Kept>,
    /// Tokens in the tree and how many may be.
    tokens: usize,
    tokens_max: usize,
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    tokens: Vec<u32>,
    layers: KeptLayers,
    /// Where its tokens are among the layers' rows.
    start: usize,
    used: u64,
    children: Vec<Self>,
}

impl PrefixCache {
    /// An empty cache for so many tokens.
    pub const fn new(tokens_max: usize) -> Self {
        Self {
            children: Vec::new(),
            tokens: 0,
            tokens_max,
            clock: 0,
        }
    }

    /// Tokens that may be kept.
    pub const fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    /// The longest known start of a text.
    pub fn find(&mut self, text: &[u32]) -> Spans {
        self.clock += 1;
        let (mut spans, mut from) = (Vec::new(), 0);
        let mut children = &mut self.children;
        while let Some(child) = children
            .iter_mut()
            .find(|child| text.get(from) == child.tokens.first())
        {
            child.used = self.clock;
            let same = child
                .tokens
                .iter()
                .zip(&text[from..])
                .take_while(|(a, b)| a == b)
                .count();
            spans.push((Arc::clone(&child.layers), child.start..child.start + same));
            from += same;
            if same < child.tokens.len() {
                break;
            }
            children = &mut child.children;
        }
        spans
    }

    /// Keeps the tokens of a text from `from` on. If what stands before them is gone, they are of no use and left out.
    pub fn keep(&mut self, text: &[u32], from: usize, layers: &KeptLayers) {
        if text.len() <= from || text.len() - from > self.tokens_max {
            return;
        }
        self.clock += 1;
        let clock = self.clock;
        let added = insert(&mut self.children, text, 0, from, layers, clock);
        self.tokens += added;
        while self.tokens > self.tokens_max {
            let freed = evict(&mut self.children);
            if freed == 0 {
                break;
            }
            self.tokens -= freed;
        }
    }
}

/// Walks down to where the text leaves the tree, splits there, and adds the rest. Gives the number of tokens added.
fn insert(
    children: &mut Vec<Kept>,
    text: &[u32],
    at: usize,
    from: usize,
    layers: &KeptLayers,
    clock: u64,
) -> usize {
    let found = children
        .iter_mut()
        .find(|child| text.get(at) == child.tokens.first());
    let Some(child) = found else {
        // Nothing stands before the new tokens that the tree does not hold.
        if at < from || at >= text.len() {
            return 0;
        }
        children.push(Kept {
            tokens: text[at..].to_vec(),
            layers: Arc::clone(layers),
            start: at - from,
            used: clock,
            children: Vec::new(),
        });
        return text.len() - at;
    };
    child.used = clock;
    let same = child
        .tokens
        .iter()
        .zip(&text[at..])
        .take_while(|(a, b)| a == b)
        .count();
    if same < child.tokens.len() {
        if at + same == text.len() {
            return 0;
        }
        let below = Kept {
            tokens: child.tokens.split_off(same),
            layers: Arc::clone(&child.layers),
            start: child.start + same,
            used: child.used,
            children: std::mem::take(&mut child.children),
        };
        child.children.push(below);
    }
    insert(&mut child.children, text, at + same, from, layers, clock)
}

/// Forgets the leaf that was not used for longest. Gives the number of its tokens.
fn evict(children: &mut Vec<Kept>) -> usize {
    fn oldest(kept: &Kept) -> u64 {
        kept.children.iter().map(oldest).min().unwrap_or(kept.used)
    }
    let Some(at) = (0..children.len()).min_by_key(|&at| oldest(&children[at])) else {
        return 0;
    };
    if children[at].children.is_empty() {
        return children.swap_remove(at).tokens.len();
    }
    evict(&mut children[at].children)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> KeptLayers {
        Arc::new(Vec::new())
    }

    fn length(cache: &mut PrefixCache, text: &[u32]) -> usize {
        cache.find(text).iter().map(|(_, rows)| rows.len()).sum()
    }

    #[test]
    fn the_longest_start_is_found_and_split_where_texts_part() {
        let mut cache = PrefixCache::new(100);
        cache.keep(&[1, 2, 3, 4, 5], 0, &layers());
        cache.keep(&[1, 2, 3, 9, 9], 3, &layers());
        assert_eq!(length(&mut cache, &[1, 2, 3, 4, 7]), 4);
        assert_eq!(length(&mut cache, &[1, 2, 3, 9, 9, 9]), 5);
        assert_eq!(length(&mut cache, &[7]), 0);
        let spans = cache.find(&[1, 2, 3, 9, 9]);
        assert_eq!(
            spans.iter().map(|(_, rows)| rows.clone()).collect::<Vec<_>>(),
            [0..3, 0..2]
        );
        assert_eq!(cache.tokens, 7);
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut cache = PrefixCache::new(8);
        cache.keep(&[1, 2], 0, &layers());
        cache.keep(&[1, 2, 3, 3, 3], 2, &layers());
        cache.keep(&[1, 2, 4, 4, 4], 2, &layers());
        assert_eq!(length(&mut cache, &[1, 2, 3, 3, 3]), 5);
        cache.keep(&[1, 2, 5, 5, 5], 2, &layers());
        assert!(cache.tokens <= 8);
        assert_eq!(length(&mut cache, &[1, 2, 4, 4, 4]), 2);
        assert_eq!(length(&mut cache, &[1, 2, 3, 3, 3]), 5);
    }

    #[test]
    fn tokens_without_what_stands_before_them_are_left_out() {
        let mut cache = PrefixCache::new(8);
        cache.keep(&[1, 2, 3], 2, &layers());
        assert_eq!(cache.tokens, 0);
        cache.keep(&[0; 9], 0, &layers());
        assert_eq!(cache.tokens, 0);
    }
}
