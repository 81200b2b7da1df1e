//! Inputs of a product, rounded to eight bits.

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
        pulp::Arch::new().dispatch(|| {
            for block in x.as_chunks::<BLOCK>().0 {
                coded.push(block);
            }
        });
        coded
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "codes are within -127 to 127")]
    fn push(&mut self, block: &[f32; BLOCK]) {
        // Adding and taking away this number rounds to the nearest whole one, of two the even.
        const ROUND: f32 = 12_582_912.0;
        let most = block.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = most / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let mut bytes = [0_i8; BLOCK];
        let mut sum = 0_i32;
        let mut odd = 0.0_f32;
        for (byte, &x) in bytes.iter_mut().zip(block) {
            let code = ((x * inverse + ROUND) - ROUND) as i32;
            *byte = code.clamp(-127, 127) as i8;
            sum += i32::from(*byte);
            // Zero for a number, not a number otherwise: it must not be rounded away.
            odd += x * 0.0;
        }
        self.codes.push(std::array::from_fn(|word| {
            i32::from_le_bytes(std::array::from_fn(|at| bytes[4 * word + at].cast_unsigned()))
        }));
        self.scales.push(scale + odd);
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
