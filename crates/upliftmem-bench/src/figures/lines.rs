//! Lines with intervals.

use super::{COLOURS, axis::Axis, open, text};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 364.0;

/// A point with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// How much.
    pub y: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Point {
    /// A point without an interval.
    pub const fn exact(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            low: y,
            high: y,
        }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it shows.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// A figure of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines<'f> {
    /// What it shows.
    pub title: &'f str,
    /// What is along the page.
    pub x: &'f str,
    /// What is up the page.
    pub y: &'f str,
    /// The lines.
    pub series: Vec<Series>,
}

impl Lines<'_> {
    /// The figure.
    pub fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let across = Axis::new(all().map(|point| point.x), LEFT, RIGHT);
        let up = Axis::new(all().flat_map(|point| [point.low, point.high]), BOTTOM, TOP);
        let mut svg = open(WIDTH, HEIGHT, self.title) + &text(LEFT, 22.0, "start", self.title);
        for (value, words) in up.ticks() {
            let y = up.place(value);
            svg += &format!(
                "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>\n"
            );
            svg += &text(LEFT - 8.0, y + 4.0, "end", &words);
        }
        for (value, words) in across.ticks() {
            svg += &text(across.place(value), BOTTOM + 18.0, "middle", &words);
        }
        svg += &format!(
            "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.6\"/>\n"
        );
        svg += &text(f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0, "middle", self.x);
        svg += &format!(
            "<g transform=\"rotate(-90 16 {middle})\">{}</g>\n",
            text(16.0, f64::midpoint(TOP, BOTTOM), "middle", self.y).trim_end(),
            middle = f64::midpoint(TOP, BOTTOM)
        );
        for (place, series) in self.series.iter().enumerate() {
            let colour = COLOURS[place % COLOURS.len()];
            svg += &drawn(series, colour, across, up, place, self.series.len());
            let y = TOP + 8.0 + 20.0 * place as f64;
            svg += &format!(
                "<line x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>\n",
                RIGHT + 16.0,
                RIGHT + 36.0
            );
            svg += &text(RIGHT + 42.0, y + 4.0, "start", &series.name);
        }
        svg + "</svg>\n"
    }
}

/// A line, its points, and an upright line for each interval, a little beside those of the other series.
fn drawn(series: &Series, colour: &str, across: Axis, up: Axis, place: usize, count: usize) -> String {
    let aside = 3.0 * (place as f64 - (count as f64 - 1.0) / 2.0);
    let mut path = String::new();
    let mut marks = String::new();
    for (index, point) in series.points.iter().enumerate() {
        let (x, y) = (across.place(point.x), up.place(point.y));
        path += &format!("{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        marks += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
        if point.high > point.low {
            marks += &format!(
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\" stroke=\"{colour}\" stroke-opacity=\"0.5\"/>\n",
                x + aside,
                up.place(point.low),
                up.place(point.high)
            );
        }
    }
    format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n{marks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_names_everything_and_escapes_it() {
        let figure = Lines {
            title: "a < b & c",
            x: "probes",
            y: "success",
            series: vec![Series {
                name: "\"quoted\"".into(),
                points: vec![
                    Point {
                        x: 0.0,
                        y: 1.0,
                        low: 0.5,
                        high: 1.5,
                    },
                    Point::exact(10.0, 2.0),
                ],
            }],
        };
        let svg = figure.svg();
        for part in [
            "a &lt; b &amp; c",
            "probes",
            "success",
            "&quot;quoted&quot;",
            "stroke-opacity=\"0.5\"",
        ] {
            assert!(svg.contains(part), "{part} is missing");
        }
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"));
        let empty = Lines {
            series: Vec::new(),
            ..figure
        };
        assert!(empty.svg().ends_with("</svg>\n"));
    }
}
