//! Numbers to places, and round numbers to write beside them.

/// A linear axis from numbers to places on the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that shows all these values, with round ends, from one place to another.
    pub(super) fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high - low < 1e-9 {
            (low, high) = (low - 0.5, high + 0.5);
        }
        let step = step(low, high);
        Self {
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
            from,
            to,
        }
    }

    /// Where a number is.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value - self.low) / (self.high - self.low)
    }

    /// Round numbers along the axis, with how they are written.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let step = step(self.low, self.high);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let count = ((self.high - self.low) / step).round() as usize;
        (0..=count)
            .map(|tick| {
                let value = self.low + tick as f64 * step;
                // No minus zero.
                (
                    value,
                    format!("{:.digits$}", if value.abs() < step * 1e-6 { 0.0 } else { value }),
                )
            })
            .collect()
    }
}

/// The distance of four to eight round numbers.
fn step(low: f64, high: f64) -> f64 {
    let rough = (high - low) / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_ticks_are_round() {
        let axis = Axis::new([41.3, 58.9].into_iter(), 0.0, 100.0);
        let words: Vec<String> = axis.ticks().into_iter().map(|(_, words)| words).collect();
        assert_eq!(words, ["40", "45", "50", "55", "60"]);
        assert_eq!((axis.place(40.0), axis.place(60.0)), (0.0, 100.0));
        let small = Axis::new([-0.01, 0.02].into_iter(), 0.0, 1.0);
        assert!(
            small.ticks().iter().any(|(_, words)| words == "0.000"),
            "{:?}",
            small.ticks()
        );
    }

    #[test]
    fn odd_values_make_an_axis_all_the_same() {
        for values in [vec![], vec![f64::NAN], vec![3.0], vec![f64::INFINITY, 2.0]] {
            let axis = Axis::new(values.into_iter(), 10.0, 0.0);
            assert!(axis.ticks().len() >= 2 && axis.place(0.0).is_finite());
        }
    }
}
