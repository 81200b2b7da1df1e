//! Quantiles of Student's t, from the finite sums that exist for whole degrees of freedom.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use super::check_level;
use crate::error::{InvalidInput, Result};

/// The t such that |T| stays below it with probability `level`, for `freedom` degrees of freedom.
pub fn student_quantile(level: f64, freedom: u64) -> Result<f64> {
    check_level(level)?;
    if freedom == 0 {
        return Err(InvalidInput::new(
            "degrees of freedom",
            "0 has no t distribution; an interval needs at least two values",
        ));
    }
    // In the angle atan(t / sqrt(freedom)) the range is bounded, and halving it finds t for any level.
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return Ok((freedom as f64).sqrt() * middle.tan());
        }
        if central_probability(middle, freedom) < level {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// P(|T| < sqrt(freedom) tan(angle)), by the series in powers of the cosine, which ends for whole degrees of freedom.
fn central_probability(angle: f64, freedom: u64) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    // The powers are 1, 3, ..., freedom - 2 when it is odd and 0, 2, ..., freedom - 2 when it is even.
    let mut power = u64::from(odd);
    while power + 2 <= freedom {
        sum += term;
        let next = (power + 2) as f64;
        term *= cosine * cosine * (next - 1.0) / next;
        if term < sum * 1e-18 {
            break;
        }
        power += 2;
    }
    if odd {
        FRAC_2_PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(level: f64, freedom: u64, expected: f64) {
        let found = student_quantile(level, freedom).unwrap();
        assert!(
            (found / expected - 1.0).abs() < 1e-6,
            "{level}, {freedom}: {found} is not {expected}"
        );
    }

    #[test]
    fn printed_tables_are_reproduced() {
        for (freedom, ninety, ninety_five, ninety_nine) in [
            (1, 6.313_751_5, 12.706_205, 63.656_741),
            (2, 2.919_985_6, 4.302_652_7, 9.924_843_2),
            (3, 2.353_363_4, 3.182_446_3, 5.840_909_3),
            (4, 2.131_846_8, 2.776_445_1, 4.604_094_9),
            (5, 2.015_048_4, 2.570_581_8, 4.032_143),
            (7, 1.894_578_6, 2.364_624_3, 3.499_483_3),
            (10, 1.812_461_1, 2.228_138_9, 3.169_272_7),
            (30, 1.697_260_9, 2.042_272_5, 2.749_995_7),
            (100, 1.660_234_3, 1.983_971_5, 2.625_890_5),
            (1_000, 1.646_378_8, 1.962_339_1, 2.580_754_7),
            (100_000, 1.644_868_9, 1.959_987_7, 2.575_878_5),
        ] {
            check(0.90, freedom, ninety);
            check(0.95, freedom, ninety_five);
            check(0.99, freedom, ninety_nine);
        }
    }

    #[test]
    fn closed_forms_of_one_and_two_degrees_hold_for_every_level() {
        for level in [1e-6, 0.1, 0.5, 0.9, 0.999, 0.999_999] {
            check(level, 1, (FRAC_PI_2 * level).tan());
            check(level, 2, level * (2.0 / (1.0 - level * level)).sqrt());
        }
    }

    #[test]
    fn it_falls_towards_the_normal_quantile() {
        let mut last = f64::INFINITY;
        for freedom in 1..200 {
            let quantile = student_quantile(0.95, freedom).unwrap();
            assert!(quantile < last && quantile > 1.959_963_98);
            last = quantile;
        }
    }

    #[test]
    fn no_degrees_of_freedom_are_refused() {
        assert!(student_quantile(0.95, 0).is_err());
        assert!(student_quantile(1.0, 3).is_err());
    }
}
