//! Root-mean-square normalisation of rows. The weight is frozen.

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result, Shape, Tensor};
use pulp::Simd;

use super::{slice, with_entries};

/// Divides every row by its root mean square and multiplies it with a frozen weight.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let x = x.contiguous()?;
    if x.device().is_cpu() {
        return x.apply_op1(RmsNorm {
            weight: weight.clone(),
            epsilon,
        });
    }
    composed(&x, weight, epsilon)
}

/// The same of candle's own operations.
fn composed(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let size = (x.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?.sqrt()?;
    x.broadcast_div(&size)?.broadcast_mul(weight)
}

/// The same in place, on a processor.
#[pulp::with_simd(normalise = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn normalise_each<'a, S: Simd>(_: S, rows: &'a mut [f32], weight: &'a [f32], epsilon: f64) {
    for row in rows.chunks_exact_mut(weight.len()) {
        let inverse = inverse(row, epsilon);
        for (value, &weight) in row.iter_mut().zip(weight) {
            *value *= inverse * weight;
        }
    }
}

/// Slopes by the rows, in place of the slopes by what they became.
#[pulp::with_simd(slopes = pulp::Arch::new())]
#[inline(always)]
pub(super) fn slopes_each<'a, S: Simd>(
    _: S,
    rows: &'a [f32],
    weight: &'a [f32],
    epsilon: f64,
    slopes: &'a mut [f32],
) {
    let width = weight.len();
    for (row, slopes) in rows.chunks_exact(width).zip(slopes.chunks_exact_mut(width)) {
        let inverse = inverse(row, epsilon);
        let pull = along(row, slopes, weight) * inverse * inverse * inverse / width as f32;
        for ((slope, &x), &weight) in slopes.iter_mut().zip(row).zip(weight) {
            *slope = *slope * weight * inverse - x * pull;
        }
    }
}

struct RmsNorm {
    weight: Tensor,
    epsilon: f64,
}

/// One over the root mean square of a row.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rows are in single precision")]
fn inverse(row: &[f32], epsilon: f64) -> f32 {
    let square: f64 = row.chunks(64).map(|part| f64::from(squares(part))).sum();
    (1.0 / (square / row.len() as f64 + epsilon).sqrt()) as f32
}

/// The sum of squares in eight partial sums, which the compiler makes a vector of.
#[inline(always)]
fn squares(row: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (eights, rest) = row.as_chunks::<8>();
    for entries in eights {
        for (sum, value) in sums.iter_mut().zip(entries) {
            *sum += value * value;
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>()
}

/// The sum of products of three, in eight partial sums.
#[inline(always)]
fn along(row: &[f32], slope: &[f32], weight: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let ((rows, row), (slopes, slope), (weights, weight)) = (
        row.as_chunks::<8>(),
        slope.as_chunks::<8>(),
        weight.as_chunks::<8>(),
    );
    for ((row, slope), weight) in rows.iter().zip(slopes).zip(weights) {
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum += row[at] * slope[at] * weight[at];
        }
    }
    let rest = row.iter().zip(slope).zip(weight).map(|((x, s), w)| x * s * w);
    sums.iter().sum::<f32>() + rest.sum::<f32>()
}

impl CustomOp1 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = slice(storage, layout)?;
        let mut out = x.to_vec();
        with_entries(&self.weight, |weight| {
            normalise(&mut out, weight, self.epsilon);
            Ok(())
        })?;
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, slope: &Tensor) -> Result<Option<Tensor>> {
        let out = with_entries(&self.weight, |weight| {
            with_entries(x, |x| {
                with_entries(slope, |slope| {
                    let mut out = slope.to_vec();
                    slopes(x, weight, self.epsilon, &mut out);
                    Ok(out)
                })
            })
        })?;
        Ok(Some(Tensor::from_vec(out, x.shape(), x.device())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::tests::{assert_close, check_slopes, variable};

    #[test]
    fn equals_its_composition_and_has_its_slopes() {
        let (x, weight) = (variable(&[5, 70], 1), variable(&[70], 2));
        let weight = weight.as_tensor().detach();
        let own = rms_norm(&x, &weight, 1e-5).unwrap();
        assert_close(&own, &composed(&x, &weight, 1e-5).unwrap(), 1e-6);
        check_slopes(&[x], |inputs| rms_norm(&inputs[0], &weight, 1e-5));
    }
}
