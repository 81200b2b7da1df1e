//! The exponential function in a form that compilers turn into vector instructions.

/// `exp(x)` within two units in the last place; 0 far below and finite far above.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding and subtracting this rounds to a whole number, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = x - whole * LN2_HIGH - whole * LN2_LOW;
    let mut sum = 1.987_569_1e-4_f32;
    for term in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5] {
        sum = sum * rest + term;
    }
    let fraction = sum * rest * rest + rest + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    fraction * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_exponential() {
        for step in -8600..8700 {
            let x = step as f32 / 100.0;
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            assert!(
                (found / expected - 1.0).abs() < 3e-7,
                "exp({x}) = {found} for {expected}"
            );
        }
        assert!(exp(-1e30) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(1e30).is_finite());
        assert_eq!(exp(0.0), 1.0);
    }
}
