//! One head of keys and values, laid out for many queries.
//!
//! Scores are taken across: a row for each token, a column for each query. They are then the right side of the second
//! product as they stand, and every step from scores to shares works on whole vectors of queries.

use std::ops::Range;

use pulp::Simd;

use crate::ops::{
    exp::exp,
    kernel::{PANEL_MAX, Panels, Shape, Target, grow, multiply},
    turn::{Rows, turn},
};

/// Queries of one head of keys: `each` rows of `size` entries together, `stride` entries to the next.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    pub(super) entries: &'a [f32],
    pub(super) stride: usize,
    /// Tokens that ask.
    pub(super) tokens: usize,
    /// Query heads that share the head of keys.
    pub(super) group: usize,
}

/// Keys and values of one head, token after token. What the next segment sees too stays where it is.
pub(super) struct Seen {
    size: usize,
    scale: f32,
    /// Tokens that there is room for.
    room: usize,
    /// Tiles of tokens, the last one filled up.
    keys: Vec<f32>,
    /// Tiles of entries, each with room for all tokens.
    values: Vec<f32>,
    rows: Vec<f32>,
    panel: Vec<f32>,
    shares: Vec<f32>,
    found: Vec<f32>,
}

impl Seen {
    pub(super) fn new(size: usize, scale: f32, room: usize) -> Self {
        let Shape { tile, panel } = Shape::here();
        Self {
            size,
            scale,
            room,
            keys: vec![0.0; room.next_multiple_of(tile) * size],
            values: vec![0.0; room * size],
            rows: vec![0.0; panel * size],
            panel: vec![0.0; panel * size],
            shares: Vec::new(),
            found: vec![0.0; panel * size],
        }
    }

    /// Puts keys at some tokens' places, one of every `stride` entries on.
    pub(super) fn put_keys(&mut self, tokens: Range<usize>, keys: &[f32], stride: usize) {
        let Shape { tile, .. } = Shape::here();
        let (mut token, mut keys) = (tokens.start, keys);
        while token < tokens.end {
            let place = token % tile;
            let count = (tile - place).min(tokens.end - token);
            let rows = Rows {
                entries: keys,
                stride,
                count,
                columns: self.size,
            };
            turn(rows, &mut self.keys[(token - place) * self.size + place..], tile);
            token += count;
            keys = keys.get(count * stride..).unwrap_or_default();
        }
    }

    /// The same for values.
    pub(super) fn put_values(&mut self, tokens: Range<usize>, values: &[f32], stride: usize) {
        let Shape { tile, .. } = Shape::here();
        for first in (0..self.size).step_by(tile) {
            let height = tile.min(self.size - first);
            let own = &mut self.values[first * self.room + tokens.start * height..];
            let rows = values.chunks(stride).take(tokens.len());
            for (own, value) in own.chunks_exact_mut(height).zip(rows) {
                own.copy_from_slice(&value[first..first + height]);
            }
        }
    }

    /// Attention of some tokens, the last of which sees the first `seen` ones, to rows of `size` entries, token after token
    /// and in each query head after query head.
    pub(super) fn attend(&mut self, queries: Queries<'_>, seen: usize, out: &mut [f32]) {
        let Shape { panel, tile } = Shape::here();
        let (size, group) = (self.size, queries.group);
        let count = queries.tokens * group;
        for first in (0..count).step_by(panel) {
            let width = panel.min(count - first);
            self.lay_out(queries, first..first + width);
            // What the first and the last of these queries see.
            let sees = |query: usize| seen - queries.tokens + query / group + 1;
            let (least, most) = (sees(first), sees(first + width - 1));
            let filled = most.next_multiple_of(tile);
            grow(&mut self.shares, filled * panel);
            let mut scores = Target {
                out: &mut self.shares,
                stride: panel,
                columns: panel,
                add: false,
            };
            multiply(
                filled,
                size,
                &self.keys,
                Panels::of(&self.panel, size),
                &mut scores,
            );
            let shares = &mut self.shares[..most * panel];
            for (token, row) in (least..).zip(shares[least * panel..].chunks_exact_mut(panel)) {
                for (query, score) in (first..first + width).zip(row) {
                    if token >= sees(query) {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
            let mut sums = [0.0; PANEL_MAX];
            shares_of(shares, self.scale, &mut sums);
            for start in (0..size).step_by(tile) {
                let height = tile.min(size - start);
                let values = &self.values[start * self.room..][..most * height];
                let mut found = Target {
                    out: &mut self.found[start * panel..],
                    stride: panel,
                    columns: panel,
                    add: false,
                };
                multiply(height, most, values, Panels::of(shares, most), &mut found);
            }
            for row in self.found.chunks_exact_mut(panel) {
                for (found, sum) in row.iter_mut().zip(&sums) {
                    *found /= sum;
                }
            }
            let found = Rows {
                entries: &self.found,
                stride: panel,
                count: size,
                columns: width,
            };
            turn(found, &mut out[first * size..], size);
        }
    }

    /// Some queries as a panel.
    fn lay_out(&mut self, queries: Queries<'_>, range: Range<usize>) {
        let Shape { panel, .. } = Shape::here();
        let (size, group) = (self.size, queries.group);
        let mut row = range.start;
        while row < range.end {
            // Rows of one token stand together.
            let (token, member) = (row / group, row % group);
            let count = (group - member).min(range.end - row);
            let from = token * queries.stride + member * size;
            self.rows[(row - range.start) * size..][..count * size]
                .copy_from_slice(&queries.entries[from..from + count * size]);
            row += count;
        }
        let rows = Rows {
            entries: &self.rows,
            stride: size,
            count: range.len(),
            columns: size,
        };
        turn(rows, &mut self.panel, panel);
    }
}

/// Scores of some queries to what their shares are in proportion to, and the sum of each query's.
#[pulp::with_simd(shares_of = pulp::Arch::new())]
#[inline(always)]
fn shares_each<'a, S: Simd>(_: S, scores: &'a mut [f32], scale: f32, sums: &'a mut [f32; PANEL_MAX]) {
    // As wide as [`Shape::here`] says, known when compiled for a processor.
    match S::F32_LANES {
        16 => shares_with::<32>(scores, scale, sums),
        _ => shares_with::<16>(scores, scale, sums),
    }
}

#[inline(always)]
fn shares_with<const PANEL: usize>(scores: &mut [f32], scale: f32, sums: &mut [f32; PANEL_MAX]) {
    let (rows, _) = scores.as_chunks_mut::<PANEL>();
    let mut largest = [f32::NEG_INFINITY; PANEL];
    for row in &*rows {
        for (largest, &score) in largest.iter_mut().zip(row) {
            *largest = if score > *largest { score } else { *largest };
        }
    }
    let mut own = [0.0_f32; PANEL];
    for row in rows {
        for ((score, sum), largest) in row.iter_mut().zip(&mut own).zip(&largest) {
            let hidden = *score == f32::NEG_INFINITY;
            let share = exp((*score - largest) * scale);
            *score = if hidden { 0.0 } else { share };
            *sum += *score;
        }
    }
    sums[..PANEL].copy_from_slice(&own);
}
