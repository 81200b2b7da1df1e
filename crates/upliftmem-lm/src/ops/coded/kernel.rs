//! The innermost product of codes: eight outputs at a time, some rows at a time.

use std::ops::Range;

use super::{
    Width,
    inputs::{BLOCK, CodedInputs, InputRow},
};

/// Outputs of a panel.
pub(super) const LANES: usize = 8;

/// Eight outputs of a matrix.
pub(super) struct Panel<'a> {
    pub(super) width: Width,
    pub(super) codes: &'a [[u8; 32]],
    pub(super) scales: &'a [[f32; LANES]],
    pub(super) offsets: &'a [[f32; LANES]],
}

/// Multiplies some rows of inputs with a panel.
pub(super) fn multiply(panel: &Panel<'_>, x: &CodedInputs, rows: Range<usize>, out: &mut [[f32; LANES]]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        simd.vectorize(vectors::Product {
            simd,
            panel,
            x,
            rows,
            out,
        });
        return;
    }
    portable(panel, x, rows, out);
}

/// The same on any processor: the same whole sums, and the same rounding of each group.
pub(super) fn portable(panel: &Panel<'_>, x: &CodedInputs, rows: Range<usize>, out: &mut [[f32; LANES]]) {
    let (vectors, groups) = (panel.width.vectors(), BLOCK / panel.width.group());
    for (row, out) in rows.zip(out) {
        let InputRow { codes, scales, sums } = x.row(row);
        *out = [0.0; LANES];
        for (block, words) in codes.iter().enumerate() {
            let inputs = words.map(|word| word.to_le_bytes().map(u8::cast_signed));
            let inputs = inputs.as_flattened();
            let weights = &panel.codes[block * vectors..(block + 1) * vectors];
            for group in 0..groups {
                let mut whole = [0_i32; LANES];
                let own = group * vectors / groups..(group + 1) * vectors / groups;
                for (number, weights) in own.clone().zip(&weights[own]) {
                    let x = &inputs[number * BLOCK / vectors..][..BLOCK / vectors];
                    for (whole, weights) in whole.iter_mut().zip(weights.as_chunks::<4>().0) {
                        for (at, &weight) in weights.iter().enumerate() {
                            *whole += if panel.width == Width::Half {
                                i32::from(weight & 15) * i32::from(x[at])
                                    + i32::from(weight >> 4) * i32::from(x[at + 4])
                            } else {
                                i32::from(weight.cast_signed()) * i32::from(x[at])
                            };
                        }
                    }
                }
                let scale = &panel.scales[block * groups + group];
                for ((out, whole), weight) in out.iter_mut().zip(whole).zip(scale) {
                    *out = (whole as f32).mul_add(weight * scales[block], *out);
                }
            }
            if let Some(offsets) = panel.offsets.get(block) {
                for (out, offset) in out.iter_mut().zip(offsets) {
                    *out = offset.mul_add(sums[block], *out);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::{arch::x86_64::__m256i, ops::Range};

    use pulp::{NullaryFnOnce, cast, x86::V3};

    use super::{CodedInputs, InputRow, LANES, Panel, Width};

    pub(super) struct Product<'a, 'b> {
        pub(super) simd: V3,
        pub(super) panel: &'a Panel<'b>,
        pub(super) x: &'a CodedInputs,
        pub(super) rows: Range<usize>,
        pub(super) out: &'a mut [[f32; LANES]],
    }

    impl NullaryFnOnce for Product<'_, '_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            match self.panel.width {
                Width::Half => self.tiles::<4, 1, HALF>(),
                Width::Narrow => self.tiles::<8, 1, NARROW>(),
                Width::Sixteen => self.tiles::<4, 2, NARROW>(),
                Width::Wide => self.tiles::<8, 1, WIDE>(),
            }
        }
    }

    /// Half-byte codes from 0 to 15.
    const HALF: u8 = 0;
    /// Codes so small that sixteen bits hold the sum of a group.
    const NARROW: u8 = 1;
    /// Codes of eight bits.
    const WIDE: u8 = 2;

    impl Product<'_, '_> {
        /// Four rows at a time: their sums fill the registers.
        #[inline(always)]
        fn tiles<const VECTORS: usize, const GROUPS: usize, const KIND: u8>(self) {
            let mut row = self.rows.start;
            let (fours, rest) = self.out.as_chunks_mut::<4>();
            for out in fours {
                let rows = std::array::from_fn(|at| self.x.row(row + at));
                tile::<4, VECTORS, GROUPS, KIND>(self.simd, self.panel, rows, out);
                row += 4;
            }
            for out in rest {
                let rows = [self.x.row(row)];
                tile::<1, VECTORS, GROUPS, KIND>(self.simd, self.panel, rows, std::array::from_mut(out));
                row += 1;
            }
        }
    }

    /// Some rows times a panel. Each block has `GROUPS` groups of `VECTORS` vectors.
    #[inline(always)]
    fn tile<const ROWS: usize, const VECTORS: usize, const GROUPS: usize, const KIND: u8>(
        simd: V3,
        panel: &Panel<'_>,
        rows: [InputRow<'_>; ROWS],
        out: &mut [[f32; LANES]; ROWS],
    ) {
        let V3 { avx, avx2, fma, .. } = simd;
        let ones = avx._mm256_set1_epi16(1);
        let zero = avx._mm256_setzero_si256();
        let mut sums = [avx._mm256_setzero_ps(); ROWS];
        let blocks = rows[0].codes.len();
        let (groups, _) = panel.codes.as_chunks::<VECTORS>();
        let (groups, _) = groups.as_chunks::<GROUPS>();
        let (scales, _) = panel.scales.as_chunks::<GROUPS>();
        let (groups, scales) = (&groups[..blocks], &scales[..blocks]);
        let rows = rows.map(|row| (&row.codes[..blocks], &row.scales[..blocks], &row.sums[..blocks]));
        for block in 0..blocks {
            for group in 0..GROUPS {
                let mut whole = [zero; ROWS];
                for (number, weights) in groups[block][group].iter().enumerate() {
                    let weights: __m256i = cast(*weights);
                    let first = group * VECTORS + number;
                    if KIND == HALF {
                        let mask = avx._mm256_set1_epi8(15);
                        let low = avx2._mm256_and_si256(weights, mask);
                        let high = avx2._mm256_and_si256(avx2._mm256_srli_epi16::<4>(weights), mask);
                        for (whole, (codes, ..)) in whole.iter_mut().zip(&rows) {
                            let x = avx._mm256_set1_epi32(codes[block][2 * first]);
                            let more = avx._mm256_set1_epi32(codes[block][2 * first + 1]);
                            *whole = avx2._mm256_add_epi16(*whole, avx2._mm256_maddubs_epi16(low, x));
                            *whole = avx2._mm256_add_epi16(*whole, avx2._mm256_maddubs_epi16(high, more));
                        }
                    } else {
                        let size = avx2._mm256_abs_epi8(weights);
                        for (whole, (codes, ..)) in whole.iter_mut().zip(&rows) {
                            let x = avx._mm256_set1_epi32(codes[block][first]);
                            let pairs = avx2._mm256_maddubs_epi16(size, avx2._mm256_sign_epi8(x, weights));
                            *whole = if KIND == WIDE {
                                avx2._mm256_add_epi32(*whole, avx2._mm256_madd_epi16(pairs, ones))
                            } else {
                                avx2._mm256_add_epi16(*whole, pairs)
                            };
                        }
                    }
                }
                let scale = cast(scales[block][group]);
                for ((whole, sum), (_, scales, _)) in whole.into_iter().zip(&mut sums).zip(&rows) {
                    let whole = if KIND == WIDE {
                        whole
                    } else {
                        avx2._mm256_madd_epi16(whole, ones)
                    };
                    let scale = avx._mm256_mul_ps(scale, avx._mm256_set1_ps(scales[block]));
                    *sum = fma._mm256_fmadd_ps(avx._mm256_cvtepi32_ps(whole), scale, *sum);
                }
            }
            if let Some(offset) = panel.offsets.get(block) {
                let offset = cast(*offset);
                for (sum, (.., inputs)) in sums.iter_mut().zip(&rows) {
                    *sum = fma._mm256_fmadd_ps(offset, avx._mm256_set1_ps(inputs[block]), *sum);
                }
            }
        }
        *out = sums.map(cast);
    }
}
