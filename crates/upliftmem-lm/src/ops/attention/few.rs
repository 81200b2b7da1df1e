//! Attention of few queries, over keys and values where they are: laying them all out would cost more than it saves.
//!
//! Every sum is taken in the order of `seen`, to the same bits: a text that comes token by token reads as it does at once.

use pulp::Simd;

use crate::ops::{
    exp::exp,
    kernel::{Panels, Shape, Strided, Target, multiply, tiles_of},
    turn::{Rows, turn},
};

/// Vectors that are summed at a time.
const TOGETHER: usize = 4;

/// Rows of keys or values: `stride` entries from one token to the next, of which the first ones count.
#[derive(Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) entries: &'a [f32],
    pub(super) stride: usize,
    pub(super) count: usize,
}

impl<'a> Kept<'a> {
    /// Some tokens at a time, with the number of the first: every query then finds them in the nearest cache.
    fn near(self) -> impl Iterator<Item = (usize, Self)> {
        let near = Shape::here().panel;
        (0..self.count).step_by(near).map(move |first| {
            let part = Self {
                entries: &self.entries[first * self.stride..],
                count: near.min(self.count - first),
                ..self
            };
            (first, part)
        })
    }

    fn rows(self) -> impl Iterator<Item = &'a [f32]> {
        self.entries.chunks(self.stride).take(self.count)
    }
}

/// Queries of one head of keys. They see the same tokens, all of them.
pub(super) struct Few {
    size: usize,
    scale: f32,
    /// Tokens that they see.
    seen: usize,
    queries: usize,
    tiles: Vec<f32>,
    /// Some keys as a panel.
    panel: Vec<f32>,
    /// Query after query, a share for each token.
    shares: Vec<f32>,
    /// What each query found.
    found: Vec<f32>,
}

impl Few {
    /// Queries of `size` entries that will see so many tokens.
    pub(super) fn new(queries: &[f32], size: usize, scale: f32, seen: usize) -> Self {
        let count = queries.len() / size;
        let mut tiles = Vec::new();
        tiles_of(Strided::rows(queries, size), count, size, &mut tiles);
        Self {
            size,
            scale,
            seen,
            queries: count,
            tiles,
            panel: vec![0.0; Shape::here().panel * size],
            shares: vec![0.0; count * seen],
            found: vec![0.0; queries.len()],
        }
    }

    /// Compares the queries with the keys of the tokens from one on.
    pub(super) fn compare(&mut self, token: usize, keys: Kept<'_>) {
        for (first, keys) in keys.near() {
            let rows = Rows {
                entries: keys.entries,
                stride: keys.stride,
                count: keys.count,
                columns: self.size,
            };
            turn(rows, &mut self.panel, Shape::here().panel);
            let mut scores = Target {
                out: &mut self.shares[token + first..],
                stride: self.seen,
                columns: keys.count,
                add: false,
            };
            let panels = Panels::of(&self.panel, self.size);
            multiply(self.queries, self.size, &self.tiles, panels, &mut scores);
        }
    }

    /// Collects the values of the tokens from one on, when all keys were compared and [`Self::share`] was called.
    pub(super) fn collect(&mut self, token: usize, values: Kept<'_>) {
        for (first, values) in values.near() {
            let place = token + first..token + first + values.count;
            let queries = self
                .shares
                .chunks_exact(self.seen)
                .zip(self.found.chunks_exact_mut(self.size));
            for (shares, found) in queries {
                collect(&shares[place.clone()], values, found);
            }
        }
    }

    /// Scores to what shares are in proportion to.
    pub(super) fn share(&mut self) {
        for shares in self.shares.chunks_exact_mut(self.seen) {
            raise(shares, self.scale);
        }
    }

    /// Divides what was collected by the sum of its shares.
    pub(super) fn settle(&mut self) {
        let queries = self
            .shares
            .chunks_exact(self.seen)
            .zip(self.found.chunks_exact_mut(self.size));
        for (shares, found) in queries {
            let sum = shares.iter().fold(0.0_f32, |sum, share| sum + share);
            for found in found {
                *found /= sum;
            }
        }
    }

    /// What each query found, query after query.
    pub(super) fn found(&self) -> impl Iterator<Item = &[f32]> {
        self.found.chunks_exact(self.size)
    }
}

/// Scores to what shares are in proportion to.
#[pulp::with_simd(raise = pulp::Arch::new())]
#[inline(always)]
fn raise_each<S: Simd>(_: S, scores: &mut [f32], scale: f32) {
    // Eight partial results, which the compiler makes a vector of.
    let mut largest = [f32::NEG_INFINITY; 8];
    let (eights, rest) = scores.as_chunks::<8>();
    for eight in eights {
        for (largest, &score) in largest.iter_mut().zip(eight) {
            *largest = if score > *largest { score } else { *largest };
        }
    }
    let largest = largest
        .iter()
        .chain(rest)
        .fold(f32::NEG_INFINITY, |largest, &score| largest.max(score));
    for score in scores {
        *score = exp((*score - largest) * scale);
    }
}

/// Adds every value as often as its share says, token after token.
#[pulp::with_simd(collect = pulp::Arch::new())]
#[inline(always)]
fn collect_simd<'a, S: Simd>(simd: S, shares: &'a [f32], values: Kept<'a>, found: &'a mut [f32]) {
    let size = found.len();
    let together = TOGETHER * S::F32_LANES;
    let whole = size - size % together;
    for first in (0..whole).step_by(together) {
        let (found, _) = S::as_mut_simd_f32s(&mut found[first..first + together]);
        let (found, _) = found.as_chunks_mut::<TOGETHER>();
        let mut sums = found[0];
        for (&share, value) in shares.iter().zip(values.rows()) {
            let share = simd.splat_f32s(share);
            let (value, _) = S::as_simd_f32s(&value[first..first + together]);
            let (value, _) = value.as_chunks::<TOGETHER>();
            for (sum, &value) in sums.iter_mut().zip(&value[0]) {
                *sum = simd.mul_add_f32s(share, value, *sum);
            }
        }
        found[0] = sums;
    }
    for (&share, value) in shares.iter().zip(values.rows()) {
        for (found, &value) in found[whole..].iter_mut().zip(&value[whole..size]) {
            *found = share.mul_add(value, *found);
        }
    }
}
