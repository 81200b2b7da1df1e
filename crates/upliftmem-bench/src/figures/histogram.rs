//! How often values occur.

use super::{COLOURS, axis::Axis, open, text};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 304.0;

/// A figure of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<'f> {
    /// What it shows.
    pub title: &'f str,
    /// What is counted.
    pub x: &'f str,
    /// The values; those that are not finite are left out.
    pub values: &'f [f64],
    /// Number of bars.
    pub bins: usize,
}

impl Histogram<'_> {
    /// How many values are in each bar, and where the first begins and each ends.
    fn counts(&self) -> (Vec<usize>, f64, f64) {
        let finite = || self.values.iter().copied().filter(|value| value.is_finite());
        let low = finite().fold(f64::INFINITY, f64::min);
        let high = finite().fold(f64::NEG_INFINITY, f64::max);
        let bins = self.bins.max(1);
        if low > high {
            return (vec![0; bins], 0.0, 1.0 / bins as f64);
        }
        let width = ((high - low) / bins as f64).max(1e-9);
        let mut counts = vec![0; bins];
        for value in finite() {
            counts[(((value - low) / width) as usize).min(bins - 1)] += 1;
        }
        (counts, low, width)
    }

    /// The figure.
    pub fn svg(&self) -> String {
        let (counts, low, width) = self.counts();
        let high = low + width * counts.len() as f64;
        let across = Axis::new([low, high].into_iter(), LEFT, RIGHT);
        let largest = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let up = Axis::new([0.0, largest].into_iter(), BOTTOM, TOP);
        let mut svg = open(WIDTH, HEIGHT, self.title) + &text(LEFT, 22.0, "start", self.title);
        for (place, &count) in counts.iter().enumerate() {
            let (left, right) = (
                across.place(low + width * place as f64),
                across.place(low + width * (place + 1) as f64),
            );
            let y = up.place(count as f64);
            svg += &format!(
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" fill-opacity=\"0.8\"/>\n",
                (right - left - 1.0).max(0.5),
                BOTTOM - y,
                COLOURS[0]
            );
        }
        for (value, words) in up.ticks() {
            svg += &text(LEFT - 8.0, up.place(value) + 4.0, "end", &words);
        }
        for (value, words) in across.ticks() {
            svg += &text(across.place(value), BOTTOM + 18.0, "middle", &words);
        }
        svg + &text(f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0, "middle", self.x) + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_value_is_in_one_bar() {
        let values = [0.0, 0.1, 0.5, 1.0, f64::NAN, f64::INFINITY];
        let histogram = Histogram {
            title: "uplift",
            x: "points",
            values: &values,
            bins: 4,
        };
        assert_eq!(histogram.counts().0, [2, 0, 1, 1]);
        assert!(!histogram.svg().contains("NaN"));
        let nothing = Histogram {
            values: &[],
            ..histogram
        };
        assert!(nothing.svg().ends_with("</svg>\n"));
    }
}
