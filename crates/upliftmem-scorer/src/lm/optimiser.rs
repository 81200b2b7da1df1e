//! AdamW over the matrices of an adapter and the two numbers of the calibration.

use crate::AdamSettings;

/// What is moved: every matrix, and the calibration in double precision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moved {
    pub(crate) matrices: Vec<Vec<f32>>,
    pub(crate) calibration: [f64; 2],
}

impl Moved {
    /// Zeros of the same shape.
    pub(crate) fn zeros(&self) -> Self {
        Self {
            matrices: self
                .matrices
                .iter()
                .map(|matrix| vec![0.0; matrix.len()])
                .collect(),
            calibration: [0.0; 2],
        }
    }

    fn norm(&self) -> f64 {
        let matrices = self
            .matrices
            .iter()
            .flatten()
            .map(|&entry| f64::from(entry).powi(2))
            .sum::<f64>();
        (matrices + self.calibration.iter().map(|entry| entry * entry).sum::<f64>()).sqrt()
    }
}

/// The optimiser's memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Optimiser {
    pub(crate) steps: u64,
    pub(crate) mean: Moved,
    pub(crate) square: Moved,
}

impl Optimiser {
    pub(crate) fn new(shape: &Moved) -> Self {
        Self {
            steps: 0,
            mean: shape.zeros(),
            square: shape.zeros(),
        }
    }

    /// Moves against the gradient. The calibration moves `speed` times as fast and does not decay; its scale is moved as a
    /// logarithm. Margins of an untrained model say nothing about labels, so a scale that could would go to zero at once, and
    /// with it all that the adapter could learn from. Gives the gradient's length before it was clipped.
    pub(crate) fn step(
        &mut self,
        settings: &AdamSettings,
        moved: &mut Moved,
        gradient: &Moved,
        rate: f64,
        speed: f64,
    ) -> f64 {
        let norm = gradient.norm();
        let shorten = (settings.clip / (norm + 1e-6)).min(1.0);
        self.steps += 1;
        let correction = |beta: f64| -((self.steps as f64) * beta.ln()).exp_m1();
        let (first, second) = (correction(settings.beta1), correction(settings.beta2));
        let keep = 1.0 - rate * settings.weight_decay;
        let new = |slope: f64, mean: f64, square: f64| {
            let slope = slope * shorten;
            let mean = mean + (1.0 - settings.beta1) * (slope - mean);
            let square = square + (1.0 - settings.beta2) * (slope * slope - square);
            (
                mean,
                square,
                (mean / first) / ((square / second).sqrt() + settings.epsilon),
            )
        };
        let memory = self.mean.matrices.iter_mut().zip(&mut self.square.matrices);
        for ((values, slopes), (means, squares)) in
            moved.matrices.iter_mut().zip(&gradient.matrices).zip(memory)
        {
            for (((value, &slope), mean), square) in values.iter_mut().zip(slopes).zip(means).zip(squares) {
                let (next_mean, next_square, step) =
                    new(f64::from(slope), f64::from(*mean), f64::from(*square));
                #[expect(clippy::cast_possible_truncation, reason = "matrices are in single precision")]
                {
                    (*mean, *square) = (next_mean as f32, next_square as f32);
                    *value = (f64::from(*value) * keep - rate * step) as f32;
                }
            }
        }
        let [scale, offset] = &mut moved.calibration;
        let slopes = [gradient.calibration[0] * *scale, gradient.calibration[1]];
        let steps: [f64; 2] = std::array::from_fn(|at| {
            let (mean, square, step) =
                new(slopes[at], self.mean.calibration[at], self.square.calibration[at]);
            self.mean.calibration[at] = mean;
            self.square.calibration[at] = square;
            rate * speed * step
        });
        *scale *= (-steps[0]).exp();
        *offset -= steps[1];
        norm
    }
}
