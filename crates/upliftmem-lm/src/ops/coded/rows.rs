//! The blocks of GGUF files as codes, scales and offsets.

use candle_core::quantized::GgmlDType;
use half::f16;

use super::BLOCK;

/// How codes are held, and how many inputs share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Half a byte, 0 to 15; a scale for 32 inputs.
    Half,
    /// A byte, -16 to 16; a scale for 32 inputs.
    Narrow,
    /// A byte, -32 to 32; a scale for 16 inputs.
    Sixteen,
    /// A byte, -128 to 127; a scale for 32 inputs.
    Wide,
}

impl Width {
    /// Inputs that share a scale.
    pub(super) const fn group(self) -> usize {
        match self {
            Self::Sixteen => 16,
            Self::Half | Self::Narrow | Self::Wide => 32,
        }
    }

    /// Vectors of 32 bytes that hold a block of eight outputs.
    pub(super) const fn vectors(self) -> usize {
        match self {
            Self::Half => 4,
            Self::Narrow | Self::Sixteen | Self::Wide => 8,
        }
    }
}

/// Rows as they stand in a file.
#[derive(Debug, Clone)]
pub(crate) struct CodedRows {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) width: Width,
    pub(super) codes: Vec<i8>,
    /// One for each group.
    pub(super) scales: Vec<f32>,
    /// One for each group, or none at all.
    pub(super) offsets: Vec<f32>,
}

impl CodedRows {
    /// Reads the bytes of a tensor; `None` if its type has no codes here.
    pub(crate) fn decode(kind: GgmlDType, bytes: &[u8], outputs: usize, inputs: usize) -> Option<Self> {
        let width = match kind {
            GgmlDType::Q4_0 | GgmlDType::Q4_1 | GgmlDType::Q4K => Width::Half,
            GgmlDType::Q5_0 | GgmlDType::Q5_1 | GgmlDType::Q5K => Width::Narrow,
            GgmlDType::Q6K => Width::Sixteen,
            GgmlDType::Q8_0 => Width::Wide,
            _ => return None,
        };
        if !inputs.is_multiple_of(BLOCK) {
            return None;
        }
        let mut rows = Self {
            inputs,
            outputs,
            width,
            codes: Vec::with_capacity(outputs * inputs),
            scales: Vec::with_capacity(outputs * inputs / width.group()),
            offsets: Vec::new(),
        };
        for block in bytes.chunks_exact(kind.type_size()) {
            match kind {
                GgmlDType::Q4_0 => {
                    let scale = half_at(block, 0);
                    rows.group(scale, -8.0 * scale, &nibbles(&block[2..]));
                }
                GgmlDType::Q4_1 => rows.group(half_at(block, 0), half_at(block, 2), &nibbles(&block[4..])),
                GgmlDType::Q5_0 => {
                    let codes = fifth_bits(nibbles(&block[6..]), &block[2..6]);
                    rows.group(half_at(block, 0), 0.0, &codes);
                }
                GgmlDType::Q5_1 => {
                    let (scale, codes) = (half_at(block, 0), fifth_bits(nibbles(&block[8..]), &block[4..8]));
                    rows.group(scale, half_at(block, 2) + 16.0 * scale, &codes);
                }
                GgmlDType::Q8_0 => {
                    let codes: [i8; BLOCK] = std::array::from_fn(|at| block[2 + at].cast_signed());
                    rows.group(half_at(block, 0), 0.0, &codes);
                }
                GgmlDType::Q6K => rows.sixes(block),
                _ => rows.fours_and_fives(block, kind == GgmlDType::Q5K),
            }
        }
        if rows.offsets.iter().all(|&offset| offset == 0.0) {
            rows.offsets = Vec::new();
        }
        Some(rows)
    }

    /// Whether all scales and offsets are numbers.
    pub(crate) fn finite(&self) -> bool {
        self.scales
            .iter()
            .chain(&self.offsets)
            .all(|entry| entry.is_finite())
    }

    /// The rows in another order: `from` says where each comes from.
    pub(crate) fn reordered(&self, from: impl Fn(usize) -> usize) -> Self {
        fn pick<T: Copy>(all: &[T], outputs: usize, from: impl Fn(usize) -> usize) -> Vec<T> {
            let width = all.len() / outputs.max(1);
            (0..outputs)
                .flat_map(|row| all[from(row) * width..(from(row) + 1) * width].iter().copied())
                .collect()
        }
        Self {
            codes: pick(&self.codes, self.outputs, &from),
            scales: pick(&self.scales, self.outputs, &from),
            offsets: pick(&self.offsets, self.outputs, &from),
            ..*self
        }
    }

    fn group(&mut self, scale: f32, offset: f32, codes: &[i8]) {
        self.scales.push(scale);
        self.offsets.push(offset);
        self.codes.extend_from_slice(codes);
    }

    /// 256 weights in eight groups, scales and offsets in six bits each.
    fn fours_and_fives(&mut self, block: &[u8], fifth: bool) {
        let (scale, least) = (half_at(block, 0), half_at(block, 2));
        let packed = &block[4..16];
        let (high, low) = if fifth {
            (&block[16..48], &block[48..176])
        } else {
            (&block[..0], &block[16..144])
        };
        for group in 0..8 {
            let (own, offset) = if group < 4 {
                (packed[group] & 63, packed[group + 4] & 63)
            } else {
                (
                    packed[group + 4] & 15 | packed[group - 4] >> 6 << 4,
                    packed[group + 4] >> 4 | packed[group] >> 6 << 4,
                )
            };
            let bytes = &low[group / 2 * 32..][..32];
            let codes: [i8; BLOCK] = std::array::from_fn(|at| {
                let code = if group % 2 == 0 {
                    bytes[at] & 15
                } else {
                    bytes[at] >> 4
                };
                let code = code.cast_signed();
                match high.get(at) {
                    Some(bits) if bits >> group & 1 == 0 => code - 16,
                    Some(_) | None => code,
                }
            });
            let scale = scale * f32::from(own);
            let shift = if fifth { 16.0 * scale } else { 0.0 };
            self.group(scale, shift - least * f32::from(offset), &codes);
        }
    }

    /// 256 weights of six bits in sixteen groups.
    fn sixes(&mut self, block: &[u8]) {
        let scale = half_at(block, 208);
        for group in 0..16 {
            // A half has 128 weights, a quarter of it 32, each of two groups.
            let (half, quarter, first) = (group / 8, group % 8 / 2, group % 2 * 16);
            let (low, high) = (&block[64 * half..], &block[128 + 32 * half..]);
            let codes: [i8; 16] = std::array::from_fn(|at| {
                let at = first + at;
                let byte = low[at + 32 * (quarter % 2)];
                let below = if quarter < 2 { byte & 15 } else { byte >> 4 };
                let above = high[at] >> (2 * quarter) & 3;
                (below | above << 4).cast_signed() - 32
            });
            let own = f32::from(block[192 + group].cast_signed());
            self.group(scale * own, 0.0, &codes);
        }
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// 32 codes of four bits: the lower halves of sixteen bytes, then the upper ones.
fn nibbles(bytes: &[u8]) -> [i8; BLOCK] {
    std::array::from_fn(|at| {
        let byte = bytes[at % 16];
        (if at < 16 { byte & 15 } else { byte >> 4 }).cast_signed()
    })
}

/// Codes with a fifth bit above, moved to -16 to 15.
fn fifth_bits(codes: [i8; BLOCK], bits: &[u8]) -> [i8; BLOCK] {
    std::array::from_fn(|at| {
        let bit = bits[at / 8] >> (at % 8) & 1;
        if bit == 0 { codes[at] - 16 } else { codes[at] }
    })
}
