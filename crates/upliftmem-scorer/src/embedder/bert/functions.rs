//! The functions between the products, written so that the compiler makes vector code of them.

use pulp::Simd;

/// Independent partial sums: enough for any vector width, and the same order on every machine.
const LANES: usize = 16;

/// Scales every row to mean 0 and variance 1, then by the learned scale and offset.
pub(super) struct LayerNorm {
    pub(super) scale: Vec<f32>,
    pub(super) offset: Vec<f32>,
    /// Added to the variance.
    pub(super) epsilon: f32,
}

impl LayerNorm {
    pub(super) fn apply(&self, rows: &mut [f32]) {
        normalise_rows(rows, &self.scale, &self.offset, self.epsilon);
    }
}

#[pulp::with_simd(normalise_rows = pulp::Arch::new())]
#[inline(always)]
fn normalise_rows_simd<'a, S: Simd>(
    _simd: S,
    rows: &'a mut [f32],
    scale: &'a [f32],
    offset: &'a [f32],
    epsilon: f32,
) {
    let width = scale.len();
    for row in rows.chunks_exact_mut(width) {
        let mean = sum(row, |value| value) / width as f32;
        let variance = sum(row, |value| (value - mean) * (value - mean)) / width as f32;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        for ((value, &scale), &offset) in row.iter_mut().zip(scale).zip(offset) {
            *value = (*value - mean) * inverse * scale + offset;
        }
    }
}

/// Adds the bias to every row, and the rows of another matrix.
#[pulp::with_simd(add_bias_and_rows = pulp::Arch::new())]
#[inline(always)]
pub(super) fn add_bias_and_rows_simd<'a, S: Simd>(
    _simd: S,
    rows: &'a mut [f32],
    bias: &'a [f32],
    more: &'a [f32],
) {
    for (row, more) in rows
        .chunks_exact_mut(bias.len())
        .zip(more.chunks_exact(bias.len()))
    {
        for ((value, &bias), &more) in row.iter_mut().zip(bias).zip(more) {
            *value += bias + more;
        }
    }
}

/// Adds the bias to every row.
#[pulp::with_simd(add_bias = pulp::Arch::new())]
#[inline(always)]
pub(super) fn add_bias_simd<'a, S: Simd>(_simd: S, rows: &'a mut [f32], bias: &'a [f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (value, &bias) in row.iter_mut().zip(bias) {
            *value += bias;
        }
    }
}

/// Adds the bias to every row, then the Gaussian error linear unit: each value times the normal distribution
/// function of it.
#[pulp::with_simd(add_bias_and_activate = pulp::Arch::new())]
#[inline(always)]
pub(super) fn add_bias_and_activate_simd<'a, S: Simd>(_simd: S, rows: &'a mut [f32], bias: &'a [f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (value, &bias) in row.iter_mut().zip(bias) {
            let sum = *value + bias;
            *value = 0.5 * sum * (1.0 + error_function(sum * std::f32::consts::FRAC_1_SQRT_2));
        }
    }
}

/// Each row becomes positive with sum 1: exponentials of the scaled values over their sum.
#[pulp::with_simd(softmax_rows = pulp::Arch::new())]
#[inline(always)]
#[allow(
    clippy::needless_lifetimes,
    reason = "the macro makes a type that needs the name"
)]
pub(super) fn softmax_rows_simd<'a, S: Simd>(_simd: S, rows: &'a mut [f32], width: usize, scale: f32) {
    for row in rows.chunks_exact_mut(width) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for value in row.iter_mut() {
            *value = exponential((*value - largest) * scale);
        }
        let inverse = 1.0 / sum(row, |value| value);
        for value in row.iter_mut() {
            *value *= inverse;
        }
    }
}

/// The sum over a row in [`LANES`] parts.
#[inline(always)]
fn sum(row: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, &value) in sums.iter_mut().zip(chunk) {
            *sum += term(value);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|&value| term(value)).sum::<f32>()
}

/// The error function within 4e-7: a quotient of polynomials in the square, fitted on [0, 3.92] where it reaches 1.
#[inline(always)]
fn error_function(x: f32) -> f32 {
    let x = x.clamp(-3.92, 3.92);
    let square = x * x;
    let above = polynomial(
        square,
        [
            2.048_792_3e-6,
            2.858_804_8e-4,
            3.795_063_6e-3,
            5.283_621_8e-2,
            1.910_482_3e-1,
            std::f32::consts::FRAC_2_SQRT_PI,
        ],
    );
    let below = polynomial(
        square,
        [
            3.813_217e-5,
            1.170_403_3e-3,
            1.502_620_7e-2,
            1.143_774e-1,
            5.026_443_4e-1,
            1.0,
        ],
    );
    x * above / below
}

/// The exponential of a number that is not above 0, to a relative 3e-7; below -87 it is as good as 0.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    // Adding and taking away 1.5 * 2^23 leaves the nearest whole number.
    const ROUND: f32 = 12_582_912.0;
    let x = x.max(-87.0);
    let power = x * std::f32::consts::LOG2_E + ROUND;
    let whole = power - ROUND;
    // ln 2 in two parts, so that the difference is exact.
    let rest = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let taylor = polynomial(
        rest,
        [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0],
    );
    // The low bits of `power` hold the whole number: it becomes the exponent.
    taylor * f32::from_bits((power.to_bits() << 23).wrapping_add(0x3f80_0000))
}

/// Horner's scheme, the highest power first.
#[inline(always)]
fn polynomial<const TERMS: usize>(x: f32, coefficients: [f32; TERMS]) -> f32 {
    let mut value = 0.0;
    for coefficient in coefficients {
        value = value * x + coefficient;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error function by its series and, far out, by its continued fraction.
    fn reference(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn the_error_function_is_close() {
        for step in -400..=400 {
            let x = step as f32 / 100.0;
            let difference = f64::from(error_function(x)) - reference(f64::from(x));
            assert!(difference.abs() < 5e-7, "{x}: {difference}");
        }
        assert!((error_function(1e30) - 1.0).abs() < 5e-7);
        assert!((error_function(-1e30) + 1.0).abs() < 5e-7);
    }

    #[test]
    fn the_exponential_is_close() {
        for step in 0..=8_600 {
            let x = -(step as f32) / 100.0;
            let ratio = f64::from(exponential(x)) / f64::from(x).exp();
            assert!((ratio - 1.0).abs() < 4e-7, "{x}: {ratio}");
        }
        assert!(exponential(-1e30) < 1e-37);
    }

    #[test]
    fn a_softmax_row_is_a_distribution() {
        let mut rows = vec![1.0, 2.0, 3.0, 1e4, 0.0, -1e4];
        softmax_rows(&mut rows, 3, 2.0);
        let total = 1.0 + (-2.0_f32).exp() + (-4.0_f32).exp();
        let expected = [
            (-4.0_f32).exp() / total,
            (-2.0_f32).exp() / total,
            1.0 / total,
            1.0,
            0.0,
            0.0,
        ];
        for (found, expected) in rows.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{rows:?}");
        }
    }

    #[test]
    fn a_normalised_row_has_mean_zero_and_variance_one() {
        let norm = LayerNorm {
            scale: vec![1.0; 40],
            offset: vec![0.0; 40],
            epsilon: 1e-12,
        };
        let mut row: Vec<f32> = (0..40).map(|entry| (entry * entry) as f32).collect();
        norm.apply(&mut row);
        let mean = row.iter().sum::<f32>() / 40.0;
        let variance = row.iter().map(|value| value * value).sum::<f32>() / 40.0;
        assert!(
            mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5,
            "{mean} {variance}"
        );
    }
}
