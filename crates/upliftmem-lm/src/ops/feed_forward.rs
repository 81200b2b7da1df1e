//! The feed-forward block of a layer that nothing stands beside, there and back in one operation.
//!
//! Step by step every step would keep its input for the way back, of which only two are needed.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::{
    linear::FrozenLinear,
    matrix::PackedMatrix,
    norm::{self, normalise},
    slice,
    swiglu::{self, gate},
    with_entries,
};

/// `x + down(silu(gate(n)) * up(n))` with `n` the norm of `x`, or nothing where the maps can not be taken together.
pub(crate) fn feed_forward(
    x: &Tensor,
    weight: &Tensor,
    epsilon: f64,
    maps: [&FrozenLinear; 3],
) -> Result<Option<Tensor>> {
    let [Some(gate), Some(up), Some(down)] = maps.map(FrozenLinear::packed) else {
        return Ok(None);
    };
    let block = FeedForward {
        weight: weight.clone(),
        epsilon,
        gate: Arc::clone(gate),
        up: Arc::clone(up),
        down: Arc::clone(down),
        opened: Mutex::new(None),
    };
    x.contiguous()?.apply_op1(block).map(Some)
}

struct FeedForward {
    weight: Tensor,
    epsilon: f64,
    gate: Arc<PackedMatrix>,
    up: Arc<PackedMatrix>,
    down: Arc<PackedMatrix>,
    /// Gate and up, for the way back.
    opened: Mutex<Option<[Vec<f32>; 2]>>,
}

impl FeedForward {
    /// Gate and up.
    fn open(&self, x: &[f32]) -> Result<[Vec<f32>; 2]> {
        let mut normed = x.to_vec();
        with_entries(&self.weight, |weight| {
            normalise(&mut normed, weight, self.epsilon);
            Ok([self.gate.forward(&normed), self.up.forward(&normed)])
        })
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, Option<[Vec<f32>; 2]>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CustomOp1 for FeedForward {
    fn name(&self) -> &'static str {
        "feed-forward"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = slice(storage, layout)?;
        let [opened, up] = self.open(x)?;
        let mut inner = opened.clone();
        gate(&mut inner, &up);
        let mut out = x.to_vec();
        self.down.forward_into(&inner, &mut out, true);
        *self.opened() = Some([opened, up]);
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, slope: &Tensor) -> Result<Option<Tensor>> {
        let out = with_entries(x, |x| {
            with_entries(slope, |slope| {
                let opened = self.opened().take();
                let [gate, up] = match opened {
                    Some(opened) => opened,
                    None => self.open(x)?,
                };
                let by_inner = self.down.backward(slope);
                let (mut by_gate, mut by_up) = (vec![0.0; gate.len()], vec![0.0; up.len()]);
                swiglu::slopes(&gate, &up, &by_inner, &mut by_gate, &mut by_up);
                drop((gate, up, by_inner));
                let mut out = self.gate.backward(&by_gate);
                add(&mut out, &self.up.backward(&by_up));
                with_entries(&self.weight, |weight| {
                    norm::slopes(x, weight, self.epsilon, &mut out);
                    Ok(())
                })?;
                add(&mut out, slope);
                Ok(out)
            })
        })?;
        Ok(Some(Tensor::from_vec(out, x.shape(), x.device())?))
    }
}

fn add(sums: &mut [f32], more: &[f32]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::ops::{
        rms_norm, swiglu,
        tests::{assert_close, check_slopes, entries, variable},
    };

    #[test]
    fn equals_its_composition_and_has_its_slopes() {
        let map = |outputs, inputs, seed| {
            let rows = entries(outputs * inputs, seed);
            FrozenLinear::new(&rows, outputs, inputs, None, &Device::Cpu).unwrap()
        };
        let (gate, up, down) = (map(20, 12, 1), map(20, 12, 2), map(12, 20, 3));
        let weight = variable(&[12], 4).as_tensor().detach();
        let x = variable(&[5, 12], 5);
        let block = |x: &Tensor| feed_forward(x, &weight, 1e-5, [&gate, &up, &down]);
        let normed = rms_norm(&x, &weight, 1e-5).unwrap();
        let inner = swiglu(&gate.forward(&normed).unwrap(), &up.forward(&normed).unwrap()).unwrap();
        let expected = (x.as_tensor() + down.forward(&inner).unwrap()).unwrap();
        let own = block(&x).unwrap().unwrap();
        assert_close(&own, &expected, 1e-5);
        let slopes = |y: &Tensor| {
            let slopes = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
            slopes.get(&x).unwrap().clone()
        };
        assert_close(&slopes(&own), &slopes(&expected), 1e-3);
        // What was kept is gone by now, and is found again.
        assert_close(&slopes(&own), &slopes(&expected), 1e-3);
        check_slopes(std::slice::from_ref(&x), |inputs| Ok(block(&inputs[0])?.unwrap()));
    }
}
