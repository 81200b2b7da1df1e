//! The inner loops of probe selection, written so that the compiler vectorises them.
//!
//! Every sum has a fixed order (eight running sums, combined in a fixed tree) and fused multiply-adds are
//! explicit, so that results are the same bytes on every processor and for every number of threads. The functions
//! marked `with_simd` pick the best instructions of the processor and run a whole loop with them.

use pulp::Simd;

use super::{lines::upper_line, sampling::Sample};
use crate::evsi::decision_value;

/// Running sums of a reduction. Rows and blocks are padded to a multiple of it.
pub(crate) const LANES: usize = 8;

/// Rounds up to a multiple of [`LANES`].
pub(crate) const fn padded(length: usize) -> usize {
    length.next_multiple_of(LANES)
}

/// The comparisons of one task as the loops need them; all slices are equally long and padded.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    /// Positions of challenger and incumbent among the task's probes; the position after the last is the empty
    /// set.
    pub(crate) sides: &'a [[u16; 2]],
    /// |mean| of each margin.
    pub(crate) margins: &'a [f64],
    /// Variance of each margin at batch entry.
    pub(crate) prior: &'a [f64],
    /// Variance resolved by the probes scheduled so far.
    pub(crate) resolved: &'a [f64],
    /// Value of what is resolved so far.
    pub(crate) values: &'a [f64],
}

#[inline(always)]
fn total(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Inner products of one padded vector with several, in eight running sums each whatever the processor's width:
/// the sums of one vector do not depend on its company, which only saves loads.
#[inline(always)]
fn dot_many<S: Simd, const N: usize>(simd: S, row: &[f64], vectors: [&[f64]; N]) -> [f64; N] {
    let registers = LANES / S::F64_LANES;
    let row = S::as_simd_f64s(row).0;
    let mut sums = [[simd.splat_f64s(0.0); LANES]; N];
    for start in (0..row.len()).step_by(registers) {
        for index in 0..N {
            let vector = &S::as_simd_f64s(vectors[index]).0[..row.len()];
            for register in 0..registers {
                sums[index][register] = simd.mul_add_f64s(
                    row[start + register],
                    vector[start + register],
                    sums[index][register],
                );
            }
        }
    }
    let mut out = [0.0; N];
    for index in 0..N {
        let mut lanes = [0.0; LANES];
        S::as_mut_simd_f64s(&mut lanes)
            .0
            .copy_from_slice(&sums[index][..registers]);
        out[index] = total(lanes);
    }
    out
}

#[inline(always)]
fn dot<S: Simd>(simd: S, left: &[f64], right: &[f64]) -> f64 {
    dot_many(simd, left, [right])[0]
}

/// Covariances of eight margins with a label, from the inner products of their sides.
#[inline(always)]
fn contrasts(sides: &[[u16; 2]; LANES], dots: &[f64]) -> [f64; LANES] {
    let mut out = [0.0; LANES];
    for lane in 0..LANES {
        let [challenger, incumbent] = sides[lane];
        out[lane] = dots[usize::from(challenger)] - dots[usize::from(incumbent)];
    }
    out
}

#[inline(always)]
fn lanes<T>(slice: &[T], chunk: usize) -> &[T; LANES] {
    &slice.as_chunks().0[chunk]
}

/// Sum over a block of what resolving more would add. Paper: eq. batch_marginal_formula.
#[inline(always)]
fn block_gain(block: Block<'_>, dots: &[f64], inverse_variance: f64) -> f64 {
    let mut sums = [0.0; LANES];
    for chunk in 0..block.margins.len() / LANES {
        let contrasts = contrasts(lanes(block.sides, chunk), dots);
        let margins = lanes(block.margins, chunk);
        let resolved = lanes(block.resolved, chunk);
        let values = lanes(block.values, chunk);
        for lane in 0..LANES {
            let more = contrasts[lane] * contrasts[lane] * inverse_variance;
            sums[lane] += decision_value(resolved[lane] + more, margins[lane]) - values[lane];
        }
    }
    total(sums)
}

/// The gain of all blocks, in order, for one probe; `dots` are its covariances with the values of all probes, those of block
/// after block, a zero after each.
#[pulp::with_simd(all_gains = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn all_gains_simd<'a, S: Simd>(
    _simd: S,
    blocks: &'a [(usize, Block<'a>)],
    dots: &'a [f64],
    inverse_variance: f64,
) -> f64 {
    let mut sum = 0.0;
    for &(first, block) in blocks {
        sum += block_gain(block, &dots[first..], inverse_variance);
    }
    sum
}

/// The upper lines of all blocks for one probe, summed, without their intercepts.
#[pulp::with_simd(all_lines = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn all_lines_simd<'a, S: Simd>(
    _simd: S,
    blocks: &'a [(usize, Block<'a>)],
    slopes: &'a [f64],
    dots: &'a [f64],
) -> f64 {
    let mut sums = [0.0; LANES];
    let mut slopes = slopes.as_chunks::<LANES>().0.iter();
    for &(first, block) in blocks {
        let dots = &dots[first..];
        for (sides, slopes) in block.sides.as_chunks().0.iter().zip(slopes.by_ref()) {
            let contrasts = contrasts(sides, dots);
            for lane in 0..LANES {
                sums[lane] = (slopes[lane] * contrasts[lane]).mul_add(contrasts[lane], sums[lane]);
            }
        }
    }
    total(sums)
}

/// Adds a multiple of the squared contrasts of all blocks for one probe to `out`.
#[pulp::with_simd(add_squares = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn add_squares_simd<'a, S: Simd>(
    _simd: S,
    blocks: &'a [(usize, Block<'a>)],
    dots: &'a [f64],
    factor: f64,
    out: &'a mut [f64],
) {
    let mut out = out.as_chunks_mut::<LANES>().0.iter_mut();
    for &(first, block) in blocks {
        let dots = &dots[first..];
        for (sides, out) in block.sides.as_chunks().0.iter().zip(out.by_ref()) {
            let contrasts = contrasts(sides, dots);
            for lane in 0..LANES {
                out[lane] = (factor * contrasts[lane]).mul_add(contrasts[lane], out[lane]);
            }
        }
    }
}

/// Takes a multiple of one vector off another.
#[pulp::with_simd(take_off = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn take_off_simd<'a, S: Simd>(_simd: S, from: &'a mut [f64], factor: f64, vector: &'a [f64]) {
    for (from, &value) in from.iter_mut().zip(vector) {
        *from = (-factor).mul_add(value, *from);
    }
}

/// Inner product of two padded vectors.
#[pulp::with_simd(inner_product = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn inner_product_simd<'a, S: Simd>(simd: S, left: &'a [f64], right: &'a [f64]) -> f64 {
    dot(simd, left, right)
}

/// Inner products of every row with one vector.
#[pulp::with_simd(inner_products = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn inner_products_simd<'a, S: Simd>(
    simd: S,
    rows: &'a [f64],
    vector: &'a [f64],
    out: &'a mut [f64],
) {
    for (out, row) in out.iter_mut().zip(rows.chunks_exact(vector.len())) {
        *out = dot(simd, row, vector);
    }
}

/// The gain of a block for each of the vectors, which are directions of probes.
#[pulp::with_simd(block_gains = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn block_gains_simd<'a, S: Simd>(
    simd: S,
    block: Block<'a>,
    rows: &'a [f64],
    vectors: &'a [f64],
    inverse_variances: &'a [f64],
    out: &'a mut [f64],
) {
    let count = inverse_variances.len();
    let width = vectors.len() / count.max(1);
    let stride = rows.len() / width.max(1) + 1;
    let mut dots = vec![0.0; GROUP * stride];
    for first in (0..count).step_by(GROUP) {
        let group = Group::new(vectors, width, first, count);
        for (position, row) in rows.chunks_exact(width).enumerate() {
            for (index, sum) in dot_many(simd, row, group.vectors).into_iter().enumerate() {
                dots[index * stride + position] = sum;
            }
        }
        for index in 0..group.count {
            let dots = &dots[index * stride..(index + 1) * stride];
            out[first + index] = block_gain(block, dots, inverse_variances[first + index]);
        }
    }
}

/// Up to four vectors that are multiplied together; the last is repeated where there are fewer.
struct Group<'a> {
    vectors: [&'a [f64]; GROUP],
    count: usize,
}

const GROUP: usize = 4;

impl<'a> Group<'a> {
    #[inline(always)]
    fn new(vectors: &'a [f64], width: usize, first: usize, total: usize) -> Self {
        let vector = |offset: usize| {
            let index = (first + offset).min(total - 1);
            &vectors[index * width..(index + 1) * width]
        };
        Self {
            vectors: [vector(0), vector(1), vector(2), vector(3)],
            count: GROUP.min(total - first),
        }
    }
}

/// By how much at least the lines of a sample exceed the true gains for one probe, leaving out comparisons of its own
/// task.
///
/// `cosines` are those between the margins' contrasts and the probe's direction, each off by at most `off`; `scale` is
/// the direction's squared length over the label's variance.
#[pulp::with_simd(sample_slack = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn sample_slack_simd<'a, S: Simd>(
    _simd: S,
    sample: &'a Sample,
    cosines: &'a [f32],
    off: f64,
    scale: f64,
    own_task: u32,
) -> f64 {
    let mut sums = [0.0; LANES];
    for chunk in 0..cosines.len() / LANES {
        let cosines = lanes(cosines, chunk);
        let tasks = lanes(&sample.tasks, chunk);
        let squares = lanes(&sample.squares, chunk);
        let margins = lanes(&sample.margins, chunk);
        let resolved = lanes(&sample.resolved, chunk);
        let values = lanes(&sample.values, chunk);
        let slopes = lanes(&sample.slopes, chunk);
        let intercepts = lanes(&sample.intercepts, chunk);
        for lane in 0..LANES {
            let cosine = f64::from(cosines[lane].abs());
            let (least, most) = ((cosine - off).max(0.0), cosine + off);
            let unit = squares[lane] * scale;
            let gain = decision_value(resolved[lane] + most * most * unit, margins[lane]) - values[lane];
            let slack = slopes[lane].mul_add(least * least * unit, intercepts[lane]) - gain;
            let counts = f64::from(u8::from(tasks[lane] != own_task));
            sums[lane] += slack.max(0.0) * counts;
        }
    }
    total(sums)
}

/// Adds to `slack` how far the line of each comparison of a block exceeds the true gain, for one probe.
#[pulp::with_simd(add_block_slacks = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn add_block_slacks_simd<'a, S: Simd>(
    simd: S,
    block: Block<'a>,
    lines: (&'a [f64], &'a [f64]),
    rows: &'a [f64],
    vector: &'a [f64],
    inverse_variance: f64,
    slack: &'a mut [f64],
) -> (f64, f64) {
    let (slopes, intercepts) = lines;
    let mut dots = vec![0.0; rows.len() / vector.len() + 1];
    for (out, row) in dots.iter_mut().zip(rows.chunks_exact(vector.len())) {
        *out = dot(simd, row, vector);
    }
    let (mut gain_sums, mut line_sums) = ([0.0; LANES], [0.0; LANES]);
    for chunk in 0..slack.len() / LANES {
        let contrasts = contrasts(lanes(block.sides, chunk), &dots);
        let (margins, resolved, values) = (
            lanes(block.margins, chunk),
            lanes(block.resolved, chunk),
            lanes(block.values, chunk),
        );
        let (slopes, intercepts) = (lanes(slopes, chunk), lanes(intercepts, chunk));
        let slack = &mut slack.as_chunks_mut::<LANES>().0[chunk];
        for lane in 0..LANES {
            let more = contrasts[lane] * contrasts[lane] * inverse_variance;
            let gain = decision_value(resolved[lane] + more, margins[lane]) - values[lane];
            let line = slopes[lane].mul_add(more, intercepts[lane]);
            gain_sums[lane] += gain;
            line_sums[lane] += line;
            slack[lane] += line - gain;
        }
    }
    (total(gain_sums), total(line_sums))
}

/// The gain of each comparison of a block for one vector, the direction of a probe.
#[pulp::with_simd(comparison_gains = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn comparison_gains_simd<'a, S: Simd>(
    simd: S,
    block: Block<'a>,
    rows: &'a [f64],
    vector: &'a [f64],
    inverse_variance: f64,
    out: &'a mut [f64],
) {
    let mut dots = vec![0.0; rows.len() / vector.len() + 1];
    for (out, row) in dots.iter_mut().zip(rows.chunks_exact(vector.len())) {
        *out = dot(simd, row, vector);
    }
    for (at, out) in out.iter_mut().enumerate() {
        let [challenger, incumbent] = block.sides[at];
        let contrast = dots[usize::from(challenger)] - dots[usize::from(incumbent)];
        let more = contrast * contrast * inverse_variance;
        *out = decision_value(block.resolved[at] + more, block.margins[at]) - block.values[at];
    }
}

/// Values of what is resolved, for every comparison.
#[pulp::with_simd(refresh_values = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn refresh_values_simd<'a, S: Simd>(
    _simd: S,
    resolved: &'a [f64],
    margins: &'a [f64],
    values: &'a mut [f64],
) {
    for ((value, &resolved), &margin) in values.iter_mut().zip(resolved).zip(margins) {
        *value = decision_value(resolved, margin);
    }
}

/// The upper lines of a block. `reach` is the largest share of what is left of a margin's variance that one probe
/// can resolve.
#[pulp::with_simd(refresh_lines = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn refresh_lines_simd<'a, S: Simd>(
    _simd: S,
    block: Block<'a>,
    typical: &'a [f64],
    reach: f64,
    slopes: &'a mut [f64],
    intercepts: &'a mut [f64],
) {
    for (at, (slope, intercept)) in slopes.iter_mut().zip(intercepts).enumerate() {
        // The tiny share of the prior covers rounding when almost nothing is left.
        let most = (block.prior[at] - block.resolved[at]).max(0.0) * reach + 1e-13 * block.prior[at];
        let line = upper_line(
            block.resolved[at],
            block.margins[at],
            block.values[at],
            most,
            typical[at],
        );
        *slope = line.slope;
        *intercept = line.intercept;
    }
}

/// Squared distances between the images of the two sides of each comparison. `images` has one column a probe and
/// a last one, zero, for the empty set.
#[pulp::with_simd(squared_contrasts = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn squared_contrasts_simd<'a, S: Simd>(
    _simd: S,
    images: &'a [f64],
    width: usize,
    sides: &'a [[u16; 2]],
    out: &'a mut [f64],
) {
    let image = |side: u16| &images[usize::from(side) * width..(usize::from(side) + 1) * width];
    for (out, &[challenger, incumbent]) in out.iter_mut().zip(sides) {
        let mut sums = [0.0; LANES];
        let pairs = image(challenger)
            .as_chunks::<LANES>()
            .0
            .iter()
            .zip(image(incumbent).as_chunks::<LANES>().0);
        for (left, right) in pairs {
            for lane in 0..LANES {
                let difference = left[lane] - right[lane];
                sums[lane] = difference.mul_add(difference, sums[lane]);
            }
        }
        *out = total(sums);
    }
}

/// Squared length of each column of a matrix in single precision, summed in double.
#[pulp::with_simd(single_squares = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn single_squares_simd<'a, S: Simd>(
    _simd: S,
    columns: &'a [f32],
    width: usize,
    out: &'a mut [f64],
) {
    for (out, column) in out.iter_mut().zip(columns.chunks_exact(width)) {
        let mut sums = [0.0; LANES];
        for values in column.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let value = f64::from(values[lane]);
                sums[lane] = value.mul_add(value, sums[lane]);
            }
        }
        *out = total(sums);
    }
}
