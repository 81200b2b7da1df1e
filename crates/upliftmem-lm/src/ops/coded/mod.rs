//! A frozen matrix in the few bits that its file has, multiplied as whole numbers.
//!
//! A weight is `scale * code + offset`, scale and offset shared by a group of inputs. The inputs of a product are rounded to
//! eight bits a block, so that a product is sums of whole numbers, scaled once a group. That is a third of the time of
//! single precision where many rows are multiplied, and a sixth of the memory to go through where one is. There is no way
//! back: what learns holds its weights in single precision.

mod inputs;
mod kernel;
mod rows;

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::slice;
use inputs::{BLOCK, CodedInputs};
use kernel::{LANES, Panel, multiply};

pub(crate) use rows::{CodedRows, Width};

/// Panels that a thread takes at a time: with the inputs of [`ROWS`] rows they stay in the second cache.
const GROUP: usize = 8;
/// Rows multiplied with the panels of a group before the next rows.
const ROWS: usize = 64;
/// Multiplications below which a second thread costs more than it gives.
const PARALLEL: usize = 1 << 19;

/// A frozen matrix of `outputs` rows of `inputs` codes, laid out for products.
#[derive(Debug)]
pub(crate) struct CodedMatrix {
    inputs: usize,
    outputs: usize,
    width: Width,
    /// Panel after panel of [`LANES`] outputs, block after block: every vector has four inputs of each output, and with
    /// half-byte codes four more above them.
    codes: Vec<[u8; 32]>,
    /// Panel after panel, group after group.
    scales: Vec<[f32; LANES]>,
    /// As scales; none where all are zero.
    offsets: Vec<[f32; LANES]>,
}

impl CodedMatrix {
    /// Lays out rows.
    pub(crate) fn new(rows: &CodedRows) -> Self {
        let (inputs, outputs, width) = (rows.inputs, rows.outputs, rows.width);
        let (blocks, panels) = (inputs / BLOCK, outputs.div_ceil(LANES));
        let groups = inputs / width.group();
        let mut codes = Vec::with_capacity(panels * blocks * width.vectors());
        let (mut scales, mut offsets) = (Vec::with_capacity(panels * groups), Vec::new());
        for panel in 0..panels {
            let code = |lane: usize, input: usize| {
                let output = panel * LANES + lane;
                if output < outputs {
                    rows.codes[output * inputs + input]
                } else {
                    0
                }
            };
            for first in (0..inputs).step_by(BLOCK / width.vectors()) {
                codes.push(std::array::from_fn(|at| {
                    let (lane, input) = (at / 4, first + at % 4);
                    let low = code(lane, input).cast_unsigned();
                    if width == Width::Half {
                        low | code(lane, input + 4).cast_unsigned() << 4
                    } else {
                        low
                    }
                }));
            }
            let of = |all: &[f32], group: usize| {
                std::array::from_fn(|lane| {
                    let output = panel * LANES + lane;
                    all.get(output * groups + group)
                        .copied()
                        .filter(|_| output < outputs)
                        .unwrap_or(0.0)
                })
            };
            scales.extend((0..groups).map(|group| of(&rows.scales, group)));
            if !rows.offsets.is_empty() {
                offsets.extend((0..groups).map(|group| of(&rows.offsets, group)));
            }
        }
        Self {
            inputs,
            outputs,
            width,
            codes,
            scales,
            offsets,
        }
    }

    pub(crate) const fn outputs(&self) -> usize {
        self.outputs
    }

    fn panel(&self, number: usize) -> Panel<'_> {
        let groups = self.inputs / self.width.group();
        let codes = self.inputs / BLOCK * self.width.vectors();
        let part = |all: &'_ [[f32; LANES]]| -> std::ops::Range<usize> {
            if all.is_empty() {
                0..0
            } else {
                number * groups..(number + 1) * groups
            }
        };
        Panel {
            width: self.width,
            codes: &self.codes[number * codes..(number + 1) * codes],
            scales: &self.scales[part(&self.scales)],
            offsets: &self.offsets[part(&self.offsets)],
        }
    }

    /// A row in single precision.
    pub(crate) fn row(&self, output: usize) -> Vec<f32> {
        let panel = self.panel(output / LANES);
        let lane = output % LANES;
        (0..self.inputs)
            .map(|input| {
                let each = BLOCK / self.width.vectors();
                let byte = panel.codes[input / each][lane * 4 + input % 4];
                let code = match self.width {
                    Width::Half if input % 8 < 4 => i32::from(byte & 15),
                    Width::Half => i32::from(byte >> 4),
                    Width::Narrow | Width::Sixteen | Width::Wide => i32::from(byte.cast_signed()),
                };
                let group = input / self.width.group();
                let offset = panel.offsets.get(group).map_or(0.0, |group| group[lane]);
                code as f32 * panel.scales[group][lane] + offset
            })
            .collect()
    }

    /// `x W^T`: rows of `inputs` entries to rows of `outputs` entries. A row's result is the same in any company.
    pub(crate) fn forward(&self, x: &[f32]) -> Vec<f32> {
        let rows = x.len() / self.inputs.max(1);
        let mut out = vec![0.0; rows * self.outputs];
        if out.is_empty() {
            return out;
        }
        let x = CodedInputs::new(x, self.inputs);
        let panels = self.outputs.div_ceil(LANES);
        // Panel after panel, in each row after row: threads then write apart from each other.
        let mut sums = vec![[0.0; LANES]; panels * rows];
        let work = |(group, sums): (usize, &mut [[f32; LANES]])| {
            for first in (0..rows).step_by(ROWS) {
                let last = rows.min(first + ROWS);
                for (at, sums) in sums.chunks_mut(rows).enumerate() {
                    multiply(
                        &self.panel(group * GROUP + at),
                        &x,
                        first..last,
                        &mut sums[first..last],
                    );
                }
            }
        };
        if rows * self.inputs * self.outputs < PARALLEL || rayon::current_num_threads() == 1 {
            sums.chunks_mut(rows * GROUP).enumerate().for_each(work);
        } else {
            sums.par_chunks_mut(rows * GROUP).enumerate().for_each(work);
        }
        for (row, out) in out.chunks_exact_mut(self.outputs).enumerate() {
            for (out, sums) in out.chunks_mut(LANES).zip(sums[row..].iter().step_by(rows)) {
                out.copy_from_slice(&sums[..out.len()]);
            }
        }
        out
    }
}

/// A product with a coded matrix, as an operation of candle.
pub(crate) fn coded_product(x: &Tensor, matrix: &Arc<CodedMatrix>) -> Result<Tensor> {
    x.contiguous()?.apply_op1_no_bwd(&Product(Arc::clone(matrix)))
}

struct Product(Arc<CodedMatrix>);

impl CustomOp1 for Product {
    fn name(&self) -> &'static str {
        "coded-linear"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let out = self.0.forward(slice(storage, layout)?);
        let rows = out.len() / self.0.outputs.max(1);
        Ok((CpuStorage::F32(out), (rows, self.0.outputs).into()))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{
        Device,
        quantized::{GgmlDType, QTensor},
    };
    use proptest::prelude::*;

    use super::*;
    use crate::ops::tests::entries;

    const TYPES: [GgmlDType; 8] = [
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ];

    /// Random rows, coded as a file would have them, and what they say in single precision.
    fn coded(kind: GgmlDType, outputs: usize, inputs: usize) -> (CodedMatrix, Vec<f32>) {
        let single = Tensor::from_vec(entries(outputs * inputs, 7), (outputs, inputs), &Device::Cpu).unwrap();
        let stored = QTensor::quantize(&single, kind).unwrap();
        let rows = CodedRows::decode(kind, &stored.data().unwrap(), outputs, inputs).unwrap();
        let plain = stored.dequantize(&Device::Cpu).unwrap();
        (
            CodedMatrix::new(&rows),
            plain.flatten_all().unwrap().to_vec1().unwrap(),
        )
    }

    #[test]
    fn codes_say_what_the_file_says() {
        for kind in TYPES {
            let (matrix, plain) = coded(kind, 21, 512);
            for (output, expected) in plain.chunks(512).enumerate() {
                for (found, expected) in matrix.row(output).iter().zip(expected) {
                    assert!(
                        (found - expected).abs() < 1e-6,
                        "{kind:?}: {found} for {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_type_that_is_not_known_is_left_to_single_precision() {
        assert!(CodedRows::decode(GgmlDType::Q3K, &[], 0, 256).is_none());
        assert!(CodedRows::decode(GgmlDType::F32, &[], 0, 256).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_product_is_that_of_rounded_inputs(kind in 0_usize..8, rows in 1_usize..80, outputs in 1_usize..60) {
            let inputs = 512;
            let (matrix, weights) = coded(TYPES[kind], outputs, inputs);
            let x = entries(rows * inputs, 2);
            let y = matrix.forward(&x);
            let rounded: Vec<f64> = x
                .chunks(BLOCK)
                .flat_map(|block| {
                    let scale = block.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / 127.0;
                    block.iter().map(move |x| f64::from((x / scale).round_ties_even() * scale))
                })
                .collect();
            for row in 0..rows {
                for output in 0..outputs {
                    let expected: f64 = (0..inputs)
                        .map(|k| rounded[row * inputs + k] * f64::from(weights[output * inputs + k]))
                        .sum();
                    let found = f64::from(y[row * outputs + output]);
                    prop_assert!((found - expected).abs() < 2e-4, "{:?}: {found} for {expected}", TYPES[kind]);
                }
            }
        }

        #[test]
        fn a_row_has_the_same_product_alone_and_without_vectors(kind in 0_usize..8, rows in 1_usize..20) {
            let (matrix, _) = coded(TYPES[kind], 19, 256);
            let x = entries(rows * 256, 2);
            let together = matrix.forward(&x);
            for (row, expected) in x.chunks(256).zip(together.chunks(19)) {
                prop_assert_eq!(&matrix.forward(row), expected);
                let inputs = CodedInputs::new(row, 256);
                for (panel, expected) in expected.chunks(LANES).enumerate() {
                    let mut sums = [[0.0; LANES]];
                    kernel::portable(&matrix.panel(panel), &inputs, 0..1, &mut sums);
                    prop_assert_eq!(&sums[0][..expected.len()], expected);
                }
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        // The largest codes that a type has, against the largest inputs, in every place.
        for kind in TYPES {
            for sign in [-1.0_f32, 1.0] {
                let weights: Vec<f32> = (0..256)
                    .map(|at| if at % 16 == 0 { -1.0 } else { sign })
                    .collect();
                let single = Tensor::from_vec(weights, (1, 256), &Device::Cpu).unwrap();
                let stored = QTensor::quantize(&single, kind).unwrap();
                let rows = CodedRows::decode(kind, &stored.data().unwrap(), 1, 256).unwrap();
                let weights = CodedMatrix::new(&rows).row(0);
                for x in [
                    vec![3.0_f32; 256],
                    weights.iter().map(|w| 3.0 * w.signum()).collect(),
                ] {
                    let expected: f32 = weights.iter().zip(&x).map(|(w, x)| w * x).sum();
                    let found = CodedMatrix::new(&rows).forward(&x)[0];
                    assert!(
                        (found - expected).abs() < 0.01,
                        "{kind:?}: {found} for {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn odd_inputs_stay_odd() {
        let (matrix, _) = coded(GgmlDType::Q4_1, 9, 256);
        assert!(matrix.forward(&[0.0; 256]).iter().all(|&y| y == 0.0));
        assert!(matrix.forward(&[]).is_empty());
        let mut x = vec![1.0; 256];
        x[3] = f32::NAN;
        assert!(matrix.forward(&x).iter().all(|y| y.is_nan()));
    }
}
