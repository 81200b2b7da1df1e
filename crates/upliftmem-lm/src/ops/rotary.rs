//! Rotary position embedding: pairs of entries half a head apart are turned by an angle that grows with the position.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Device, Layout, Result, Shape, Tensor};
use pulp::Simd;

use super::{
    norm::{self, normalise, rms_norm},
    slice, with_entries,
};

/// Cosines and sines for the tokens of a pass, half a head for each token.
#[derive(Debug, Clone)]
pub(crate) struct RotaryRows {
    half: usize,
    cos: Arc<[f32]>,
    sin: Arc<[f32]>,
}

impl RotaryRows {
    /// For tokens at these positions; `frequencies` are the angles of one step.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "angles are computed in double precision"
    )]
    pub(crate) fn new(frequencies: &[f64], positions: &[usize]) -> Self {
        let angles = || {
            positions
                .iter()
                .flat_map(|&position| frequencies.iter().map(move |&step| position as f64 * step))
        };
        Self {
            half: frequencies.len(),
            cos: angles().map(|angle| angle.cos() as f32).collect(),
            sin: angles().map(|angle| angle.sin() as f32).collect(),
        }
    }

    /// The rows of some of the tokens.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        let pick = |all: &[f32]| {
            rows.iter()
                .flat_map(|&row| all[row * self.half..(row + 1) * self.half].iter().copied())
                .collect()
        };
        Self {
            half: self.half,
            cos: pick(&self.cos),
            sin: pick(&self.sin),
        }
    }

    /// Turns rows of whole heads in place, forth or back.
    fn turn(&self, rows: &mut [f32], back: bool) {
        let width = rows.len() / (self.cos.len() / self.half.max(1)).max(1);
        if width == 0 {
            return;
        }
        let sign = if back { -1.0 } else { 1.0 };
        turn(self, rows, width, sign);
    }

    /// Turns rows of whole heads in place.
    pub(crate) fn apply(&self, rows: &mut [f32]) {
        self.turn(rows, false);
    }

    fn tensor(&self, entries: &[f32], device: &Device) -> Result<Tensor> {
        let rows = entries.len() / self.half.max(1);
        Tensor::from_slice(entries, (rows, 1, self.half), device)
    }
}

#[pulp::with_simd(turn = pulp::Arch::new())]
#[inline(always)]
fn turn_each<'a, S: Simd>(_: S, by: &'a RotaryRows, rows: &'a mut [f32], width: usize, sign: f32) {
    let half = by.half;
    let angles = by.cos.chunks_exact(half).zip(by.sin.chunks_exact(half));
    for (row, (cos, sin)) in rows.chunks_exact_mut(width).zip(angles) {
        for head in row.chunks_exact_mut(2 * half) {
            let (left, right) = head.split_at_mut(half);
            let pairs = left.iter_mut().zip(right);
            for ((left, right), (&cos, &sin)) in pairs.zip(cos.iter().zip(sin)) {
                let sin = sign * sin;
                (*left, *right) = (*left * cos - *right * sin, *right * cos + *left * sin);
            }
        }
    }
}

/// Turns rows of whole heads by the angles of their tokens. Heads are normalised before that, if there is a weight to do it
/// with.
pub(crate) fn rotary(x: &Tensor, rows: &RotaryRows, norm: Option<(&Tensor, f64)>) -> Result<Tensor> {
    let x = x.contiguous()?;
    if x.device().is_cpu() {
        return x.apply_op1(Rotary {
            rows: rows.clone(),
            norm: norm.map(|(weight, epsilon)| (weight.clone(), epsilon)),
        });
    }
    let Some((weight, epsilon)) = norm else {
        return composed(&x, rows);
    };
    let heads = x.reshape((x.elem_count() / weight.elem_count(), weight.elem_count()))?;
    composed(&rms_norm(&heads, weight, epsilon)?.reshape(x.shape())?, rows)
}

/// The same of candle's own operations.
fn composed(x: &Tensor, rows: &RotaryRows) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    let (cos, sin) = (
        rows.tensor(&rows.cos, x.device())?,
        rows.tensor(&rows.sin, x.device())?,
    );
    let heads = x.reshape((tokens, width / (2 * rows.half), 2 * rows.half))?;
    let (left, right) = (
        heads.narrow(2, 0, rows.half)?,
        heads.narrow(2, rows.half, rows.half)?,
    );
    let turned_left = (left.broadcast_mul(&cos)? - right.broadcast_mul(&sin)?)?;
    let turned_right = (right.broadcast_mul(&cos)? + left.broadcast_mul(&sin)?)?;
    Tensor::cat(&[turned_left, turned_right], 2)?.reshape((tokens, width))
}

struct Rotary {
    rows: RotaryRows,
    norm: Option<(Tensor, f64)>,
}

impl CustomOp1 for Rotary {
    fn name(&self) -> &'static str {
        "rotary"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut out = slice(storage, layout)?.to_vec();
        if let Some((weight, epsilon)) = &self.norm {
            with_entries(weight, |weight| {
                normalise(&mut out, weight, *epsilon);
                Ok(())
            })?;
        }
        self.rows.apply(&mut out);
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, slope: &Tensor) -> Result<Option<Tensor>> {
        let mut out = with_entries(slope, |slope| Ok(slope.to_vec()))?;
        self.rows.turn(&mut out, true);
        if let Some((weight, epsilon)) = &self.norm {
            with_entries(x, |x| {
                with_entries(weight, |weight| {
                    norm::slopes(x, weight, *epsilon, &mut out);
                    Ok(())
                })
            })?;
        }
        Ok(Some(Tensor::from_vec(out, x.shape(), x.device())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::tests::{assert_close, check_slopes, variable};

    #[test]
    fn equals_its_composition_and_has_its_slopes() {
        let frequencies: Vec<f64> = (0..4).map(|at| 100_f64.powf(-f64::from(at) / 4.0)).collect();
        let rows = RotaryRows::new(&frequencies, &[0, 3, 4, 9, 2]);
        let x = variable(&[5, 24], 1);
        assert_close(
            &rotary(&x, &rows, None).unwrap(),
            &composed(&x, &rows).unwrap(),
            1e-6,
        );
        let picked = rotary(&x.narrow(0, 3, 1).unwrap(), &rows.select(&[3]), None).unwrap();
        assert_close(
            &picked,
            &rotary(&x, &rows, None).unwrap().narrow(0, 3, 1).unwrap(),
            0.0,
        );
        let weight = variable(&[8], 2).as_tensor().detach();
        let heads = x.reshape((15, 8)).unwrap();
        let normed = rms_norm(&heads, &weight, 1e-5).unwrap().reshape((5, 24)).unwrap();
        let norm = Some((&weight, 1e-5));
        assert_close(
            &rotary(&x, &rows, norm).unwrap(),
            &composed(&normed, &rows).unwrap(),
            1e-6,
        );
        check_slopes(std::slice::from_ref(&x), |inputs| rotary(&inputs[0], &rows, norm));
        check_slopes(&[x], |inputs| rotary(&inputs[0], &rows, None));
    }
}
