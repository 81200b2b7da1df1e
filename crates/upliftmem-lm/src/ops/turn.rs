//! Rows to columns.

/// A matrix to be read: rows of `stride` entries, of which the first `columns` count.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) entries: &'a [f32],
    pub(super) stride: usize,
    pub(super) count: usize,
    pub(super) columns: usize,
}

/// Writes the columns of a matrix one after another, `stride` entries from one to the next.
pub(super) fn turn(rows: Rows<'_>, out: &mut [f32], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        simd.vectorize(x86::Turn {
            simd,
            rows,
            out,
            stride,
        });
        return;
    }
    one_by_one(rows, 0, 0, out, stride);
}

/// Turns the rows and columns from some on.
#[inline(always)]
fn one_by_one(rows: Rows<'_>, first_row: usize, first_column: usize, out: &mut [f32], stride: usize) {
    for row in first_row..rows.count {
        let entries = &rows.entries[row * rows.stride..][first_column..rows.columns];
        for (column, &entry) in (first_column..).zip(entries) {
            out[column * stride + row] = entry;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::__m256;

    use pulp::x86::V3;

    use super::{Rows, one_by_one};

    /// What is turned in registers at a time.
    const ROWS: usize = 4;
    const COLUMNS: usize = 8;

    pub(super) struct Turn<'a> {
        pub(super) simd: V3,
        pub(super) rows: Rows<'a>,
        pub(super) out: &'a mut [f32],
        pub(super) stride: usize,
    }

    impl pulp::NullaryFnOnce for Turn<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Turn {
                simd,
                rows,
                out,
                stride,
            } = self;
            let whole_columns = rows.columns - rows.columns % COLUMNS;
            let mut row = 0;
            while row + 2 * ROWS <= rows.count {
                for column in (0..whole_columns).step_by(COLUMNS) {
                    let block = &rows.entries[row * rows.stride + column..];
                    let above = turn_block(simd, block, rows.stride);
                    let below = turn_block(simd, &block[ROWS * rows.stride..], rows.stride);
                    for at in 0..ROWS {
                        let (above, below) = (above[at], below[at]);
                        let own = simd.avx._mm256_permute2f128_ps::<0x20>(above, below);
                        let other = simd.avx._mm256_permute2f128_ps::<0x31>(above, below);
                        write(own, &mut out[(column + at) * stride + row..]);
                        write(other, &mut out[(column + at + ROWS) * stride + row..]);
                    }
                }
                row += 2 * ROWS;
            }
            if row + ROWS <= rows.count {
                for column in (0..whole_columns).step_by(COLUMNS) {
                    let block = &rows.entries[row * rows.stride + column..];
                    for (at, pair) in turn_block(simd, block, rows.stride).into_iter().enumerate() {
                        let pair: [f32; COLUMNS] = pulp::cast(pair);
                        let (own, other) = pair.split_at(ROWS);
                        out[(column + at) * stride + row..][..ROWS].copy_from_slice(own);
                        out[(column + at + ROWS) * stride + row..][..ROWS].copy_from_slice(other);
                    }
                }
                row += ROWS;
            }
            // What is left below the blocks, then what is left beside them.
            one_by_one(rows, row, 0, out, stride);
            let above = Rows { count: row, ..rows };
            one_by_one(above, 0, whole_columns, out, stride);
        }
    }

    /// Four rows of eight entries to four vectors, each a column and the one four beyond it.
    #[inline(always)]
    fn turn_block(simd: V3, entries: &[f32], stride: usize) -> [__m256; ROWS] {
        let avx = simd.avx;
        let a = row_of(&entries[..COLUMNS]);
        let b = row_of(&entries[stride..][..COLUMNS]);
        let c = row_of(&entries[2 * stride..][..COLUMNS]);
        let d = row_of(&entries[3 * stride..][..COLUMNS]);
        let (low, low_next) = (avx._mm256_unpacklo_ps(a, b), avx._mm256_unpacklo_ps(c, d));
        let (high, high_next) = (avx._mm256_unpackhi_ps(a, b), avx._mm256_unpackhi_ps(c, d));
        [
            avx._mm256_shuffle_ps::<0x44>(low, low_next),
            avx._mm256_shuffle_ps::<0xee>(low, low_next),
            avx._mm256_shuffle_ps::<0x44>(high, high_next),
            avx._mm256_shuffle_ps::<0xee>(high, high_next),
        ]
    }

    #[inline(always)]
    fn write(entries: __m256, out: &mut [f32]) {
        let entries: [f32; COLUMNS] = pulp::cast(entries);
        out[..COLUMNS].copy_from_slice(&entries);
    }

    #[inline(always)]
    fn row_of(entries: &[f32]) -> __m256 {
        let mut own = [0.0_f32; COLUMNS];
        own.copy_from_slice(entries);
        pulp::cast(own)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::tests::entries;

    proptest! {
        #[test]
        fn rows_become_columns(count in 0_usize..40, columns in 1_usize..40, more in 0_usize..3, wider in 0_usize..3) {
            let (from, to) = (columns + more, count + wider);
            let all = entries(count * from, 1);
            let mut out = vec![9.0; columns * to];
            turn(Rows { entries: &all, stride: from, count, columns }, &mut out, to);
            for (place, &found) in out.iter().enumerate() {
                let (column, row) = (place / to, place % to);
                let expected = if row < count { all[row * from + column] } else { 9.0 };
                prop_assert_eq!(found, expected);
            }
        }
    }
}
