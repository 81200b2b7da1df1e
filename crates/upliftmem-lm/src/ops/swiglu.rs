//! The gate of a feed-forward block: `silu(gate) * up`.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use pulp::Simd;

use super::{slice, with_entries};

/// `silu(gate) * up`, entry by entry.
pub(crate) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if gate.device().is_cpu() {
        return gate.contiguous()?.apply_op2(&up.contiguous()?, SwiGlu);
    }
    composed(gate, up)
}

/// The same of candle's own operations.
fn composed(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.silu()? * up
}

/// The same in place of the gate, on a processor.
#[pulp::with_simd(gate = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn gate_each<'a, S: Simd>(_: S, gate: &'a mut [f32], up: &'a [f32]) {
    for (gate, &up) in gate.iter_mut().zip(up) {
        *gate *= sigmoid(*gate) * up;
    }
}

/// Slopes by gate and by up, in place of what is there.
#[pulp::with_simd(slopes = pulp::Arch::new())]
#[inline(always)]
pub(super) fn slopes_each<'a, S: Simd>(
    _: S,
    gate: &'a [f32],
    up: &'a [f32],
    slope: &'a [f32],
    by_gate: &'a mut [f32],
    by_up: &'a mut [f32],
) {
    let outs = by_gate.iter_mut().zip(by_up);
    for (((by_gate, by_up), (&gate, &up)), &slope) in outs.zip(gate.iter().zip(up)).zip(slope) {
        let share = sigmoid(gate);
        *by_gate = slope * up * share * (1.0 + gate * (1.0 - share));
        *by_up = slope * gate * share;
    }
}

struct SwiGlu;

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + super::exp(-x))
}

impl CustomOp2 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let mut out = slice(gate, gate_layout)?.to_vec();
        self::gate(&mut out, slice(up, up_layout)?);
        Ok((CpuStorage::F32(out), gate_layout.shape().clone()))
    }

    fn bwd(
        &self,
        gate: &Tensor,
        up: &Tensor,
        _: &Tensor,
        slope: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let count = gate.elem_count();
        let (mut by_gate, mut by_up) = (vec![0.0; count], vec![0.0; count]);
        with_entries(gate, |gate| {
            with_entries(up, |up| {
                with_entries(slope, |slope| {
                    slopes(gate, up, slope, &mut by_gate, &mut by_up);
                    Ok(())
                })
            })
        })?;
        Ok((
            Some(Tensor::from_vec(by_gate, gate.shape(), gate.device())?),
            Some(Tensor::from_vec(by_up, up.shape(), up.device())?),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::tests::{assert_close, check_slopes, variable};

    #[test]
    fn equals_its_composition_and_has_its_slopes() {
        let (gate, up) = (variable(&[5, 12], 1), variable(&[5, 12], 2));
        assert_close(&swiglu(&gate, &up).unwrap(), &composed(&gate, &up).unwrap(), 1e-6);
        check_slopes(&[gate, up], |inputs| swiglu(&inputs[0], &inputs[1]));
    }
}
