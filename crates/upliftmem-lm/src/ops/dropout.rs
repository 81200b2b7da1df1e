//! Dropout that needs no memory: whether an entry is dropped is a function of a seed and its place.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use pulp::Simd;

use super::{slice, with_entries};
use crate::mix;

/// Entries that one number decides about.
const TOGETHER: usize = 4;

/// Drops entries at a rate and makes up for it in the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Share of entries that are left out.
    pub rate: f64,
    /// Which ones.
    pub seed: u64,
}

impl Dropout {
    /// The same rate at another place of the model.
    pub fn at(self, place: u64) -> Self {
        Self {
            seed: mix(self.seed ^ mix(place)),
            ..self
        }
    }

    /// What the entry at this place is multiplied with.
    pub fn factor(self, place: u64) -> f32 {
        self.factors(place / TOGETHER as u64)[(place % TOGETHER as u64) as usize]
    }

    /// The factors of some entries that follow one another: each has its own bits of one number.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "entries are in single precision, and a rate is a share of 65536"
    )]
    fn factors(self, number: u64) -> [f32; TOGETHER] {
        let drawn = mix(self.seed.wrapping_add(number));
        let dropped = (self.rate * 65536.0) as u64;
        let kept = (1.0 / (1.0 - self.rate)) as f32;
        std::array::from_fn(|at| {
            if (drawn >> (16 * at)) & 0xffff < dropped {
                0.0
            } else {
                kept
            }
        })
    }

    /// Drops entries in place.
    pub(super) fn drop(self, entries: &mut [f32]) {
        drop_some(self, entries);
    }

    /// Drops entries of a tensor.
    pub fn apply(self, x: &Tensor) -> Result<Tensor> {
        let x = x.contiguous()?;
        if x.device().is_cpu() {
            return x.apply_op1(self);
        }
        let factors: Vec<f32> = (0..x.elem_count() as u64)
            .map(|place| self.factor(place))
            .collect();
        &x * Tensor::from_vec(factors, x.shape(), x.device())?
    }
}

#[pulp::with_simd(drop_some = pulp::Arch::new())]
#[inline(always)]
fn drop_each<S: Simd>(_: S, dropout: Dropout, entries: &mut [f32]) {
    let (whole, rest) = entries.as_chunks_mut::<TOGETHER>();
    let count = whole.len() as u64;
    for (number, entries) in (0..).zip(whole) {
        for (entry, factor) in entries.iter_mut().zip(dropout.factors(number)) {
            *entry *= factor;
        }
    }
    for (entry, factor) in rest.iter_mut().zip(dropout.factors(count)) {
        *entry *= factor;
    }
}

impl CustomOp1 for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut out = slice(storage, layout)?.to_vec();
        self.drop(&mut out);
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, slope: &Tensor) -> Result<Option<Tensor>> {
        let mut out = with_entries(slope, |slope| Ok(slope.to_vec()))?;
        self.drop(&mut out);
        Ok(Some(Tensor::from_vec(out, x.shape(), x.device())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::tests::{check_slopes, variable};

    #[test]
    fn drops_its_share_and_has_its_slopes() {
        let dropout = Dropout { rate: 0.25, seed: 3 };
        let x = variable(&[40, 50], 1);
        let ones = x.ones_like().unwrap();
        let dropped = dropout
            .apply(&ones)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1::<f32>()
            .unwrap();
        let share = dropped.iter().filter(|value| **value == 0.0).count() as f64 / 2000.0;
        assert!((share - 0.25).abs() < 0.05, "{share}");
        assert!(
            dropped
                .iter()
                .all(|value| *value == 0.0 || (*value - 4.0 / 3.0).abs() < 1e-6)
        );
        check_slopes(&[x], |inputs| dropout.apply(&inputs[0]));
    }
}
