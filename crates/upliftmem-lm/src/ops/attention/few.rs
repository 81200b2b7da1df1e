//! Attention of few queries, over keys and values where they are: laying them out would cost more than it saves.

use std::ops::Range;

use pulp::Simd;

use super::unit::softmax;

/// Tokens handled at a time, so that every query finds them in the nearest cache.
const NEAR: usize = 32;
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
    /// Some tokens at a time, with the number of the first.
    fn near(self) -> impl Iterator<Item = (usize, Self)> {
        (0..self.count).step_by(NEAR).map(move |first| {
            let part = Self {
                entries: &self.entries[first * self.stride..],
                count: NEAR.min(self.count - first),
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
    /// Tokens that there is room for.
    seen: usize,
    /// Query after query, each of `size` entries.
    queries: Vec<f32>,
    /// Query after query, a share for each token.
    shares: Vec<f32>,
    /// What each query found.
    found: Vec<f32>,
}

impl Few {
    /// Queries that will see so many tokens.
    pub(super) fn new(queries: Vec<f32>, size: usize, scale: f32, seen: usize) -> Self {
        Self {
            size,
            scale,
            seen,
            shares: vec![0.0; queries.len() / size * seen],
            found: vec![0.0; queries.len()],
            queries,
        }
    }

    /// Compares the queries with the keys of the tokens from one on.
    pub(super) fn compare(&mut self, token: usize, keys: Kept<'_>) {
        for (first, keys) in keys.near() {
            let place = token + first..token + first + keys.count;
            compare(&self.queries, self.size, keys, &mut self.shares, self.seen, place);
        }
    }

    /// Scores to shares, when all keys were seen.
    pub(super) fn share(&mut self) {
        for shares in self.shares.chunks_exact_mut(self.seen) {
            softmax(shares, 1, self.scale);
        }
    }

    /// Collects the values of the tokens from one on.
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

    /// What each query found, query after query.
    pub(super) fn found(&self) -> impl Iterator<Item = &[f32]> {
        self.found.chunks_exact(self.size)
    }
}

/// Products of every query with every key.
#[pulp::with_simd(compare = pulp::Arch::new())]
#[inline(always)]
fn compare_simd<'a, S: Simd>(
    simd: S,
    queries: &'a [f32],
    size: usize,
    keys: Kept<'a>,
    scores: &'a mut [f32],
    seen: usize,
    place: Range<usize>,
) {
    for (query, scores) in queries.chunks_exact(size).zip(scores.chunks_exact_mut(seen)) {
        for (score, key) in scores[place.clone()].iter_mut().zip(keys.rows()) {
            *score = product(simd, query, &key[..size]);
        }
    }
}

#[inline(always)]
fn product<S: Simd>(simd: S, left: &[f32], right: &[f32]) -> f32 {
    let ((lefts, left), (rights, right)) = (S::as_simd_f32s(left), S::as_simd_f32s(right));
    let mut sum = simd.splat_f32s(0.0);
    for (&left, &right) in lefts.iter().zip(rights) {
        sum = simd.mul_add_f32s(left, right, sum);
    }
    let rest: f32 = left.iter().zip(right).map(|(left, right)| left * right).sum();
    simd.reduce_sum_f32s(sum) + rest
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
