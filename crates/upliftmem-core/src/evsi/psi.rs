//! The unit-normal loss function psi and its logarithm.
//!
//! One polynomial serves the whole half line, so that a loop over psi has no branches and the compiler can
//! vectorise it. `fixtures/psi.py` makes the coefficients and the 50-digit table they are checked against.

use std::f64::consts::{LN_2, LOG2_E, PI};

/// (2 pi)^(-1/2)
const INV_SQRT_TAU: f64 = 0.398_942_280_401_432_7;

/// K / k^2 as powers of 2k - 1, lowest first; see [`complement`].
#[rustfmt::skip]
const POLYNOMIAL: [f64; 26] = [
    0.21356187338302926, 0.31177255821094635, 0.26961572209986967, 0.15473318132771433,
    0.05321631661643472, 0.003816808344472004, -0.005604441033241263, -0.0018768055179461465,
    0.0005138514799775119, 0.0003590536366057374, -6.385370181091453e-05, -6.472370447562934e-05,
    1.3517415944311821e-05, 1.1603518339850312e-05, -3.882489435374919e-06, -1.8786570879077163e-06,
    1.141486187729759e-06, 1.9396389303925358e-07, -3.0104922113425244e-07, 2.377323529717232e-08,
    6.5038261379223e-08, -1.942459654319978e-08, -1.0067087082963904e-08, 5.110631104205927e-09,
    8.210911634495595e-10, -5.817314854902305e-10,
];

/// Density of the standard normal.
pub fn normal_density(t: f64) -> f64 {
    // t^2 is taken exactly, as a sum of two numbers: its rounding error would be magnified by the exponential.
    let square = t * t;
    let rest = if square.is_finite() {
        t.mul_add(t, -square)
    } else {
        0.0
    };
    INV_SQRT_TAU * (-0.5 * square).exp() * (-0.5 * rest).exp()
}

/// Probability that a standard normal exceeds `t`, accurate in the far tail too.
pub fn normal_upper_tail(t: f64) -> f64 {
    if t < 0.0 {
        return 1.0 - normal_upper_tail(-t);
    }
    // Phi(-t) = phi(t) R(t), and t R(t) = 1 - K(t). Near zero that quotient cancels; there R follows from
    // psi = phi - t Phi(-t) by a series of Phi around zero.
    if t > 0.5 {
        normal_density(t) * (1.0 - complement(t)) / t
    } else {
        let square = t * t;
        let (mut term, mut sum) = (t, t);
        for i in 1..16 {
            term *= -square / (2.0 * f64::from(i));
            sum += term / (2.0 * f64::from(i) + 1.0);
        }
        INV_SQRT_TAU.mul_add(-sum, 0.5)
    }
}

/// psi(t) = phi(t) - t Phi(-t): the expected positive part of a standard normal less `t`. Paper: eq. evsi.
///
/// Accurate to a few units in the last place for every `t` until it underflows beyond 38, and never negative.
pub fn psi(t: f64) -> f64 {
    if t < 0.0 {
        psi(-t) - t
    } else {
        normal_density(t) * complement(t)
    }
}

/// Logarithm of [`psi`], also where psi itself underflows.
pub fn log_psi(t: f64) -> f64 {
    if t < 0.0 {
        psi(t).ln()
    } else {
        -0.5 * t * t - 0.5 * (2.0 * PI).ln() + complement(t).ln()
    }
}

/// K(t) = psi(t) / phi(t) = 1 - t R(t) for t >= 0, with the Mills ratio R.
fn complement(t: f64) -> f64 {
    let k = 1.0 / (1.0 + 0.25 * t);
    k * k * polynomial(2.0 * k - 1.0)
}

#[inline(always)]
fn polynomial(y: f64) -> f64 {
    let mut sum = POLYNOMIAL[25];
    let mut power = 25;
    while power > 0 {
        power -= 1;
        sum = sum.mul_add(y, POLYNOMIAL[power]);
    }
    sum
}

/// f(s) = s psi(|mu| / s) as a function of the variance s^2, for inner loops: no branches, no library calls.
///
/// `margin` is |mu|. Relative error below 1e-13 where the value exceeds 1e-15 s, as tests show; a variance of
/// zero gives a value below 1e-40, which no sum can see.
#[inline(always)]
pub(crate) fn decision_value(variance: f64, margin: f64) -> f64 {
    let variance = variance.max(1e-90);
    let sd = variance.sqrt();
    let spread = margin.mul_add(0.25, sd);
    let inverse = 1.0 / (sd * spread);
    let k = variance * inverse;
    let t = margin * spread * inverse;
    let tail = k * k * polynomial(k.mul_add(2.0, -1.0));
    INV_SQRT_TAU * sd * exp_non_positive(-0.5 * t * t) * tail
}

/// Derivative of [`decision_value`] by the variance: phi(|mu| / s) / (2 s).
#[inline(always)]
pub(crate) fn decision_slope(variance: f64, margin: f64) -> f64 {
    let inverse = 1.0 / variance.max(1e-90).sqrt();
    let t = margin * inverse;
    0.5 * INV_SQRT_TAU * inverse * exp_non_positive(-0.5 * t * t)
}

/// exp(x) for x <= 0, flat below -300: numbers so small that the processor would handle them in slow motion are kept away from.
#[inline(always)]
fn exp_non_positive(x: f64) -> f64 {
    // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const FACTORIALS: [f64; 13] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    debug_assert!((LN_2_HIGH + LN_2_LOW - LN_2).abs() < 1e-16);
    let shifted = x.max(-300.0).mul_add(LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = whole.mul_add(-LN_2_LOW, whole.mul_add(-LN_2_HIGH, x.max(-300.0)));
    let mut sum = FACTORIALS[0];
    let mut index = 1;
    while index < FACTORIALS.len() {
        sum = sum.mul_add(rest, FACTORIALS[index]);
        index += 1;
    }
    f64::from_bits(sum.to_bits().wrapping_add(shifted.to_bits() << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// t, psi(t), log psi(t), rounded from 50 digits.
    fn table() -> Vec<[f64; 3]> {
        include_str!("../../fixtures/psi.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let mut fields = line.split('\t').map(|field| field.parse().unwrap());
                [
                    fields.next().unwrap(),
                    fields.next().unwrap(),
                    fields.next().unwrap(),
                ]
            })
            .collect()
    }

    #[test]
    fn psi_and_its_logarithm_agree_with_fifty_digits() {
        for [t, expected, logarithm] in table() {
            if expected > 1e-300 {
                let error = (psi(t) / expected - 1.0).abs();
                assert!(error < 4e-15, "psi({t}) is off by {error:e}");
            }
            let error = (log_psi(t) - logarithm).abs() / logarithm.abs();
            assert!(error < 4e-15, "log_psi({t}) is off by {error:e}");
        }
    }

    #[test]
    fn psi_is_never_negative_and_falls() {
        let mut last = f64::INFINITY;
        for step in 0..200_000 {
            let value = psi(f64::from(step) * 1e-3);
            assert!(value >= 0.0 && value <= last);
            last = value;
        }
        assert_eq!(psi(1e300), 0.0);
        assert_eq!(psi(f64::INFINITY), 0.0);
    }

    #[test]
    fn psi_of_a_negative_argument_reflects() {
        for [t, expected, _] in table() {
            assert!((psi(-t) - (t + expected)).abs() <= 4e-15 * (t + expected));
        }
    }

    #[test]
    fn the_inner_loop_agrees_with_the_function() {
        for [t, expected, _] in table() {
            for sd in [1e-6, 0.3, 1.0, 1e4] {
                let value = decision_value(sd * sd, t * sd);
                if expected > 1e-125 {
                    let error = (value / (sd * expected) - 1.0).abs();
                    assert!(error < 1e-13 * (1.0 + t * t), "t {t} sd {sd}: off by {error:e}");
                } else {
                    // The loop's exponential is flat there.
                    assert!((0.0..1e-120).contains(&value), "t {t} sd {sd}: {value:e}");
                }
            }
        }
        assert!(decision_value(0.0, 0.0) < 1e-40);
        assert!(decision_value(0.0, 1.0) < 1e-40);
    }

    #[test]
    fn the_upper_tail_is_continuous_and_matches_known_values() {
        for (t, expected) in [
            (0.0, 0.5),
            (0.25, 0.401_293_674_317_076_3),
            (0.5, 0.308_537_538_725_986_9),
            (1.0, 0.158_655_253_931_457_05),
            (2.0, 0.022_750_131_948_179_21),
            (6.0, 9.865_876_450_376_98e-10),
            (37.0, 5.725_571_222_524_576e-300),
        ] {
            assert!((normal_upper_tail(t) / expected - 1.0).abs() < 2e-14, "tail({t})");
            assert!((normal_upper_tail(-t) - (1.0 - expected)).abs() < 1e-15);
        }
        assert!((normal_upper_tail(0.5 - 1e-12) - normal_upper_tail(0.5 + 1e-12)).abs() < 1e-11);
    }
}
