//! Random numbers that depend on what they are for, not on when they are drawn.

/// Standard Gumbel noise of one probe at one step: the same whichever probes are looked at, in whatever order,
/// on however many threads.
pub(crate) fn gumbel(seed: u64, step: usize, probe: usize) -> f64 {
    -(-uniform(seed, step as u64, probe as u64).ln()).ln()
}

/// A uniform number strictly between 0 and 1.
pub(crate) fn uniform(seed: u64, step: u64, index: u64) -> f64 {
    let bits = mix(mix(mix(seed).wrapping_add(step)).wrapping_add(index));
    ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// A standard normal number.
pub(crate) fn normal(seed: u64, step: u64, index: u64) -> f64 {
    let radius = (-2.0 * uniform(seed, step, 2 * index).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(seed, step, 2 * index + 1)).cos()
}

/// The finaliser of SplitMix64: every bit of the input moves every bit of the output.
fn mix(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let count = 200_000;
        let mean = |draw: &dyn Fn(usize) -> f64| (0..count).map(draw).sum::<f64>() / count as f64;
        let five_errors = |variance: f64| 5.0 * (variance / count as f64).sqrt();
        assert!((mean(&|i| uniform(1, 2, i as u64)) - 0.5).abs() < five_errors(1.0 / 12.0));
        assert!((mean(&|i| gumbel(1, 2, i)) - 0.577_215_664_9).abs() < five_errors(1.645));
        assert!(mean(&|i| normal(1, 2, i as u64)).abs() < five_errors(1.0));
        assert!((mean(&|i| normal(1, 2, i as u64).powi(2)) - 1.0).abs() < five_errors(2.0));
        // Neighbouring steps and seeds have nothing to do with each other.
        assert!(mean(&|i| normal(1, 2, i as u64) * normal(1, 3, i as u64)).abs() < five_errors(1.0));
        assert!(mean(&|i| normal(1, 2, i as u64) * normal(2, 2, i as u64)).abs() < five_errors(1.0));
    }
}
