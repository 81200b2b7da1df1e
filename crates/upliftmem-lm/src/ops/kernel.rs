//! The innermost product: a few rows times a panel of columns, in registers.
//!
//! Everything that costs time here ends in [`multiply`]. One shape of operands serves all products: the left side is cut
//! into tiles of [`Shape::tile`] rows stored column by column, the right side into panels of [`Shape::panel`] columns stored
//! row by row. Every sum is taken in one order, whatever the shape: processors differ in speed, not in results.

use std::sync::LazyLock;

use pulp::Simd;

use super::turn::{Rows, turn};

/// Columns of the widest panel.
pub(super) const PANEL_MAX: usize = 32;

/// How operands are cut so that the sums of a tile and a panel fill the registers of this processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Rows of a tile.
    pub(super) tile: usize,
    /// Columns of a panel.
    pub(super) panel: usize,
}

impl Shape {
    /// The shape for this processor: two vectors a row, twelve rows if there are 32 registers of sixteen numbers, six if
    /// there are 16 of eight.
    pub(super) fn here() -> Self {
        static HERE: LazyLock<Shape> = LazyLock::new(|| {
            #[cfg(target_arch = "x86_64")]
            if pulp::x86::V4::try_new().is_some() {
                return Shape { tile: 12, panel: 32 };
            }
            Shape { tile: 6, panel: 16 }
        });
        *HERE
    }
}

/// Where the product of one range of tiles with one range of panels goes.
pub(super) struct Target<'a> {
    /// Rows of `stride` entries; the first entry belongs to the first row of the first tile.
    pub(super) out: &'a mut [f32],
    /// Entries from one row to the next.
    pub(super) stride: usize,
    /// Columns that are wanted of the panels; what is beyond was filled up.
    pub(super) columns: usize,
    /// Whether to add to what is there.
    pub(super) add: bool,
}

/// The right side of a product.
#[derive(Clone, Copy)]
pub(super) struct Panels<'a> {
    pub(super) entries: &'a [f32],
    /// Entries from one panel to the next; a product may take fewer terms than a panel holds.
    pub(super) stride: usize,
}

/// Multiplies `rows` rows in tiles with panels. `depth` terms a sum.
#[pulp::with_simd(multiply = pulp::Arch::new())]
#[inline(always)]
pub(super) fn multiply_simd<'a, 'b, S: Simd>(
    simd: S,
    rows: usize,
    depth: usize,
    tiles: &'a [f32],
    panels: Panels<'a>,
    target: &'a mut Target<'b>,
) {
    if depth == 0 || rows == 0 {
        return;
    }
    // Known when compiled for a processor: the other branches vanish.
    match S::F32_LANES {
        16 => panels_with::<S, 2, 32, 12>(simd, rows, depth, tiles, panels, target),
        8 => panels_with::<S, 2, 16, 6>(simd, rows, depth, tiles, panels, target),
        4 => panels_with::<S, 4, 16, 6>(simd, rows, depth, tiles, panels, target),
        _ => panels_with::<S, 16, 16, 6>(simd, rows, depth, tiles, panels, target),
    }
}

#[inline(always)]
fn panels_with<S: Simd, const VECTORS: usize, const PANEL: usize, const TILE: usize>(
    simd: S,
    rows: usize,
    depth: usize,
    tiles: &[f32],
    panels: Panels<'_>,
    target: &mut Target<'_>,
) {
    let stride = target.stride;
    // The panel stays in the nearest cache while the tiles pass by.
    for (number, panel) in panels.entries.chunks_exact(panels.stride).enumerate() {
        let panel = &panel[..depth * PANEL];
        let first = number * PANEL;
        if first >= target.columns {
            break;
        }
        let width = PANEL.min(target.columns - first);
        let mut row = 0;
        for tile in tiles[..rows * depth].chunks(TILE * depth) {
            let out = &mut target.out[row * stride + first..];
            let place = Place {
                out,
                stride,
                width,
                add: target.add,
            };
            match tile.len() / depth {
                1 => tile_with::<S, VECTORS, 1>(simd, tile, panel, place),
                2 => tile_with::<S, VECTORS, 2>(simd, tile, panel, place),
                3 => tile_with::<S, VECTORS, 3>(simd, tile, panel, place),
                4 => tile_with::<S, VECTORS, 4>(simd, tile, panel, place),
                5 => tile_with::<S, VECTORS, 5>(simd, tile, panel, place),
                6 => tile_with::<S, VECTORS, 6>(simd, tile, panel, place),
                // Never where tiles have six rows.
                7 if TILE > 6 => tile_with::<S, VECTORS, 7>(simd, tile, panel, place),
                8 if TILE > 6 => tile_with::<S, VECTORS, 8>(simd, tile, panel, place),
                9 if TILE > 6 => tile_with::<S, VECTORS, 9>(simd, tile, panel, place),
                10 if TILE > 6 => tile_with::<S, VECTORS, 10>(simd, tile, panel, place),
                11 if TILE > 6 => tile_with::<S, VECTORS, 11>(simd, tile, panel, place),
                _ => tile_with::<S, VECTORS, TILE>(simd, tile, panel, place),
            }
            row += TILE;
        }
    }
}

/// Where the product of one tile and one panel goes.
struct Place<'a> {
    out: &'a mut [f32],
    stride: usize,
    width: usize,
    add: bool,
}

/// Does something for each row of a tile, the row being known when compiled: sums then stay in registers.
macro_rules! each_row {
    ($rows:expr, $row:ident, $body:block) => {
        each_row!($rows, $row, $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    ($rows:expr, $row:ident, $body:block, $($number:literal)*) => {
        $(if $rows > $number {
            #[allow(non_upper_case_globals)]
            const $row: usize = $number;
            $body
        })*
    };
}

#[inline(always)]
fn tile_with<S: Simd, const VECTORS: usize, const ROWS: usize>(
    simd: S,
    tile: &[f32],
    panel: &[f32],
    place: Place<'_>,
) {
    let Place {
        out,
        stride,
        width,
        add,
    } = place;
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    let (vectors, _) = S::as_simd_f32s(panel);
    let (weights, _) = vectors.as_chunks::<VECTORS>();
    let (columns, _) = tile.as_chunks::<ROWS>();
    for (column, weights) in columns.iter().zip(weights) {
        each_row!(ROWS, row, {
            let value = simd.splat_f32s(column[row]);
            for vector in 0..VECTORS {
                sums[row][vector] = simd.mul_add_f32s(value, weights[vector], sums[row][vector]);
            }
        });
    }
    if width == VECTORS * S::F32_LANES {
        write::<S, VECTORS, ROWS>(simd, sums, out, stride, add);
        return;
    }
    let mut entries = [0.0_f32; PANEL_MAX];
    for (sums, target) in sums.iter().zip(out.chunks_mut(stride)) {
        let (vectors, _) = S::as_mut_simd_f32s(&mut entries);
        vectors[..VECTORS].copy_from_slice(sums);
        for (entry, &sum) in target[..width].iter_mut().zip(&entries) {
            *entry = if add { *entry + sum } else { sum };
        }
    }
}

/// Writes sums of whole width from registers.
#[inline(always)]
fn write<S: Simd, const VECTORS: usize, const ROWS: usize>(
    simd: S,
    sums: [[S::f32s; VECTORS]; ROWS],
    out: &mut [f32],
    stride: usize,
    add: bool,
) {
    let width = VECTORS * S::F32_LANES;
    each_row!(ROWS, row, {
        let (target, _) = S::as_mut_simd_f32s(&mut out[row * stride..row * stride + width]);
        let (target, _) = target.as_chunks_mut::<VECTORS>();
        let target = &mut target[0];
        for vector in 0..VECTORS {
            let sum = sums[row][vector];
            target[vector] = if add {
                simd.add_f32s(target[vector], sum)
            } else {
                sum
            };
        }
    });
}

/// A matrix whose entries are reached by strides.
#[derive(Clone, Copy)]
pub(super) struct Strided<'a> {
    pub(super) entries: &'a [f32],
    pub(super) row: usize,
    pub(super) column: usize,
}

impl<'a> Strided<'a> {
    /// Rows of `stride` entries.
    pub(super) const fn rows(entries: &'a [f32], stride: usize) -> Self {
        Self {
            entries,
            row: stride,
            column: 1,
        }
    }

    /// The same matrix with rows and columns exchanged.
    pub(super) const fn transposed(self) -> Self {
        Self {
            entries: self.entries,
            row: self.column,
            column: self.row,
        }
    }
}

impl<'a> Panels<'a> {
    /// Panels of `depth` rows each.
    pub(super) fn of(entries: &'a [f32], depth: usize) -> Self {
        Self {
            entries,
            stride: depth * Shape::here().panel,
        }
    }
}

/// Cuts `rows` rows of `depth` entries into tiles; the last has the height that is left. Space is only ever added: what was
/// there is overwritten.
pub(super) fn tiles_of(left: Strided<'_>, rows: usize, depth: usize, tiles: &mut Vec<f32>) {
    let Shape { tile: most, .. } = Shape::here();
    grow(tiles, rows * depth);
    for (number, tile) in tiles[..rows * depth].chunks_mut(most * depth.max(1)).enumerate() {
        let height = tile.len() / depth.max(1);
        let first = number * most;
        if left.column == 1 {
            let rows = Rows {
                entries: &left.entries[first * left.row..],
                stride: left.row,
                count: height,
                columns: depth,
            };
            turn(rows, tile, height);
        } else {
            let columns = left.entries[first * left.row..].chunks(left.column);
            for (target, column) in tile.chunks_exact_mut(height).zip(columns) {
                for (target, &value) in target.iter_mut().zip(column.iter().step_by(left.row)) {
                    *target = value;
                }
            }
        }
    }
}

/// Multiplies a left side that is cut on the way, in space that is used again.
pub(super) fn cut_and_multiply(
    (rows, depth): (usize, usize),
    left: Strided<'_>,
    panels: Panels<'_>,
    target: &mut Target<'_>,
    tiles: &mut Vec<f32>,
) {
    tiles_of(left, rows, depth, tiles);
    multiply(rows, depth, tiles, panels, target);
}

/// Makes room without clearing what is there.
pub(super) fn grow(space: &mut Vec<f32>, count: usize) {
    if space.len() < count {
        space.resize(count, 0.0);
    }
}

/// Cuts `columns` columns of `depth` entries into panels; the last is filled up with zeros.
pub(super) fn panels_of(right: Strided<'_>, depth: usize, columns: usize, panels: &mut Vec<f32>) {
    let Shape { panel: most, .. } = Shape::here();
    let count = depth * columns.next_multiple_of(most);
    grow(panels, count);
    for (number, panel) in panels[..count]
        .chunks_exact_mut((depth * most).max(1))
        .enumerate()
    {
        let first = number * most;
        let width = most.min(columns - first);
        if width < most {
            panel.fill(0.0);
        }
        if right.column == 1 {
            for (row, target) in panel.chunks_exact_mut(most).enumerate() {
                target[..width].copy_from_slice(&right.entries[row * right.row + first..][..width]);
            }
        } else {
            let rows = Rows {
                entries: &right.entries[first * right.column..],
                stride: right.column,
                count: width,
                columns: depth,
            };
            debug_assert_eq!(right.row, 1);
            turn(rows, panel, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::tests::entries;

    proptest! {
        #[test]
        fn products_are_sums_of_products(
            rows in 1_usize..20, depth in 1_usize..40, columns in 1_usize..40,
            left_transposed: bool, right_transposed: bool, add: bool,
        ) {
            let (left, right) = (entries(rows * depth, 1), entries(depth * columns, 2));
            let left_at = if left_transposed {
                Strided::rows(&left, rows).transposed()
            } else {
                Strided::rows(&left, depth)
            };
            let right_at = if right_transposed {
                Strided::rows(&right, depth).transposed()
            } else {
                Strided::rows(&right, columns)
            };
            let (mut tiles, mut panels) = (Vec::new(), Vec::new());
            tiles_of(left_at, rows, depth, &mut tiles);
            panels_of(right_at, depth, columns, &mut panels);
            let stride = columns + 3;
            let before = entries(rows * stride, 3);
            let mut out = before.clone();
            multiply(rows, depth, &tiles, Panels::of(&panels, depth), &mut Target { out: &mut out, stride, columns, add });
            let at = |matrix: Strided<'_>, row: usize, column: usize| {
                f64::from(matrix.entries[row * matrix.row + column * matrix.column])
            };
            for row in 0..rows {
                for column in 0..stride {
                    let old = f64::from(before[row * stride + column]);
                    let expected = if column >= columns {
                        old
                    } else {
                        let sum: f64 = (0..depth).map(|k| at(left_at, row, k) * at(right_at, k, column)).sum();
                        if add { old + sum } else { sum }
                    };
                    let found = f64::from(out[row * stride + column]);
                    prop_assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
                }
            }
        }
    }
}
