//! A table of numbers as colours around zero.

use super::{open, text};

const CELL_WIDTH: f64 = 110.0;
const CELL_HEIGHT: f64 = 44.0;
const LEFT: f64 = 120.0;
const TOP: f64 = 72.0;

/// A figure of gains: blue above zero, orange below, the number in every cell.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap<'f> {
    /// What it shows.
    pub title: &'f str,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// By row, then by column.
    pub values: Vec<Vec<f64>>,
    /// What is written in each cell.
    pub labels: Vec<Vec<String>>,
}

impl HeatMap<'_> {
    /// The figure.
    pub fn svg(&self) -> String {
        let width = LEFT + CELL_WIDTH * self.columns.len() as f64 + 16.0;
        let height = TOP + CELL_HEIGHT * self.rows.len() as f64 + 16.0;
        let all = self.values.iter().flatten().filter(|value| value.is_finite());
        let reach = all.fold(1e-9_f64, |reach, value| reach.max(value.abs()));
        let mut svg = open(width, height, self.title) + &text(16.0, 24.0, "start", self.title);
        let centre = |column: usize| LEFT + CELL_WIDTH * (column as f64 + 0.5);
        for (column, name) in self.columns.iter().enumerate() {
            svg += &text(centre(column), TOP - 12.0, "middle", name);
        }
        for (row, name) in self.rows.iter().enumerate() {
            let y = TOP + CELL_HEIGHT * row as f64;
            svg += &text(LEFT - 10.0, y + CELL_HEIGHT / 2.0 + 4.0, "end", name);
            let cells = self.values.get(row).into_iter().flatten().enumerate();
            for (column, value) in cells {
                let colour = if *value < 0.0 { "#d55e00" } else { "#0072b2" };
                let share = if value.is_finite() {
                    0.65 * value.abs() / reach
                } else {
                    0.0
                };
                svg += &format!(
                    "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\" fill=\"{colour}\" \
                     fill-opacity=\"{share:.3}\" stroke=\"currentColor\" stroke-opacity=\"0.2\"/>\n",
                    LEFT + CELL_WIDTH * column as f64
                );
                let label = self.labels.get(row).and_then(|labels| labels.get(column));
                let shown = label.map_or_else(|| format!("{value:+.1}"), Clone::clone);
                svg += &text(centre(column), y + CELL_HEIGHT / 2.0 + 4.0, "middle", &shown);
            }
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_have_colours_and_odd_numbers_none() {
        let map = HeatMap {
            title: "gains",
            rows: vec!["a".into(), "b".into()],
            columns: vec!["seen".into()],
            values: vec![vec![4.0], vec![f64::NAN]],
            labels: Vec::new(),
        };
        let svg = map.svg();
        assert!(
            svg.contains("fill-opacity=\"0.650\"")
                && svg.contains("+4.0")
                && svg.contains("fill-opacity=\"0.000\"")
        );
    }
}
