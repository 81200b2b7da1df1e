//! Matrix products with packed right-hand sides.
//!
//! Every entry of the product is summed in the same order, however many rows are multiplied at once. This is why a text
//! has the same vector alone and in a batch, to the last bit; general libraries choose the order by the shape.

use pulp::Simd;

/// Columns of a panel: two vectors of eight, or one of sixteen.
const PANEL: usize = 16;
/// Rows multiplied together: with two vectors of sums each they fill the registers of a common processor.
const TILE: usize = 6;

/// A matrix laid out for products: panels of [`PANEL`] columns, each panel row by row, the last filled up with zeros.
pub(super) struct Packed {
    /// Terms of each sum.
    depth: usize,
    columns: usize,
    panels: Vec<f32>,
}

impl Packed {
    /// From a function that gives the entry at a row (below `depth`) and a column.
    pub(super) fn new(depth: usize, columns: usize, entry: impl Fn(usize, usize) -> f32) -> Self {
        let mut packed = Self {
            depth: 0,
            columns: 0,
            panels: Vec::new(),
        };
        packed.fill(depth, columns, entry);
        packed
    }

    /// Takes new content and keeps the memory.
    pub(super) fn fill(&mut self, depth: usize, columns: usize, entry: impl Fn(usize, usize) -> f32) {
        self.depth = depth;
        self.columns = columns;
        self.panels.clear();
        self.panels.resize(depth * columns.next_multiple_of(PANEL), 0.0);
        if depth == 0 {
            return;
        }
        for (number, panel) in self.panels.chunks_exact_mut(depth * PANEL).enumerate() {
            let width = PANEL.min(columns - number * PANEL);
            for (row, entries) in panel.chunks_exact_mut(PANEL).enumerate() {
                for (column, target) in entries[..width].iter_mut().enumerate() {
                    *target = entry(row, number * PANEL + column);
                }
            }
        }
    }

    /// The product of rows of `depth` entries with this matrix, row by row into `out`.
    pub(super) fn multiply(&self, rows: &[f32], out: &mut Vec<f32>) {
        debug_assert_eq!(rows.len() % self.depth.max(1), 0);
        let count = rows.len() / self.depth.max(1);
        out.clear();
        out.resize(count * self.columns, 0.0);
        let interleaved = interleave(rows, self.depth);
        multiply_panels(self, &interleaved, out);
    }
}

/// Tiles of up to [`TILE`] rows, each column by column: the order in which a product reads them.
fn interleave(rows: &[f32], depth: usize) -> Vec<f32> {
    let mut interleaved = vec![0.0; rows.len()];
    let tile_size = TILE * depth.max(1);
    for (source, target) in rows.chunks(tile_size).zip(interleaved.chunks_mut(tile_size)) {
        let height = source.len() / depth.max(1);
        for (row, source) in source.chunks_exact(depth).enumerate() {
            for (column, &value) in source.iter().enumerate() {
                target[column * height + row] = value;
            }
        }
    }
    interleaved
}

#[pulp::with_simd(multiply_panels = pulp::Arch::new())]
#[inline(always)]
fn multiply_panels_simd<'a, S: Simd>(
    simd: S,
    matrix: &'a Packed,
    interleaved: &'a [f32],
    out: &'a mut [f32],
) {
    // Known when compiled for a processor: the other branches vanish.
    match PANEL / S::F32_LANES {
        1 => multiply_with::<S, 1>(simd, matrix, interleaved, out),
        2 => multiply_with::<S, 2>(simd, matrix, interleaved, out),
        4 => multiply_with::<S, 4>(simd, matrix, interleaved, out),
        _ => multiply_with::<S, PANEL>(simd, matrix, interleaved, out),
    }
}

/// `VECTORS` vectors make a panel's width.
#[inline(always)]
fn multiply_with<S: Simd, const VECTORS: usize>(
    simd: S,
    matrix: &Packed,
    interleaved: &[f32],
    out: &mut [f32],
) {
    let (depth, columns) = (matrix.depth, matrix.columns);
    if depth == 0 || columns == 0 {
        return;
    }
    // The panel stays in the nearest cache while the rows pass by.
    for (number, panel) in matrix.panels.chunks_exact(depth * PANEL).enumerate() {
        let first = number * PANEL;
        let tiles = interleaved.chunks(TILE * depth);
        for (tile, out) in tiles.zip(out.chunks_mut(TILE * columns)) {
            let target = &mut Target { out, columns, first };
            match tile.len() / depth {
                1 => multiply_tile::<S, VECTORS, 1>(simd, tile, panel, target),
                2 => multiply_tile::<S, VECTORS, 2>(simd, tile, panel, target),
                3 => multiply_tile::<S, VECTORS, 3>(simd, tile, panel, target),
                4 => multiply_tile::<S, VECTORS, 4>(simd, tile, panel, target),
                5 => multiply_tile::<S, VECTORS, 5>(simd, tile, panel, target),
                _ => multiply_tile::<S, VECTORS, TILE>(simd, tile, panel, target),
            }
        }
    }
}

/// Where the sums of a tile and a panel go.
struct Target<'a> {
    out: &'a mut [f32],
    columns: usize,
    first: usize,
}

#[inline(always)]
fn multiply_tile<S: Simd, const VECTORS: usize, const ROWS: usize>(
    simd: S,
    tile: &[f32],
    panel: &[f32],
    target: &mut Target<'_>,
) {
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    let (vectors, _) = S::as_simd_f32s(panel);
    let (weights, _) = vectors.as_chunks::<VECTORS>();
    let (columns, _) = tile.as_chunks::<ROWS>();
    for (column, weights) in columns.iter().zip(weights) {
        for (sums, &value) in sums.iter_mut().zip(column) {
            let value = simd.splat_f32s(value);
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum = simd.mul_add_f32s(value, weight, *sum);
            }
        }
    }
    let width = PANEL.min(target.columns - target.first);
    for (sums, row) in sums.iter().zip(target.out.chunks_exact_mut(target.columns)) {
        let mut entries = [0.0_f32; PANEL];
        let (vectors, _) = S::as_mut_simd_f32s(&mut entries);
        vectors.copy_from_slice(sums);
        row[target.first..target.first + width].copy_from_slice(&entries[..width]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries(count: usize, seed: u64) -> Vec<f32> {
        (0..count as u64)
            .map(|entry| {
                let bits = crate::embedder::hash::mix(entry ^ (seed << 32)) >> 40;
                bits as f32 / 8_388_608.0 - 1.0
            })
            .collect()
    }

    proptest! {
        #[test]
        fn products_are_sums_of_products(rows in 0_usize..20, depth in 1_usize..40, columns in 1_usize..40) {
            let left = entries(rows * depth, 1);
            let right = entries(depth * columns, 2);
            let packed = Packed::new(depth, columns, |row, column| right[row * columns + column]);
            let mut product = vec![7.0; 3];
            packed.multiply(&left, &mut product);
            prop_assert_eq!(product.len(), rows * columns);
            for row in 0..rows {
                for column in 0..columns {
                    let expected: f64 = (0..depth)
                        .map(|term| f64::from(left[row * depth + term]) * f64::from(right[term * columns + column]))
                        .sum();
                    let found = f64::from(product[row * columns + column]);
                    prop_assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
                }
            }
        }

        #[test]
        fn a_row_has_the_same_product_alone(rows in 1_usize..20, depth in 1_usize..100, columns in 1_usize..40) {
            let left = entries(rows * depth, 3);
            let right = entries(depth * columns, 4);
            let packed = Packed::new(depth, columns, |row, column| right[row * columns + column]);
            let (mut together, mut alone) = (Vec::new(), Vec::new());
            packed.multiply(&left, &mut together);
            for (row, expected) in left.chunks(depth).zip(together.chunks(columns)) {
                packed.multiply(row, &mut alone);
                prop_assert_eq!(&alone, expected);
            }
        }
    }
}
