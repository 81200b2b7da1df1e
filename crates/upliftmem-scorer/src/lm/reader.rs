//! Reads many texts in as few tokens as they have in common, within bounds of memory and time.

use std::{ops::Range, sync::Mutex, time::Instant};

use upliftmem_lm::{Before, KeptLayers, PrefixCache, Segment, Spans, Trie};

use super::{Adapter, Base, numerical};
use crate::error::Result;

/// How a text ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// The logit of one answer minus that of the other.
    pub(crate) margin: f64,
    /// The normalised hidden state that the margin was read from.
    pub(crate) hidden: Vec<f32>,
}

/// How texts are shared; the slower ways are there to be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Every text by itself.
    None,
    /// What all texts start with is read once.
    Prefix,
    /// Whatever any two texts start with is read once.
    #[default]
    Tree,
}

/// Everything one reading needs.
pub(crate) struct Reader<'a> {
    pub(crate) base: &'a Base,
    pub(crate) adapter: Option<&'a Adapter>,
    /// Hidden state to margin.
    pub(crate) direction: &'a candle_core::Tensor,
    /// Tokens of a pass.
    pub(crate) pass_tokens: usize,
    pub(crate) cache: Option<&'a Mutex<PrefixCache>>,
}

/// What stands before the tokens of a node.
#[derive(Clone)]
enum Part {
    Kept(KeptLayers, Range<usize>),
    Node(usize),
}

/// A node as it is read.
#[derive(Clone, Default)]
struct Progress {
    /// Tokens that an earlier call has read.
    known: usize,
    /// The way from the root, known tokens of the node included.
    before: Vec<Part>,
    /// Its own tokens, if a later pass needs them.
    kept: Option<KeptLayers>,
}

impl Reader<'_> {
    /// Reads all texts, or as many as there is time for; `tails` is the number of last tokens of each text that no other
    /// text continues, which are not worth keeping.
    pub(crate) fn read(
        &self,
        texts: &[Vec<u32>],
        tail: usize,
        sharing: Sharing,
        deadline: Option<Instant>,
    ) -> Result<Vec<Option<Reading>>> {
        match sharing {
            Sharing::Tree => self.read_tree(texts, tail, deadline),
            Sharing::None => {
                let mut all = Vec::with_capacity(texts.len());
                for text in texts {
                    all.extend(self.read_tree(std::slice::from_ref(text), tail, deadline)?);
                }
                Ok(all)
            }
            Sharing::Prefix => {
                // One node for what all have in common, then every text by itself.
                let first = texts.first().map_or(&[][..], Vec::as_slice);
                let common = texts
                    .iter()
                    .map(|text| text.iter().zip(first).take_while(|(a, b)| a == b).count())
                    .min()
                    .unwrap_or(0);
                let cache = Mutex::new(PrefixCache::new(usize::MAX));
                let reader = Reader {
                    cache: Some(&cache),
                    ..*self
                };
                let mut all = Vec::with_capacity(texts.len());
                for text in texts {
                    all.extend(reader.read_tree(
                        std::slice::from_ref(text),
                        text.len() - common,
                        deadline,
                    )?);
                }
                Ok(all)
            }
        }
    }

    fn read_tree(
        &self,
        texts: &[Vec<u32>],
        tail: usize,
        deadline: Option<Instant>,
    ) -> Result<Vec<Option<Reading>>> {
        let trie = Trie::new(texts, self.pass_tokens);
        let mut found = vec![None; texts.len()];
        let mut nodes = self.known(&trie, texts);
        let mut next = 0;
        while next < trie.nodes.len() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let (first, mut tokens) = (next, 0);
            while next < trie.nodes.len() {
                let more = trie.nodes[next].span.len() - nodes[next].known;
                if tokens > 0 && tokens + more > self.pass_tokens {
                    break;
                }
                tokens += more;
                next += 1;
            }
            if tokens > 0 {
                self.pass(&trie, texts, tail, first..next, &mut nodes, &mut found)?;
            }
        }
        Ok(found)
    }

    /// What earlier calls have read, and what stands before every node.
    fn known(&self, trie: &Trie, texts: &[Vec<u32>]) -> Vec<Progress> {
        let mut cache = self
            .cache
            .map(|cache| cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let mut spans_of: Vec<Option<Spans>> = vec![None; texts.len()];
        let mut nodes: Vec<Progress> = Vec::with_capacity(trie.nodes.len());
        for node in &trie.nodes {
            let mut before = match node.parent {
                Some(parent) => {
                    let mut way = nodes[parent].before.clone();
                    if nodes[parent].known < trie.nodes[parent].span.len() {
                        way.push(Part::Node(parent));
                    }
                    way
                }
                None => Vec::new(),
            };
            let complete = node
                .parent
                .is_none_or(|parent| nodes[parent].known == trie.nodes[parent].span.len());
            let mut known = 0;
            if let Some(cache) = cache.as_mut().filter(|_| complete) {
                let spans = spans_of[node.text].get_or_insert_with(|| cache.find(&texts[node.text]));
                // The last token of a text is always read: its hidden state is the answer.
                let end = node.span.end - usize::from(!node.ends.is_empty());
                let mut position = 0;
                for (layers, rows) in spans.iter() {
                    let (from, to) = (position.max(node.span.start), (position + rows.len()).min(end));
                    if from < to {
                        before.push(Part::Kept(
                            layers.clone(),
                            rows.start + from - position..rows.start + to - position,
                        ));
                        known += to - from;
                    }
                    position += rows.len();
                }
            }
            nodes.push(Progress {
                known,
                before,
                kept: None,
            });
        }
        nodes
    }

    /// Reads some nodes together.
    fn pass(
        &self,
        trie: &Trie,
        texts: &[Vec<u32>],
        tail: usize,
        range: Range<usize>,
        nodes: &mut [Progress],
        found: &mut [Option<Reading>],
    ) -> Result<()> {
        let read: Vec<usize> = range
            .clone()
            .filter(|&at| nodes[at].known < trie.nodes[at].span.len())
            .collect();
        let mut segments = Vec::with_capacity(read.len());
        for &at in &read {
            let node = &trie.nodes[at];
            let start = node.span.start + nodes[at].known;
            segments.push(Segment {
                tokens: texts[node.text][start..node.span.end].to_vec(),
                position: start,
                before: nodes[at]
                    .before
                    .iter()
                    .filter_map(|part| match part {
                        Part::Kept(layers, rows) => Some(Before::Kept(layers.clone(), rows.clone())),
                        Part::Node(other) => match read.binary_search(other) {
                            Ok(segment) => Some(Before::Segment(segment)),
                            Err(_) => {
                                let layers = nodes[*other].kept.clone()?;
                                let length = trie.nodes[*other].span.len() - nodes[*other].known;
                                Some(Before::Kept(layers, 0..length))
                            }
                        },
                    })
                    .collect(),
                wanted: !node.ends.is_empty(),
            });
        }
        let pass = self.base.pass(&segments, false)?;
        // The way to the next node must stay, whatever the cache takes.
        let way = if range.end < trie.nodes.len() {
            trie.ancestors(range.end)
        } else {
            Vec::new()
        };
        let mut room = self.cache.map_or(0, |cache| {
            cache
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .tokens_max()
        });
        let mut keep = Vec::new();
        for (segment, &at) in read.iter().enumerate() {
            let (node, rows) = (&trie.nodes[at], pass.rows(segment));
            let worth = texts[node.text].len().saturating_sub(tail).min(node.span.end);
            let worth = worth.saturating_sub(node.span.start + nodes[at].known);
            if way.contains(&at) {
                keep.push((at, rows, worth));
            } else if worth > 0 && worth <= room {
                room -= worth;
                keep.push((at, rows.start..rows.start + worth, worth));
            }
        }
        let rows: Vec<Range<usize>> = keep.iter().map(|(_, rows, _)| rows.clone()).collect();
        let output = self.base.run(&pass, self.adapter, &rows)?;
        for ((at, _, worth), layers) in keep.into_iter().zip(output.kept) {
            let node = &trie.nodes[at];
            if let Some(cache) = self.cache.filter(|_| worth > 0) {
                let from = node.span.start + nodes[at].known;
                let mut cache = cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                cache.keep(&texts[node.text][..from + worth], from, &layers);
            }
            if way.contains(&at) {
                nodes[at].kept = Some(layers);
            }
        }
        let ended: Vec<usize> = read
            .into_iter()
            .filter(|&at| !trie.nodes[at].ends.is_empty())
            .collect();
        if ended.is_empty() {
            return Ok(());
        }
        let margins = output
            .hidden
            .matmul(self.direction)
            .and_then(|margins| margins.flatten_all()?.to_vec1::<f32>())
            .map_err(numerical)?;
        let hidden = output.hidden.to_vec2::<f32>().map_err(numerical)?;
        for ((at, margin), hidden) in ended.into_iter().zip(margins).zip(hidden) {
            for &text in &trie.nodes[at].ends {
                found[text] = Some(Reading {
                    margin: f64::from(margin),
                    hidden: hidden.clone(),
                });
            }
        }
        Ok(())
    }
}
