//! Bars with intervals, to either side of zero.

use super::{COLOURS, axis::Axis, open, text};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 44.0;
const ROW: f64 = 30.0;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What it shows.
    pub name: String,
    /// How much.
    pub value: f64,
    /// The ends of its interval, if it has one.
    pub interval: Option<(f64, f64)>,
}

/// A figure of bars, one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars<'f> {
    /// What it shows.
    pub title: &'f str,
    /// What is along the page.
    pub x: &'f str,
    /// The bars, from above.
    pub bars: Vec<Bar>,
}

impl Bars<'_> {
    /// The figure.
    pub fn svg(&self) -> String {
        let ends = self.bars.iter().flat_map(|bar| {
            let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
            [0.0, bar.value, low, high]
        });
        let across = Axis::new(ends, LEFT, RIGHT);
        let bottom = TOP + ROW * self.bars.len() as f64;
        let mut svg = open(WIDTH, bottom + 60.0, self.title) + &text(16.0, 22.0, "start", self.title);
        for (value, words) in across.ticks() {
            let x = across.place(value);
            svg += &format!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\" stroke=\"currentColor\" stroke-opacity=\"{}\"/>\n",
                if value == 0.0 { 0.6 } else { 0.15 }
            );
            svg += &text(x, bottom + 18.0, "middle", &words);
        }
        for (place, bar) in self.bars.iter().filter(|bar| bar.value.is_finite()).enumerate() {
            let y = TOP + ROW * place as f64;
            let (zero, end) = (across.place(0.0), across.place(bar.value));
            svg += &text(LEFT - 12.0, y + 20.0, "end", &bar.name);
            svg += &format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"18\" fill=\"{}\"/>\n",
                zero.min(end),
                y + 6.0,
                (end - zero).abs().max(0.5),
                COLOURS[usize::from(bar.value < 0.0)]
            );
            if let Some((low, high)) = bar.interval {
                svg += &format!(
                    "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"currentColor\" stroke-width=\"2\"/>\n",
                    across.place(low),
                    across.place(high),
                    middle = y + 15.0
                );
            }
        }
        svg + &text(f64::midpoint(LEFT, RIGHT), bottom + 42.0, "middle", self.x) + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_both_sides_of_zero() {
        let bar = |name: &str, value: f64| Bar {
            name: name.into(),
            value,
            interval: Some((value - 0.1, value + 0.1)),
        };
        let figure = Bars {
            title: "uplift",
            x: "over no memory",
            bars: vec![bar("a<b", 0.4), bar("worse", -0.2), bar("unknown", f64::NAN)],
        };
        let svg = figure.svg();
        assert!(svg.contains("a&lt;b") && svg.contains(COLOURS[0]) && svg.contains(COLOURS[1]));
        assert!(!svg.contains("NaN"), "{svg}");
        let nothing = Bars {
            bars: Vec::new(),
            ..figure
        };
        assert!(nothing.svg().ends_with("</svg>\n"));
    }
}
