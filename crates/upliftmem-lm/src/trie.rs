//! Texts with a common start, as a tree: what they share is read once.

use std::ops::Range;

use super::pass::{Before, Segment};

/// Tokens that all texts below have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node it continues; always an earlier one.
    pub parent: Option<usize>,
    /// Its tokens in every text that passes through it.
    pub span: Range<usize>,
    /// A text that passes through it.
    pub text: usize,
    /// Texts that end here.
    pub ends: Vec<usize>,
}

/// A prefix tree over texts, parents before children, whole subtrees one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trie {
    /// Parents before children.
    pub nodes: Vec<Node>,
}

impl Trie {
    /// The tree of texts. No node has more than `longest` tokens, so that any text fits a pass in parts.
    pub fn new(texts: &[impl AsRef<[u32]>], longest: usize) -> Self {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by(|&a, &b| texts[a].as_ref().cmp(texts[b].as_ref()).then(a.cmp(&b)));
        let sorted: Vec<&[u32]> = order.iter().map(|&at| texts[at].as_ref()).collect();
        let shared: Vec<usize> = sorted.windows(2).map(|pair| common(pair[0], pair[1])).collect();
        let mut trie = Self { nodes: Vec::new() };
        let longest = longest.max(1);
        trie.grow(&sorted, &order, &shared, 0, None, longest);
        trie
    }

    /// Adds the texts of one group, all equal up to `from`, below `parent`.
    fn grow(
        &mut self,
        sorted: &[&[u32]],
        order: &[usize],
        shared: &[usize],
        from: usize,
        parent: Option<usize>,
        longest: usize,
    ) {
        let mut first = 0;
        while first < sorted.len() {
            // Texts that go on with the same token.
            let mut last = first;
            while last + 1 < sorted.len() && shared[last] > from {
                last += 1;
            }
            let (group, own_order) = (&sorted[first..=last], &order[first..=last]);
            let own_shared = &shared[first..last];
            let whole = own_shared
                .iter()
                .copied()
                .min()
                .unwrap_or(usize::MAX)
                .min(group[0].len());
            first = last + 1;
            let mut below = parent;
            for start in (from..whole).step_by(longest) {
                self.nodes.push(Node {
                    parent: below,
                    span: start..whole.min(start.saturating_add(longest)),
                    text: own_order[0],
                    ends: Vec::new(),
                });
                below = Some(self.nodes.len() - 1);
            }
            let ended = group.iter().take_while(|text| text.len() == whole).count();
            if let Some(node) = below {
                self.nodes[node].ends = own_order[..ended].to_vec();
            }
            if ended < group.len() && whole > from {
                self.grow(
                    &group[ended..],
                    &own_order[ended..],
                    own_shared.get(ended..).unwrap_or_default(),
                    whole,
                    below,
                    longest,
                );
            }
        }
    }

    /// All nodes as segments of one pass.
    pub fn segments(&self, texts: &[impl AsRef<[u32]>]) -> Vec<Segment> {
        let segment = |(at, node): (usize, &Node)| Segment {
            tokens: texts[node.text].as_ref()[node.span.clone()].to_vec(),
            position: node.span.start,
            before: self.ancestors(at).into_iter().map(Before::Segment).collect(),
            wanted: !node.ends.is_empty(),
        };
        self.nodes.iter().enumerate().map(segment).collect()
    }

    /// Tokens in all nodes together.
    pub fn tokens(&self) -> usize {
        self.nodes.iter().map(|node| node.span.len()).sum()
    }

    /// The way from the root to a node, the node itself not included.
    pub fn ancestors(&self, node: usize) -> Vec<usize> {
        let mut way = Vec::new();
        let mut at = self.nodes[node].parent;
        while let Some(parent) = at {
            way.push(parent);
            at = self.nodes[parent].parent;
        }
        way.reverse();
        way
    }
}

fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_is_the_way_to_its_node(
            texts in prop::collection::vec(prop::collection::vec(0_u32..3, 1..12), 1..20),
            longest in 1_usize..6,
        ) {
            let trie = Trie::new(&texts, longest);
            let mut ended = vec![0; texts.len()];
            for (at, node) in trie.nodes.iter().enumerate() {
                prop_assert!(!node.span.is_empty() && node.span.len() <= longest);
                let mut way = trie.ancestors(at);
                way.push(at);
                let mut position = 0;
                for &step in &way {
                    prop_assert!(step <= at);
                    prop_assert_eq!(trie.nodes[step].span.start, position);
                    position = trie.nodes[step].span.end;
                }
                for &text in &node.ends {
                    ended[text] += 1;
                    let read: Vec<u32> = way
                        .iter()
                        .flat_map(|&step| texts[trie.nodes[step].text][trie.nodes[step].span.clone()].to_vec())
                        .collect();
                    prop_assert_eq!(&read, &texts[text]);
                }
            }
            prop_assert!(ended.iter().all(|&count| count == 1));
            // No two children of a node start alike: nothing is read twice.
            for (a, left) in trie.nodes.iter().enumerate() {
                for right in &trie.nodes[a + 1..] {
                    if left.parent == right.parent {
                        prop_assert_ne!(
                            texts[left.text][left.span.start],
                            texts[right.text][right.span.start]
                        );
                    }
                }
            }
        }
    }
}
