//! One query: what an answer is made of, token by token. Keys and values are read where they are; packing them for one
//! query would cost more than the query.

use std::ops::Range;

use candle_core::Result;

use super::{Heads, SegmentPlan, Span, unit::softmax};
use crate::ops::with_entries;

/// Keys multiplied at a time: as many sums as hide how long one addition takes.
const KEYS: usize = 8;

/// The result of a segment's only query, all heads one after another. Every sum is taken in the order in which many
/// queries take it, so that a token's row is the same in any company.
pub(super) fn single(
    heads: Heads,
    layer: usize,
    segment: &SegmentPlan,
    [q, k, v]: [&[f32]; 3],
) -> Result<Vec<f32>> {
    let own = Span::Local(segment.own.start..segment.own.start + segment.first + 1);
    let spans = || segment.context.iter().chain([&own]);
    let seen: usize = spans().map(Span::len).sum();
    let mut shares = vec![0.0; heads.queries * seen];
    let mut at = 0;
    for span in spans() {
        let mut take = |keys: &[f32], rows: &Range<usize>| {
            let shares = &mut shares;
            pulp::Arch::new().dispatch(|| scores(heads, q, keys, rows, &mut shares[at..], seen));
        };
        match span {
            Span::Local(rows) => take(k, rows),
            Span::Kept(kept, rows) => with_entries(&kept[layer].0, |keys| {
                take(keys, rows);
                Ok(())
            })?,
        }
        at += span.len();
    }
    pulp::Arch::new().dispatch(|| {
        for row in shares.chunks_exact_mut(seen) {
            softmax(row, seen, heads.scale());
        }
    });
    let mut out = vec![0.0; heads.queries * heads.size];
    let mut at = 0;
    for span in spans() {
        let mut take = |values: &[f32], rows: &Range<usize>| {
            let out = &mut out;
            pulp::Arch::new().dispatch(|| mixed(heads, &shares[at..], seen, values, rows, out));
        };
        match span {
            Span::Local(rows) => take(v, rows),
            Span::Kept(kept, rows) => with_entries(&kept[layer].1, |values| {
                take(values, rows);
                Ok(())
            })?,
        }
        at += span.len();
    }
    Ok(out)
}

/// Products of all query heads with some keys. Scores of a head stand `seen` apart from those of the next.
#[inline(always)]
fn scores(heads: Heads, q: &[f32], keys: &[f32], rows: &Range<usize>, scores: &mut [f32], seen: usize) {
    let (size, stride) = (heads.size, heads.keys * heads.size);
    for (number, q) in q.chunks_exact(size).enumerate().take(heads.queries) {
        let start = number / heads.group() * size;
        let mut row = rows.start;
        while row < rows.end {
            let count = KEYS.min(rows.end - row);
            // Fewer than a chunk at the end: the last one stands for those that are not there.
            let keys: [&[f32]; KEYS] = std::array::from_fn(|at| {
                let row = row + at.min(count - 1);
                &keys[row * stride + start..][..size]
            });
            let mut sums = [0.0_f32; KEYS];
            for (at, &x) in q.iter().enumerate() {
                for (sum, key) in sums.iter_mut().zip(&keys) {
                    *sum = x.mul_add(key[at], *sum);
                }
            }
            let first = number * seen + row - rows.start;
            scores[first..first + count].copy_from_slice(&sums[..count]);
            row += count;
        }
    }
}

/// Adds some values to the results of all query heads, each by its share.
#[inline(always)]
fn mixed(heads: Heads, shares: &[f32], seen: usize, values: &[f32], rows: &Range<usize>, out: &mut [f32]) {
    let (size, stride) = (heads.size, heads.keys * heads.size);
    for (at, row) in rows.clone().enumerate() {
        let values = &values[row * stride..][..stride];
        for (number, out) in out.chunks_exact_mut(size).enumerate() {
            let share = shares[number * seen + at];
            let start = number / heads.group() * size;
            for (out, &value) in out.iter_mut().zip(&values[start..start + size]) {
                *out = share.mul_add(value, *out);
            }
        }
    }
}
