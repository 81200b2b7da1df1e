//! The operations that time is spent in, each with its own way back; `coded` alone has none.
//!
//! On a processor they are custom operations of candle over packed rows; on any other device the same functions are
//! composed of candle's own differentiable operations. Both are tested against each other and by finite differences.
//! candle's ready-made `rms_norm`, `rope` and `softmax_last_dim` can not be used: they cut the graph, silently.

mod adapted;
mod attention;
mod coded;
mod dropout;
mod exp;
mod feed_forward;
mod kernel;
mod linear;
mod matrix;
mod norm;
mod rotary;
mod swiglu;
mod turn;

pub(crate) use adapted::add_low_rank;
pub use attention::KeptLayers;
pub(crate) use attention::{AttentionPlan, Heads, SegmentPlan, Span, attend, attention};
pub(crate) use coded::{CodedMatrix, CodedRows, coded_product};
pub use dropout::Dropout;
pub(crate) use feed_forward::feed_forward;
pub(crate) use linear::FrozenLinear;
pub(crate) use norm::normalise;
pub use norm::rms_norm;
pub(crate) use rotary::{RotaryRows, rotary};
pub(crate) use swiglu::{gate, swiglu};

use exp::exp;

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor};

/// The entries of a contiguous tensor in single precision.
fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let entries: &[f32] = storage.as_slice()?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&entries[start..end]),
        None => candle_core::bail!("the operation needs contiguous rows"),
    }
}

/// Reads the entries of a tensor on a processor.
pub fn with_entries<T>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> Result<T>) -> Result<T> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => read(slice(storage, layout)?),
        _ => candle_core::bail!("the operation runs on a processor only"),
    }
}

/// Row length of a tensor.
fn width(tensor: &Tensor) -> Result<usize> {
    tensor.dim(candle_core::D::Minus1)
}

#[cfg(test)]
pub(super) mod tests {
    use candle_core::{Device, Result, Tensor, Var};

    /// Repeatable entries between -1 and 1.
    pub(crate) fn entries(count: usize, seed: u64) -> Vec<f32> {
        (0..count as u64)
            .map(|entry| {
                let bits = crate::mix(entry ^ (seed << 32)) >> 40;
                bits as f32 / 8_388_608.0 - 1.0
            })
            .collect()
    }

    pub(crate) fn variable(shape: &[usize], seed: u64) -> Var {
        let entries = entries(shape.iter().product(), seed);
        Var::from_vec(entries, shape, &Device::Cpu).unwrap()
    }

    /// Compares a function's slopes with central differences of a random projection of its result.
    pub(crate) fn check_slopes(inputs: &[Var], function: impl Fn(&[Tensor]) -> Result<Tensor>) {
        let tensors: Vec<Tensor> = inputs.iter().map(|input| input.as_tensor().clone()).collect();
        let result = function(&tensors).unwrap();
        let direction =
            Tensor::from_vec(entries(result.elem_count(), 99), result.shape(), &Device::Cpu).unwrap();
        let project = |tensors: &[Tensor]| -> f64 {
            let result = function(tensors)
                .unwrap()
                .flatten_all()
                .unwrap()
                .to_vec1::<f32>()
                .unwrap();
            let direction = direction.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            result
                .iter()
                .zip(&direction)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum()
        };
        let slopes = (&result * &direction)
            .unwrap()
            .sum_all()
            .unwrap()
            .backward()
            .unwrap();
        for (which, input) in inputs.iter().enumerate() {
            let found = slopes.get(input).expect("every input has a slope");
            let found = found.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let values = input.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert!(
                found.iter().any(|slope| *slope != 0.0),
                "input {which} has no slope"
            );
            let size = found.iter().map(|slope| slope.abs()).fold(0.0_f32, f32::max);
            for at in (0..values.len()).step_by(values.len().div_ceil(23)) {
                let moved = |by: f32| {
                    let mut values = values.clone();
                    values[at] += by;
                    let mut tensors = tensors.clone();
                    tensors[which] = Tensor::from_vec(values, input.shape(), &Device::Cpu).unwrap();
                    project(&tensors)
                };
                let step = 1e-2_f32;
                let expected = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
                let gap = (f64::from(found[at]) - expected).abs();
                assert!(
                    gap < 5e-3 * f64::from(size.max(1.0)),
                    "input {which} entry {at}: {} for {expected}",
                    found[at]
                );
            }
        }
    }

    pub(crate) fn assert_close(left: &Tensor, right: &Tensor, tolerance: f32) {
        assert_eq!(left.dims(), right.dims());
        let gap = (left - right)
            .unwrap()
            .abs()
            .unwrap()
            .flatten_all()
            .unwrap()
            .max(0)
            .unwrap();
        let gap = gap.to_scalar::<f32>().unwrap();
        assert!(gap <= tolerance, "differs by {gap}");
    }
}
