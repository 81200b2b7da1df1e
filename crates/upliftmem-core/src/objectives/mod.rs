//! What a gradient-trained scorer minimises, in f64 and with gradients: the reference that every faster
//! implementation is tested against.
//!
//! [`LossSettings`] are plain numbers, as a configuration file has them; [`Objectives::new`] checks them once, and
//! everything after that can only fail on the labels and predictions it is given. Gradients are with respect to
//! the predictions; the way from predictions to parameters is the scorer's own.

mod pairs;
mod path_loss;
mod settings;
mod value;

pub use pairs::{ComparablePairs, ValueLabel};
pub use path_loss::{PathRecord, PolicyLoss, StepRecord};
pub use settings::{LossPreset, LossSettings, Objectives};
pub use value::{Loss, ValueLoss};

/// log(1 + exp(x)) without overflow, and exact to the last digits in both tails.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// 1 / (1 + exp(-x)), the derivative of [`softplus`], without overflow.
fn sigmoid(x: f64) -> f64 {
    let tail = (-x.abs()).exp();
    if x >= 0.0 {
        1.0 / (1.0 + tail)
    } else {
        tail / (1.0 + tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_and_sigmoid_are_right_in_the_tails() {
        assert!((softplus(0.0) - 2_f64.ln()).abs() < 1e-15);
        assert!((softplus(1e3) - 1e3).abs() < 1e-12);
        assert!(softplus(-1e3).abs() < 1e-300);
        assert!((softplus(-40.0) / (-40_f64).exp() - 1.0).abs() < 1e-15);
        assert!((sigmoid(-40.0) / (-40_f64).exp() - 1.0).abs() < 1e-15);
        assert!((sigmoid(3.0) + sigmoid(-3.0) - 1.0).abs() < 1e-15);
        assert_eq!((sigmoid(1e3), sigmoid(-1e3)), (1.0, 0.0));
    }
}
