//! One head of keys and the query heads that share it.

use crate::ops::{
    exp::exp,
    kernel::{Panels, Shape, Strided, Target, multiply, panels_of, tiles_of},
};

/// Queries handled together: beyond the diagonal of a block nothing is computed.
const BLOCK: usize = 48;

/// What a segment sees of one head. Every query is one of the last tokens seen: the last query sees all.
pub(super) struct Unit {
    pub(super) size: usize,
    pub(super) scale: f32,
    pub(super) queries: usize,
    /// Entries from one query's row to the next.
    pub(super) stride: usize,
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
}

/// Slopes of a unit.
pub(super) struct Slopes {
    /// Rows for each query head of the group.
    pub(super) queries: Vec<Vec<f32>>,
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
}

/// Queries of one block and how many tokens the last of them sees.
struct Block {
    first: usize,
    count: usize,
    seen: usize,
}

/// Space that every block uses again.
#[derive(Default)]
struct Space {
    tiles: Vec<f32>,
    panels: Vec<f32>,
    shares: Vec<f32>,
    slopes: Vec<f32>,
}

impl Unit {
    fn seen(&self) -> usize {
        self.keys.len() / self.size
    }

    fn blocks(&self) -> impl Iterator<Item = Block> {
        (0..self.queries).step_by(BLOCK).map(|first| {
            let count = BLOCK.min(self.queries - first);
            Block {
                first,
                count,
                seen: self.seen() - self.queries + first + count,
            }
        })
    }

    fn rows<'a>(&self, all: &'a [f32], block: &Block) -> Strided<'a> {
        Strided::rows(&all[block.first * self.stride..], self.stride)
    }

    /// The share of each token in each query of a block.
    fn shares(&self, q: &[f32], block: &Block, keys: &[f32], space: &mut Space) {
        let Block { count, seen, .. } = *block;
        tiles_of(self.rows(q, block), count, self.size, &mut space.tiles);
        space.shares.resize(count * seen, 0.0);
        let mut target = Target {
            out: &mut space.shares,
            stride: seen,
            columns: seen,
            add: false,
        };
        multiply(
            count,
            self.size,
            &space.tiles,
            Panels::of(keys, self.size),
            &mut target,
        );
        pulp::Arch::new().dispatch(|| {
            for (query, row) in space.shares[..count * seen].chunks_exact_mut(seen).enumerate() {
                softmax(row, seen - count + query + 1, self.scale);
            }
        });
    }

    /// Rows of results for each query head.
    pub(super) fn forward<'a>(&self, queries: impl Iterator<Item = &'a [f32]>) -> Vec<Vec<f32>> {
        let (mut keys, mut values, mut space) = (Vec::new(), Vec::new(), Space::default());
        panels_of(
            Strided::rows(&self.keys, self.size).transposed(),
            self.size,
            self.seen(),
            &mut keys,
        );
        panels_of(
            Strided::rows(&self.values, self.size),
            self.seen(),
            self.size,
            &mut values,
        );
        queries
            .map(|q| {
                let mut out = vec![0.0; self.queries * self.size];
                for block in self.blocks() {
                    self.shares(q, &block, &keys, &mut space);
                    tiles_of(
                        Strided::rows(&space.shares, block.seen),
                        block.count,
                        block.seen,
                        &mut space.tiles,
                    );
                    let mut target = Target {
                        out: &mut out[block.first * self.size..],
                        stride: self.size,
                        columns: self.size,
                        add: false,
                    };
                    let values = Panels {
                        entries: &values,
                        stride: self.seen() * Shape::here().panel,
                    };
                    multiply(block.count, block.seen, &space.tiles, values, &mut target);
                }
                out
            })
            .collect()
    }

    /// The way back for each query head, given its queries, results and the slopes by the results.
    pub(super) fn backward<'a>(&self, heads: impl Iterator<Item = [&'a [f32]; 3]>) -> Slopes {
        let (mut keys, mut key_rows, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let by_token = Strided::rows(&self.keys, self.size);
        panels_of(by_token.transposed(), self.size, self.seen(), &mut keys);
        panels_of(by_token, self.seen(), self.size, &mut key_rows);
        panels_of(
            Strided::rows(&self.values, self.size).transposed(),
            self.size,
            self.seen(),
            &mut values,
        );
        let key_rows = Panels {
            entries: &key_rows,
            stride: self.seen() * Shape::here().panel,
        };
        let mut space = Space::default();
        let mut slopes = Slopes {
            queries: Vec::new(),
            keys: vec![0.0; self.keys.len()],
            values: vec![0.0; self.values.len()],
        };
        for [q, out, slope] in heads {
            let mut by_query = vec![0.0; self.queries * self.size];
            for block in self.blocks() {
                let Block { first, count, seen } = block;
                self.shares(q, &block, &keys, &mut space);
                // Values: shares across, times slopes.
                panels_of(self.rows(slope, &block), count, self.size, &mut space.panels);
                tiles_of(
                    Strided::rows(&space.shares, seen).transposed(),
                    seen,
                    count,
                    &mut space.tiles,
                );
                self.collect(seen, count, &space, &mut slopes.values);
                // Shares, then scores: what a share gains beyond the mean of its row.
                tiles_of(self.rows(slope, &block), count, self.size, &mut space.tiles);
                space.slopes.resize(count * seen, 0.0);
                let mut target = Target {
                    out: &mut space.slopes,
                    stride: seen,
                    columns: seen,
                    add: false,
                };
                multiply(
                    count,
                    self.size,
                    &space.tiles,
                    Panels::of(&values, self.size),
                    &mut target,
                );
                let shares = space.shares.chunks_exact(seen);
                for (query, (row, shares)) in space
                    .slopes
                    .chunks_exact_mut(seen)
                    .zip(shares)
                    .take(count)
                    .enumerate()
                {
                    let at = (first + query) * self.stride;
                    let mean = dot(&slope[at..at + self.size], &out[at..at + self.size]);
                    for (slope, share) in row.iter_mut().zip(shares) {
                        *slope = share * (*slope - mean) * self.scale;
                    }
                }
                // Keys: slopes of scores across, times queries.
                panels_of(self.rows(q, &block), count, self.size, &mut space.panels);
                tiles_of(
                    Strided::rows(&space.slopes, seen).transposed(),
                    seen,
                    count,
                    &mut space.tiles,
                );
                self.collect(seen, count, &space, &mut slopes.keys);
                // Queries: slopes of scores times keys.
                tiles_of(Strided::rows(&space.slopes, seen), count, seen, &mut space.tiles);
                let mut target = Target {
                    out: &mut by_query[first * self.size..],
                    stride: self.size,
                    columns: self.size,
                    add: false,
                };
                multiply(count, seen, &space.tiles, key_rows, &mut target);
            }
            slopes.queries.push(by_query);
        }
        slopes
    }

    /// Adds the product of the space's tiles and panels to rows of tokens.
    fn collect(&self, tokens: usize, depth: usize, space: &Space, out: &mut [f32]) {
        let mut target = Target {
            out,
            stride: self.size,
            columns: self.size,
            add: true,
        };
        multiply(
            tokens,
            depth,
            &space.tiles,
            Panels::of(&space.panels, depth),
            &mut target,
        );
    }
}

/// Scores to shares of the first `allowed`; the others get none.
#[inline(always)]
fn softmax(row: &mut [f32], allowed: usize, scale: f32) {
    let (row, beyond) = row.split_at_mut(allowed);
    beyond.fill(0.0);
    // Eight partial results, which the compiler makes a vector of.
    let mut largest = [f32::NEG_INFINITY; 8];
    let (eights, rest) = row.as_chunks::<8>();
    for scores in eights {
        for (largest, &score) in largest.iter_mut().zip(scores) {
            *largest = largest.max(score);
        }
    }
    let largest = largest
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    let mut sums = [0.0_f32; 8];
    let (eights, rest) = row.as_chunks_mut::<8>();
    for scores in eights {
        for (sum, score) in sums.iter_mut().zip(scores) {
            *score = exp((*score - largest) * scale);
            *sum += *score;
        }
    }
    let mut sum: f32 = sums.iter().sum();
    for score in rest {
        *score = exp((*score - largest) * scale);
        sum += *score;
    }
    let inverse = 1.0 / sum;
    for share in row.iter_mut() {
        *share *= inverse;
    }
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}
