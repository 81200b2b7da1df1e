//! One head of keys and the query heads that share it, there and back.

use pulp::Simd;

use crate::ops::{
    exp::exp,
    kernel::{Panels, Shape, Strided, Target, cut_and_multiply, grow, panels_of},
};

/// Queries handled together: beyond the diagonal of a block nothing is computed.
const BLOCK: usize = 48;

/// Queries of one block and how many tokens the last of them sees.
struct Block {
    first: usize,
    count: usize,
    seen: usize,
}

/// Every query is one of the last tokens seen: the last query sees all.
fn blocks(queries: usize, seen: usize) -> impl Iterator<Item = Block> {
    (0..queries).step_by(BLOCK).map(move |first| {
        let count = BLOCK.min(queries - first);
        Block {
            first,
            count,
            seen: seen - queries + first + count,
        }
    })
}

/// The share of each token in each query of a block. `q` begins with the block, `keys` are panels of tokens.
fn shares_of(q: Strided<'_>, block: &Block, size: usize, scale: f32, keys: &[f32], space: &mut Space) {
    let Block { count, seen, .. } = *block;
    let Space { tiles, shares, .. } = space;
    grow(shares, count * seen);
    let mut target = Target {
        out: shares,
        stride: seen,
        columns: seen,
        add: false,
    };
    cut_and_multiply((count, size), q, Panels::of(keys, size), &mut target, tiles);
    softmax(&mut shares[..count * seen], count, scale);
}

/// What a segment sees of one head, for the way back.
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

    fn rows<'a>(&self, all: &'a [f32], block: &Block) -> Strided<'a> {
        Strided::rows(&all[block.first * self.stride..], self.stride)
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
            for block in blocks(self.queries, self.seen()) {
                let Block { first, count, seen } = block;
                let rows = self.rows(q, &block);
                shares_of(rows, &block, self.size, self.scale, &keys, &mut space);
                // Values: shares across, times slopes.
                panels_of(self.rows(slope, &block), count, self.size, &mut space.panels);
                let shares = Strided::rows(&space.shares, seen).transposed();
                let sizes = (seen, count);
                self.collect(sizes, shares, &space.panels, &mut slopes.values, &mut space.tiles);
                // Shares, then scores: what a share gains beyond the mean of its row.
                grow(&mut space.slopes, count * seen);
                let mut target = Target {
                    out: &mut space.slopes,
                    stride: seen,
                    columns: seen,
                    add: false,
                };
                cut_and_multiply(
                    (count, self.size),
                    self.rows(slope, &block),
                    Panels::of(&values, self.size),
                    &mut target,
                    &mut space.tiles,
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
                panels_of(rows, count, self.size, &mut space.panels);
                let by_score = Strided::rows(&space.slopes, seen);
                self.collect(
                    sizes,
                    by_score.transposed(),
                    &space.panels,
                    &mut slopes.keys,
                    &mut space.tiles,
                );
                // Queries: slopes of scores times keys.
                let mut target = Target {
                    out: &mut by_query[first * self.size..],
                    stride: self.size,
                    columns: self.size,
                    add: false,
                };
                cut_and_multiply((count, seen), by_score, key_rows, &mut target, &mut space.tiles);
            }
            slopes.queries.push(by_query);
        }
        slopes
    }

    /// Adds the product of the left side and panels to rows of tokens.
    fn collect(
        &self,
        (tokens, depth): (usize, usize),
        left: Strided<'_>,
        panels: &[f32],
        out: &mut [f32],
        tiles: &mut Vec<f32>,
    ) {
        let mut target = Target {
            out,
            stride: self.size,
            columns: self.size,
            add: true,
        };
        let panels = Panels::of(panels, depth);
        cut_and_multiply((tokens, depth), left, panels, &mut target, tiles);
    }
}

/// Scores of some queries to shares, the last of which sees all.
#[pulp::with_simd(softmax = pulp::Arch::new())]
#[inline(always)]
fn softmax_each<S: Simd>(_: S, rows: &mut [f32], count: usize, scale: f32) {
    let seen = rows.len() / count.max(1);
    for (query, row) in rows.chunks_exact_mut(seen).enumerate() {
        softmax_row(row, seen - count + query + 1, scale);
    }
}

/// Scores to shares of the first `allowed`; the others get none.
#[inline(always)]
fn softmax_row(row: &mut [f32], allowed: usize, scale: f32) {
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
