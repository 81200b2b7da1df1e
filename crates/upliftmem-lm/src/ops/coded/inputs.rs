//! Inputs of a product, rounded to eight bits.

use pulp::Simd;

/// Inputs that share a scale.
pub(super) const BLOCK: usize = 32;

/// Rows of inputs. An input is about `scale * code`, codes from -127 to 127.
pub(super) struct CodedInputs {
    blocks: usize,
    /// Four codes in a word, as they are multiplied.
    codes: Vec<[i32; BLOCK / 4]>,
    scales: Vec<f32>,
    /// The sum of a block's rounded inputs: what an offset of the weights is multiplied with.
    sums: Vec<f32>,
}

/// One row.
#[derive(Clone, Copy)]
pub(super) struct InputRow<'a> {
    pub(super) codes: &'a [[i32; BLOCK / 4]],
    pub(super) scales: &'a [f32],
    pub(super) sums: &'a [f32],
}

impl CodedInputs {
    /// Rounds rows of `width` entries, a multiple of [`BLOCK`].
    pub(super) fn new(x: &[f32], width: usize) -> Self {
        let count = x.len() / BLOCK;
        let mut coded = Self {
            blocks: width / BLOCK,
            codes: Vec::with_capacity(count),
            scales: Vec::with_capacity(count),
            sums: Vec::with_capacity(count),
        };
        push_all(&mut coded, x);
        coded
    }

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "codes of numbers are within -127 to 127, and the scale of others is none"
    )]
    fn push(&mut self, block: &[f32; BLOCK]) {
        // Adding this number rounds to the nearest whole one, of two the even, which then stands in the lowest bits.
        const ROUND: f32 = 12_582_912.0;
        // Eight partial results, which the compiler makes a vector of.
        let (eights, _) = block.as_chunks::<8>();
        let (mut most, mut odd) = ([0.0_f32; 8], [0.0_f32; 8]);
        for eight in eights {
            for ((most, odd), &x) in most.iter_mut().zip(&mut odd).zip(eight) {
                *most = if x.abs() > *most { x.abs() } else { *most };
                // Zero for a number, not a number otherwise: it must not be rounded away.
                *odd += x * 0.0;
            }
        }
        let scale = most.into_iter().fold(0.0, f32::max) / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let mut bytes = [0_i8; BLOCK];
        let mut sum = 0_i32;
        for (byte, &x) in bytes.iter_mut().zip(block) {
            let code = (x * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
            *byte = code.cast_signed() as i8;
            sum = sum.wrapping_add(code.cast_signed());
        }
        self.codes.push(std::array::from_fn(|word| {
            i32::from_le_bytes(std::array::from_fn(|at| bytes[4 * word + at].cast_unsigned()))
        }));
        self.scales.push(scale + odd.into_iter().sum::<f32>());
        self.sums.push(sum as f32 * scale);
    }

    pub(super) fn row(&self, row: usize) -> InputRow<'_> {
        let own = row * self.blocks..(row + 1) * self.blocks;
        InputRow {
            codes: &self.codes[own.clone()],
            scales: &self.scales[own.clone()],
            sums: &self.sums[own],
        }
    }
}

#[pulp::with_simd(push_all = pulp::Arch::new())]
#[inline(always)]
fn push_each<'a, S: Simd>(_: S, coded: &'a mut CodedInputs, x: &'a [f32]) {
    for block in x.as_chunks::<BLOCK>().0 {
        coded.push(block);
    }
}
