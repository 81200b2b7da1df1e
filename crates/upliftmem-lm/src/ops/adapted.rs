//! A frozen map with a low-rank one beside it, there and back in one operation.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};

use super::{
    dropout::Dropout,
    kernel::{Panels, Strided, Target, cut_and_multiply, panels_of},
    matrix::PackedMatrix,
    slice,
    turn::{Rows, turn},
    with_entries,
};

/// Rows whose products are summed at a time.
const ROWS: usize = 192;

/// `x W^T + scale * dropout(x) down^T up^T`. What was dropped is drawn again on the way back instead of being kept.
pub(super) struct Adapted {
    matrix: Arc<PackedMatrix>,
    scale: f32,
    dropout: Option<Dropout>,
}

impl Adapted {
    #[expect(clippy::cast_possible_truncation, reason = "entries are in single precision")]
    pub(super) fn new(matrix: Arc<PackedMatrix>, scale: f64, dropout: Option<Dropout>) -> Self {
        Self {
            matrix,
            scale: scale as f32,
            dropout,
        }
    }

    /// The inputs of the low-rank map.
    fn dropped(&self, x: &[f32]) -> Vec<f32> {
        let mut x = x.to_vec();
        if let Some(dropout) = self.dropout {
            dropout.drop(&mut x);
        }
        x
    }

    /// Slopes by input, down and up.
    fn slopes(&self, x: &[f32], down: &[f32], up: &[f32], slope: &[f32]) -> [Vec<f32>; 3] {
        let (inputs, outputs) = (self.matrix.inputs(), self.matrix.outputs());
        let rank = down.len() / inputs;
        let x = self.dropped(x);
        let low = lower(&x, down, rank, self.scale);
        let by_up = sums_of_products((&low, rank), (slope, outputs));
        let mut by_low = PackedMatrix::new(up, outputs, rank).backward(slope);
        scale(&mut by_low, self.scale);
        let by_down = sums_of_products((&by_low, rank), (&x, inputs));
        // In the space of what was dropped.
        let mut by_dropped = x;
        let mut panels = Vec::new();
        panels_of(Strided::rows(down, inputs), rank, inputs, &mut panels);
        let mut target = Target {
            out: &mut by_dropped,
            stride: inputs,
            columns: inputs,
            add: false,
        };
        let left = Strided::rows(&by_low, rank);
        let size = (slope.len() / outputs, rank);
        cut_and_multiply(
            size,
            left,
            Panels::of(&panels, rank),
            &mut target,
            &mut Vec::new(),
        );
        if let Some(dropout) = self.dropout {
            dropout.drop(&mut by_dropped);
        }
        let mut by_input = self.matrix.backward(slope);
        for (sum, more) in by_input.iter_mut().zip(&by_dropped) {
            *sum += more;
        }
        [by_input, by_down, turned(&by_up, rank)]
    }
}

/// Adds `scale * x down^T up^T` to rows of outputs.
pub(crate) fn add_low_rank(x: &[f32], down: &Tensor, up: &Tensor, scale: f32, out: &mut [f32]) -> Result<()> {
    let rank = down.dim(0)?;
    with_entries(down, |down| {
        with_entries(up, |up| {
            raise(&lower(x, down, rank, scale), up, rank, out);
            Ok(())
        })
    })
}

/// `scale * x down^T`.
fn lower(x: &[f32], down: &[f32], rank: usize, by: f32) -> Vec<f32> {
    let mut low = PackedMatrix::new(down, rank, down.len() / rank).forward(x);
    scale(&mut low, by);
    low
}

/// Adds `low up^T`.
fn raise(low: &[f32], up: &[f32], rank: usize, out: &mut [f32]) {
    PackedMatrix::new(up, up.len() / rank, rank).forward_into(low, out, true);
}

fn scale(entries: &mut [f32], by: f32) {
    for entry in entries {
        *entry *= by;
    }
}

/// `left^T right`, summed over the rows that both have.
fn sums_of_products((left, width): (&[f32], usize), (right, columns): (&[f32], usize)) -> Vec<f32> {
    let mut out = vec![0.0; width * columns];
    let (mut panels, mut tiles) = (Vec::new(), Vec::new());
    for (left, right) in left.chunks(ROWS * width).zip(right.chunks(ROWS * columns)) {
        let rows = left.len() / width;
        panels_of(Strided::rows(right, columns), rows, columns, &mut panels);
        let mut target = Target {
            out: &mut out,
            stride: columns,
            columns,
            add: true,
        };
        let left = Strided::rows(left, width).transposed();
        cut_and_multiply(
            (width, rows),
            left,
            Panels::of(&panels, rows),
            &mut target,
            &mut tiles,
        );
    }
    out
}

/// Rows become columns.
fn turned(rows: &[f32], count: usize) -> Vec<f32> {
    let columns = rows.len() / count;
    let mut out = vec![0.0; rows.len()];
    let rows = Rows {
        entries: rows,
        stride: columns,
        count,
        columns,
    };
    turn(rows, &mut out, count);
    out
}

impl CustomOp3 for Adapted {
    fn name(&self) -> &'static str {
        "adapted-linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        down: &CpuStorage,
        down_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, rank) = (slice(x, x_layout)?, down_layout.dims()[0]);
        let mut out = self.matrix.forward(x);
        let low = lower(&self.dropped(x), slice(down, down_layout)?, rank, self.scale);
        raise(&low, slice(up, up_layout)?, rank, &mut out);
        let rows = x.len() / self.matrix.inputs().max(1);
        Ok((CpuStorage::F32(out), (rows, self.matrix.outputs()).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        down: &Tensor,
        up: &Tensor,
        _: &Tensor,
        slope: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [by_input, by_down, by_up] = with_entries(x, |x| {
            with_entries(down, |down| {
                with_entries(up, |up| {
                    with_entries(slope, |slope| Ok(self.slopes(x, down, up, slope)))
                })
            })
        })?;
        let like = |entries: Vec<f32>, other: &Tensor| {
            Tensor::from_vec(entries, other.shape(), other.device()).map(Some)
        };
        Ok((like(by_input, x)?, like(by_down, down)?, like(by_up, up)?))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::ops::tests::{assert_close, check_slopes, entries, variable};

    #[test]
    fn equals_its_composition_and_has_its_slopes() {
        let weight = entries(37 * 40, 5);
        let matrix = Arc::new(PackedMatrix::new(&weight, 37, 40));
        let weight = Tensor::from_slice(&weight, (37, 40), &Device::Cpu).unwrap();
        let inputs = [
            variable(&[7, 40], 1),
            variable(&[3, 40], 2),
            variable(&[37, 3], 3),
        ];
        for dropout in [None, Some(Dropout { rate: 0.3, seed: 4 })] {
            let adapted = |inputs: &[Tensor]| {
                inputs[0].apply_op3(
                    &inputs[1],
                    &inputs[2],
                    Adapted::new(Arc::clone(&matrix), 1.5, dropout),
                )
            };
            let tensors: Vec<Tensor> = inputs.iter().map(|input| input.as_tensor().clone()).collect();
            let [x, down, up] = &tensors[..] else {
                unreachable!()
            };
            let left = match dropout {
                Some(dropout) => dropout.apply(x).unwrap(),
                None => x.clone(),
            };
            let low = (left.matmul(&down.t().unwrap()).unwrap() * 1.5).unwrap();
            let base = x.matmul(&weight.t().unwrap()).unwrap();
            let expected = (base + low.matmul(&up.t().unwrap()).unwrap()).unwrap();
            let own = adapted(&tensors).unwrap();
            assert_close(&own, &expected, 1e-5);
            let (own, expected) = (
                own.sqr().unwrap().sum_all().unwrap().backward().unwrap(),
                expected.sqr().unwrap().sum_all().unwrap().backward().unwrap(),
            );
            for input in &inputs {
                let (own, expected) = (own.get(input).unwrap(), expected.get(input).unwrap());
                assert_close(own, expected, 2e-3);
            }
            check_slopes(&inputs, adapted);
        }
    }
}
