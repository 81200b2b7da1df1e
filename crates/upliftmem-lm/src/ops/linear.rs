//! A frozen linear map: its way back gives the slope by the input and none by the weight.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Device, Layout, Result, Shape, Tensor};

use super::{
    adapted::Adapted,
    coded::{CodedMatrix, CodedRows, coded_product},
    dropout::Dropout,
    matrix::PackedMatrix,
    slice, width, with_entries,
};

/// `x W^T + bias` with frozen weight and bias.
#[derive(Debug, Clone)]
pub(crate) struct FrozenLinear {
    weight: Weight,
    bias: Option<Tensor>,
}

#[derive(Debug, Clone)]
enum Weight {
    /// On a processor: laid out for the kernel.
    Packed(Arc<PackedMatrix>),
    /// On a processor, in as few bits as the file has. No slope goes back through it.
    Coded(Arc<CodedMatrix>),
    /// On any other device: rows, one for each output.
    Rows(Tensor),
}

impl FrozenLinear {
    /// From rows of `inputs` entries, one for each output.
    pub(crate) fn new(
        rows: &[f32],
        outputs: usize,
        inputs: usize,
        bias: Option<&[f32]>,
        device: &Device,
    ) -> Result<Self> {
        let weight = if device.is_cpu() {
            Weight::Packed(Arc::new(PackedMatrix::new(rows, outputs, inputs)))
        } else {
            Weight::Rows(Tensor::from_slice(rows, (outputs, inputs), device)?)
        };
        Ok(Self {
            weight,
            bias: bias
                .map(|bias| Tensor::from_slice(bias, outputs, device))
                .transpose()?,
        })
    }

    /// From rows in few bits, on a processor.
    pub(crate) fn coded(rows: &CodedRows, bias: Option<&[f32]>) -> Result<Self> {
        let matrix = CodedMatrix::new(rows);
        Ok(Self {
            bias: bias
                .map(|bias| Tensor::from_slice(bias, matrix.outputs(), &Device::Cpu))
                .transpose()?,
            weight: Weight::Coded(Arc::new(matrix)),
        })
    }

    /// The matrix, where it is laid out for the kernel and nothing is added to its products.
    pub(super) const fn packed(&self) -> Option<&Arc<PackedMatrix>> {
        match (&self.weight, &self.bias) {
            (Weight::Packed(matrix), None) => Some(matrix),
            _ => None,
        }
    }

    /// Rows of inputs to rows of outputs.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = match &self.weight {
            Weight::Packed(matrix) => x.contiguous()?.apply_op1(Product(Arc::clone(matrix)))?,
            Weight::Coded(matrix) => coded_product(x, matrix)?,
            // A detached copy of the weight's handle has no slope, so candle computes none for it.
            Weight::Rows(weight) => x.matmul(&weight.t()?)?,
        };
        self.biased(y)
    }

    fn biased(&self, y: Tensor) -> Result<Tensor> {
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

impl FrozenLinear {
    /// The same with `scale * dropout(x) down^T up^T` added.
    pub(crate) fn adapted(
        &self,
        x: &Tensor,
        (down, up): (&Tensor, &Tensor),
        scale: f64,
        dropout: Option<Dropout>,
    ) -> Result<Tensor> {
        let Weight::Packed(matrix) = &self.weight else {
            let y = self.forward(x)?;
            let x = match dropout {
                Some(dropout) => dropout.apply(x)?,
                None => x.clone(),
            };
            let low = (x.matmul(&down.t()?)? * scale)?;
            return y + low.matmul(&up.t()?)?;
        };
        let beside = Adapted::new(Arc::clone(matrix), scale, dropout);
        let y = x
            .contiguous()?
            .apply_op3(&down.contiguous()?, &up.contiguous()?, beside)?;
        self.biased(y)
    }

    /// Rows of inputs to rows of outputs on a processor, in place of what is there or added to it.
    pub(crate) fn apply(&self, x: &[f32], out: &mut [f32], add: bool) -> Result<()> {
        match &self.weight {
            Weight::Packed(matrix) => matrix.forward_into(x, out, add),
            Weight::Coded(matrix) => {
                let product = matrix.forward(x);
                if add {
                    add_to(out, &product);
                } else {
                    out.copy_from_slice(&product);
                }
            }
            Weight::Rows(_) => candle_core::bail!("the operation runs on a processor only"),
        }
        if let Some(bias) = &self.bias {
            with_entries(bias, |bias| {
                for row in out.chunks_exact_mut(bias.len()) {
                    add_to(row, bias);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn add_to(sums: &mut [f32], more: &[f32]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

struct Product(Arc<PackedMatrix>);

impl CustomOp1 for Product {
    fn name(&self) -> &'static str {
        "frozen-linear"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = slice(storage, layout)?;
        let out = self.0.forward(x);
        let rows = out.len() / self.0.outputs().max(1);
        Ok((CpuStorage::F32(out), (rows, self.0.outputs()).into()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, slope: &Tensor) -> Result<Option<Tensor>> {
        debug_assert_eq!(width(x)?, self.0.inputs());
        let dx = with_entries(slope, |slope| Ok(self.0.backward(slope)))?;
        Ok(Some(Tensor::from_vec(dx, x.shape(), x.device())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::tests::{assert_close, check_slopes, entries, variable};

    #[test]
    fn equals_a_product_and_has_its_slopes() {
        let (weight, bias) = (entries(19 * 40, 5), entries(19, 6));
        let linear = FrozenLinear::new(&weight, 19, 40, Some(&bias), &Device::Cpu).unwrap();
        let x = variable(&[7, 40], 1);
        let rows = Tensor::from_slice(&weight, (19, 40), &Device::Cpu).unwrap();
        let bias = Tensor::from_slice(&bias, 19, &Device::Cpu).unwrap();
        let expected = x
            .matmul(&rows.t().unwrap())
            .unwrap()
            .broadcast_add(&bias)
            .unwrap();
        assert_close(&linear.forward(&x).unwrap(), &expected, 1e-5);
        check_slopes(&[x], |inputs| linear.forward(&inputs[0]));
    }
}
