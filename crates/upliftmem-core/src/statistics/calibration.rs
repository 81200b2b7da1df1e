//! Whether predicted uplift means what it says.

use super::{Summary, check_paired, paired_differences};
use crate::error::{Result, finite};

/// What predictions must be multiplied by to fit the observed uplift best, by least squares through zero; 1 is
/// calibrated, less is boastful. `None` when every prediction is zero and no factor can help.
///
/// Through zero, because the uplift of no memory is zero by definition and scaling must keep it.
pub fn calibration_slope(predicted: &[f64], observed: &[f64]) -> Result<Option<f64>> {
    check_paired(("predicted uplifts", predicted), ("observed uplifts", observed))?;
    let products: f64 = predicted.iter().zip(observed).map(|(p, y)| p * y).sum();
    let squares: f64 = predicted.iter().map(|p| p * p).sum();
    if squares == 0.0 {
        return Ok(None);
    }
    finite("calibration slope", products / squares).map(Some)
}

/// How much more was predicted than came: predicted minus observed uplift of executed sets. Above zero, the scorer
/// promises too much.
pub fn optimism(predicted: &[f64], observed: &[f64]) -> Result<Summary> {
    check_paired(("predicted uplifts", predicted), ("observed uplifts", observed))?;
    Summary::of(&paired_differences(predicted, observed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scorer_that_doubles_everything_has_slope_one_half_and_is_optimistic() {
        let observed = [0.2, 0.4, -0.1];
        let predicted = observed.map(|uplift| 2.0 * uplift);
        assert!((calibration_slope(&predicted, &observed).unwrap().unwrap() - 0.5).abs() < 1e-15);
        let optimism = optimism(&predicted, &observed).unwrap();
        assert!((optimism.mean - 0.5 / 3.0).abs() < 1e-15);
        assert_eq!(optimism.count, 3);
    }

    #[test]
    fn slope_is_that_of_least_squares() {
        let predicted = [0.5, -0.2, 0.9, 0.1];
        let observed = [0.3, 0.1, 0.4, -0.6];
        let slope = calibration_slope(&predicted, &observed).unwrap().unwrap();
        let error = |slope: f64| -> f64 {
            predicted
                .iter()
                .zip(observed)
                .map(|(p, y)| (slope * p - y).powi(2))
                .sum()
        };
        assert!(error(slope) < error(slope + 1e-3) && error(slope) < error(slope - 1e-3));
    }

    #[test]
    fn nothing_predicted_has_no_slope_and_bad_input_is_refused() {
        assert_eq!(calibration_slope(&[0.0, 0.0], &[1.0, -1.0]).unwrap(), None);
        assert!(calibration_slope(&[], &[]).is_err());
        assert!(calibration_slope(&[1.0], &[f64::NAN]).is_err());
        assert!(calibration_slope(&[1.0], &[1.0, 2.0]).is_err());
        assert!(optimism(&[f64::INFINITY], &[1.0]).is_err());
    }
}
