//! Vectors in memory, and the one product that compares them.

/// Vectors of one block; blocks are never moved, so growing copies nothing.
const BLOCK: usize = 4_096;

/// Lanes that are summed apart, so that the compiler can use vector instructions. The order of additions is
/// fixed: the same two vectors give the same bits on every machine.
const LANES: usize = 16;

/// Dot product; the cosine, as vectors have length one.
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(a, b)| a * b).sum();
    sums[0] + rest
}

/// A growing list of vectors of one dimension, addressed by slot.
#[derive(Debug)]
pub(super) struct Vectors {
    dimension: usize,
    len: usize,
    blocks: Vec<Vec<f32>>,
}

impl Vectors {
    pub(super) const fn new(dimension: usize) -> Self {
        Self {
            dimension,
            len: 0,
            blocks: Vec::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, vector: &[f32]) {
        if self.len.is_multiple_of(BLOCK) {
            // Small scopes are many: their first block grows as needed.
            let capacity = if self.len == 0 { 0 } else { BLOCK * self.dimension };
            self.blocks.push(Vec::with_capacity(capacity));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.extend_from_slice(vector);
        }
        self.len += 1;
    }

    pub(super) fn get(&self, slot: u32) -> &[f32] {
        let slot = slot as usize;
        let start = slot % BLOCK * self.dimension;
        &self.blocks[slot / BLOCK][start..start + self.dimension]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_agrees_with_the_plain_sum() {
        for length in [1, 15, 16, 17, 384, 391] {
            let left: Vec<f32> = (0..length).map(|i| (i as f32 * 0.37).sin()).collect();
            let right: Vec<f32> = (0..length).map(|i| (i as f32 * 0.71).cos()).collect();
            let plain: f64 = left
                .iter()
                .zip(&right)
                .map(|(&a, &b)| f64::from(a) * f64::from(b))
                .sum();
            assert!((f64::from(dot(&left, &right)) - plain).abs() < 1e-4, "{length}");
        }
    }

    #[test]
    fn every_slot_holds_what_was_pushed() {
        let mut vectors = Vectors::new(2);
        for i in 0..10_000_u16 {
            vectors.push(&[f32::from(i), 1.0]);
        }
        assert_eq!(vectors.len(), 10_000);
        for slot in [0, 4_095, 4_096, 9_999] {
            assert_eq!(vectors.get(slot), [slot as f32, 1.0]);
        }
    }
}
