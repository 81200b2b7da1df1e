//! Vectors in memory twice: as they are, and as bytes for the first look.
//!
//! A byte code is a quarter of its vector, and comparing codes is whole-number arithmetic: it is fast, it misses
//! the cache less, and it gives the same on every machine. Codes lead to candidates; the answer is ordered by
//! the vectors themselves.

use pulp::Simd;

/// Vectors of one block; blocks are never moved, so growing copies nothing.
const BLOCK: usize = 4_096;
/// Lanes that are summed apart, so that the compiler can use vector instructions. The order of additions is
/// fixed: the same two vectors give the same bits on every machine.
const LANES: usize = 32;

/// Entries of codes that a processor fetches at once: no code touches more lines than it needs.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([i8; LINE]);

const LINE: usize = 64;

/// Dot product; the cosine, as vectors have length one.
#[pulp::with_simd(dot = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn dot_simd<'a, S: Simd>(_: S, left: &'a [f32], right: &'a [f32]) -> f32 {
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

/// A vector in bytes, times a scale.
#[derive(Debug, Clone)]
pub(super) struct Code {
    /// The entries, then zeros to the end of the last line.
    lines: Vec<Line>,
    scale: f32,
    /// How far the code is from its vector.
    slack: f32,
}

impl Code {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the largest entry is scaled to 127"
    )]
    pub(super) fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = largest.max(f32::MIN_POSITIVE) / 127.0;
        let mut lines = vec![Line([0; LINE]); vector.len().div_ceil(LINE)];
        let mut square = 0.0;
        for (x, entry) in vector.iter().zip(lines.iter_mut().flat_map(|line| &mut line.0)) {
            *entry = (x / scale).round() as i8;
            square += (f64::from(*x) - f64::from(scale) * f64::from(*entry)).powi(2);
        }
        Self {
            lines,
            scale,
            slack: square.sqrt() as f32,
        }
    }

    fn view(&self) -> CodeView<'_> {
        CodeView {
            lines: &self.lines,
            scale: self.scale,
        }
    }
}

/// Entries of a code and their scale.
#[derive(Debug, Clone, Copy)]
struct CodeView<'a> {
    lines: &'a [Line],
    scale: f32,
}

impl CodeView<'_> {
    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "a similarity needs no 24 bits")]
    fn similarity(self, other: Self) -> f32 {
        let mut sum = 0;
        for (a, b) in self.lines.iter().zip(other.lines) {
            let products = a.0.iter().zip(&b.0);
            sum += products.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum::<i32>();
        }
        sum as f32 * (self.scale * other.scale)
    }
}

/// A growing list of vectors of one dimension, addressed by slot.
#[derive(Debug)]
pub(super) struct Vectors {
    dimension: usize,
    exact: Vec<Vec<f32>>,
    codes: Vec<Vec<Line>>,
    scales: Vec<f32>,
    slacks: Vec<f32>,
}

impl Vectors {
    pub(super) const fn new(dimension: usize) -> Self {
        Self {
            dimension,
            exact: Vec::new(),
            codes: Vec::new(),
            scales: Vec::new(),
            slacks: Vec::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.slacks.len()
    }

    pub(super) fn push(&mut self, vector: &[f32]) {
        if self.len().is_multiple_of(BLOCK) {
            // Small scopes are many: their first block grows as needed.
            let rows = if self.len() == 0 { 0 } else { BLOCK };
            self.exact.push(Vec::with_capacity(rows * self.dimension));
            self.codes.push(Vec::with_capacity(rows * self.lines()));
        }
        let code = Code::of(vector);
        if let (Some(exact), Some(codes)) = (self.exact.last_mut(), self.codes.last_mut()) {
            exact.extend_from_slice(vector);
            codes.extend_from_slice(&code.lines);
        }
        self.scales.push(code.scale);
        self.slacks.push(code.slack);
    }

    /// Puts another vector into a slot that exists.
    pub(super) fn set(&mut self, slot: u32, vector: &[f32]) {
        let slot = slot as usize;
        let code = Code::of(vector);
        let (block, row) = (slot / BLOCK, slot % BLOCK);
        let (dimension, lines) = (self.dimension, self.lines());
        self.exact[block][row * dimension..][..dimension].copy_from_slice(vector);
        self.codes[block][row * lines..][..lines].copy_from_slice(&code.lines);
        self.scales[slot] = code.scale;
        self.slacks[slot] = code.slack;
    }

    pub(super) const fn dimension(&self) -> usize {
        self.dimension
    }

    /// A short hash of a slot's code (FNV-1a): tells whether a vector is still the same.
    pub(super) fn fingerprint(&self, slot: u32) -> u32 {
        let mix = |hash: u32, byte: &i8| (hash ^ u32::from(byte.cast_unsigned())).wrapping_mul(16_777_619);
        let code = self.view(slot);
        let entries = code.lines.iter().flat_map(|line| &line.0).take(self.dimension);
        let scale = code.scale.to_le_bytes().map(u8::cast_signed);
        entries.chain(&scale).fold(2_166_136_261, mix)
    }

    pub(super) fn get(&self, slot: u32) -> &[f32] {
        let slot = slot as usize;
        let start = slot % BLOCK * self.dimension;
        &self.exact[slot / BLOCK][start..start + self.dimension]
    }

    /// The code of a slot, as what is looked for.
    pub(super) fn code(&self, slot: u32) -> Code {
        Code {
            lines: self.view(slot).lines.to_vec(),
            scale: self.scales[slot as usize],
            slack: self.slacks[slot as usize],
        }
    }

    /// Lines of a code.
    const fn lines(&self) -> usize {
        self.dimension.div_ceil(LINE)
    }

    #[inline(always)]
    fn view(&self, slot: u32) -> CodeView<'_> {
        let slot = slot as usize;
        let start = slot % BLOCK * self.lines();
        CodeView {
            lines: &self.codes[slot / BLOCK][start..start + self.lines()],
            scale: self.scales[slot],
        }
    }

    /// Similarities of slots to a code, by their codes.
    pub(super) fn compare(&self, code: &Code, slots: &[u32], out: &mut Vec<f32>) {
        out.clear();
        compare(self, code.view(), slots, out);
    }

    /// Similarity of two slots by their codes.
    pub(super) fn compare_slots(&self, one: u32, others: &[u32], out: &mut Vec<f32>) {
        out.clear();
        compare(self, self.view(one), others, out);
    }

    /// How far a similarity by codes can be from the true one, at most.
    ///
    /// With q = q' + e and v = v' + f: |q.v - q'.v'| <= |e||v| + |q'||f|, and |q'| <= 1 + |e|. A little is added for
    /// the rounding of the sums.
    pub(super) fn error_bound(&self, code: &Code, slot: u32) -> f32 {
        let slack = self.slacks[slot as usize];
        1.001 * (code.slack + (1.0 + code.slack) * slack) + 1e-5
    }
}

#[pulp::with_simd(compare = pulp::Arch::new())]
#[inline(always)]
fn compare_simd<'a, S: Simd>(
    _: S,
    vectors: &'a Vectors,
    code: CodeView<'a>,
    slots: &'a [u32],
    out: &'a mut Vec<f32>,
) {
    // Every line is asked for before the first is needed: the reads wait together, not one after the other.
    let mut asked = 0_i8;
    for &slot in slots {
        let (fours, rest) = vectors.view(slot).lines.as_chunks::<4>();
        for [a, b, c, d] in fours {
            asked ^= a.0[0] ^ b.0[0] ^ c.0[0] ^ d.0[0];
        }
        for line in rest {
            asked ^= line.0[0];
        }
    }
    std::hint::black_box(asked);
    for &slot in slots {
        out.push(code.similarity(vectors.view(slot)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(length: usize, step: f32) -> Vec<f32> {
        let raw: Vec<f32> = (0..length).map(|i| (i as f32 * step).sin() + 0.1).collect();
        let norm = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
        raw.iter().map(|x| x / norm).collect()
    }

    #[test]
    fn the_product_agrees_with_the_plain_sum() {
        for length in [1, 15, 31, 32, 33, 384, 391] {
            let (left, right) = (wave(length, 0.37), wave(length, 0.71));
            let plain: f64 = left
                .iter()
                .zip(&right)
                .map(|(&a, &b)| f64::from(a) * f64::from(b))
                .sum();
            assert!((f64::from(dot(&left, &right)) - plain).abs() < 1e-4, "{length}");
        }
    }

    #[test]
    fn codes_are_as_near_as_they_say() {
        for length in [3, 64, 384, 391] {
            let mut vectors = Vectors::new(length);
            for number in 0..50_u8 {
                vectors.push(&wave(length, 0.01 + 0.05 * f32::from(number)));
            }
            let query = wave(length, 0.333);
            let code = Code::of(&query);
            let slots: Vec<u32> = (0..50).collect();
            let mut found = Vec::new();
            vectors.compare(&code, &slots, &mut found);
            for (slot, coarse) in (0..).zip(found) {
                let off = (coarse - dot(&query, vectors.get(slot))).abs();
                assert!(
                    off <= vectors.error_bound(&code, slot) && off < 0.05,
                    "{length} {slot}: {off}"
                );
            }
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
