//! From logits to a token.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Sampling;

/// Chooses token after token.
pub(super) struct Chooser {
    temperature: f64,
    top_p: f64,
    rng: ChaCha8Rng,
}

impl Chooser {
    pub(super) fn new(sampling: &Sampling) -> Self {
        Self {
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            rng: ChaCha8Rng::seed_from_u64(sampling.seed),
        }
    }

    /// The next token; `None` if the logits are no numbers.
    pub(super) fn next(&mut self, logits: &[f32]) -> Option<u32> {
        let best = likeliest(logits)?;
        if self.temperature <= 0.0 {
            return u32::try_from(best).ok();
        }
        let top = f64::from(logits[best]);
        let mut shares: Vec<(usize, f64)> = logits
            .iter()
            .enumerate()
            .filter(|(_, logit)| !logit.is_nan())
            .map(|(token, &logit)| (token, ((f64::from(logit) - top) / self.temperature).exp()))
            .collect();
        // Likeliest first, of equals the smaller token: the same seed draws the same whatever the platform.
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        let mut kept = 0.0;
        let mut end = 0;
        for (_, share) in &shares {
            kept += share;
            end += 1;
            if kept >= self.top_p * total {
                break;
            }
        }
        let mut place = self.rng.random_range(0.0..1.0) * kept;
        for &(token, share) in &shares[..end] {
            place -= share;
            if place < 0.0 {
                return u32::try_from(token).ok();
            }
        }
        u32::try_from(shares[end - 1].0).ok()
    }
}

/// The likeliest token, of equals the smallest.
fn likeliest(logits: &[f32]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (token, logit) in logits.iter().enumerate() {
        if !logit.is_nan() && best.is_none_or(|best| *logit > logits[best]) {
            best = Some(token);
        }
    }
    best
}

/// Natural logarithm of a token's probability.
pub(super) fn log_likelihood(logits: &[f32], token: usize) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - top).exp()).sum();
    logits
        .get(token)
        .map_or(f64::NEG_INFINITY, |&logit| f64::from(logit - top) - sum.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [1.0, 3.0, 3.0, f32::NAN];

    fn drawn(temperature: f64, top_p: f64, seed: u64) -> Vec<u32> {
        let mut chooser = Chooser::new(&Sampling {
            temperature,
            top_p,
            seed,
            ..Sampling::default()
        });
        (0..200).map(|_| chooser.next(&LOGITS).unwrap()).collect()
    }

    #[test]
    fn without_temperature_the_likeliest_of_equals_the_first() {
        assert!(drawn(0.0, 1.0, 1).iter().all(|&token| token == 1));
    }

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        assert_eq!(drawn(1.0, 1.0, 7), drawn(1.0, 1.0, 7));
        assert_ne!(drawn(1.0, 1.0, 7), drawn(1.0, 1.0, 8));
    }

    #[test]
    fn shares_are_those_of_the_softmax() {
        let count = (0..50)
            .flat_map(|seed| drawn(1.0, 1.0, seed))
            .filter(|&token| token == 0)
            .count();
        let expected = 1.0 / (1.0 + 2.0 * 2.0_f64.exp());
        // Ten thousand draws: five standard errors are 0.0125.
        assert!((count as f64 / 10_000.0 - expected).abs() < 0.0125);
    }

    #[test]
    fn unlikely_tokens_are_left_out() {
        assert!(drawn(1.0, 0.9, 3).iter().all(|&token| token != 0));
    }

    #[test]
    fn numbers_that_are_none_give_no_token() {
        let mut chooser = Chooser::new(&Sampling::default());
        assert_eq!(chooser.next(&[f32::NAN]), None);
        assert_eq!(chooser.next(&[]), None);
    }

    #[test]
    fn log_likelihoods_are_those_of_the_softmax() {
        let logits = [0.5, -1.0, 2.0];
        let total: f64 = (0..3).map(|token| log_likelihood(&logits, token).exp()).sum();
        assert!((total - 1.0).abs() < 1e-12);
        let ratio = log_likelihood(&logits, 2) - log_likelihood(&logits, 0);
        assert!((ratio - 1.5).abs() < 1e-6);
    }
}
