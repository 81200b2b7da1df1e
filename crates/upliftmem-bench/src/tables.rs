//! Tables as Markdown, CSV and LaTeX, the best of each column marked.

use crate::protocol::Cell;

/// A number in a table: as it is shown, and as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What is compared; none for cells that are not.
    pub value: Option<f64>,
    /// The deviation, for programs.
    pub deviation: Option<f64>,
    /// What is shown.
    pub shown: String,
}

impl Entry {
    /// A mean with its deviation over runs.
    pub fn of(cell: Cell) -> Self {
        let shown = match cell.deviation {
            Some(deviation) => format!("{:.2} ± {deviation:.2}", cell.mean),
            None => format!("{:.2}", cell.mean),
        };
        Self {
            value: Some(cell.mean),
            deviation: cell.deviation,
            shown,
        }
    }

    /// Words, or a number that is not compared.
    pub fn plain(shown: impl Into<String>) -> Self {
        Self {
            value: None,
            deviation: None,
            shown: shown.into(),
        }
    }
}

/// Which end of a column is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The larger.
    Higher,
    /// The smaller.
    Lower,
    /// Neither.
    Neither,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct DataTable {
    /// What it shows.
    pub caption: String,
    /// The first is the name of the rows.
    pub columns: Vec<(String, Better)>,
    /// Name and entries of each row.
    pub rows: Vec<(String, Vec<Entry>)>,
}

/// How an entry stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    Best,
    RunnerUp,
    Other,
}

impl DataTable {
    /// The best and the second best distinct values of a column, as the paper marks them.
    fn rank(&self, row: usize, column: usize) -> Rank {
        let better = self.columns[column + 1].1;
        let value = |row: usize| self.rows[row].1.get(column).and_then(|entry| entry.value);
        let (Some(own), true) = (value(row), better != Better::Neither) else {
            return Rank::Other;
        };
        let is_better = |other: f64| match better {
            Better::Higher => other > own + 1e-9,
            Better::Lower | Better::Neither => other < own - 1e-9,
        };
        let mut ahead: Vec<f64> = (0..self.rows.len())
            .filter_map(value)
            .filter(|other| is_better(*other))
            .collect();
        ahead.sort_by(f64::total_cmp);
        ahead.dedup_by(|left, right| (*left - *right).abs() < 1e-9);
        match ahead.len() {
            0 => Rank::Best,
            1 => Rank::RunnerUp,
            _ => Rank::Other,
        }
    }

    fn headings(&self, up: &str, down: &str) -> Vec<String> {
        let arrow = |better| match better {
            Better::Higher => up,
            Better::Lower => down,
            Better::Neither => "",
        };
        self.columns
            .iter()
            .map(|(name, better)| format!("{name}{}", arrow(*better)))
            .collect()
    }

    fn ranked(&self, row: usize, mark: impl Fn(Rank, &str) -> String) -> Vec<String> {
        let (name, entries) = &self.rows[row];
        let cells = entries
            .iter()
            .enumerate()
            .map(|(column, entry)| mark(self.rank(row, column), &entry.shown));
        std::iter::once(name.clone()).chain(cells).collect()
    }

    /// As Markdown, best bold, runner-up italic.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.caption);
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        text += &line(&self.headings(" ↑", " ↓"));
        text += &format!("|---|{}\n", "--:|".repeat(self.columns.len() - 1));
        for row in 0..self.rows.len() {
            text += &line(&self.ranked(row, |rank, shown| match rank {
                Rank::Best => format!("**{shown}**"),
                Rank::RunnerUp => format!("*{shown}*"),
                Rank::Other => shown.to_owned(),
            }));
        }
        text
    }

    /// As CSV, every mean with its deviation in a column of its own.
    pub fn csv(&self) -> String {
        let quoted = |cell: &str| {
            if cell.contains([',', '"', '\n']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.to_owned()
            }
        };
        let mut heading = vec![quoted(&self.columns[0].0)];
        for (name, _) in &self.columns[1..] {
            heading.push(quoted(name));
            heading.push(quoted(&format!("{name} deviation")));
        }
        let mut text = heading.join(",") + "\n";
        for (name, entries) in &self.rows {
            let mut cells = vec![quoted(name)];
            for entry in entries {
                cells.push(
                    entry
                        .value
                        .map_or_else(|| quoted(&entry.shown), |value| format!("{value:.6}")),
                );
                cells.push(
                    entry
                        .deviation
                        .map_or_else(String::new, |value| format!("{value:.6}")),
                );
            }
            text += &(cells.join(",") + "\n");
        }
        text
    }

    /// As LaTeX (booktabs), best bold, runner-up underlined.
    pub fn latex(&self) -> String {
        let escaped = |text: &str| {
            text.replace('&', "\\&")
                .replace('%', "\\%")
                .replace('_', "\\_")
                .replace('±', "$\\pm$")
        };
        let mut text = format!(
            "\\begin{{table}}[t]\n\\centering\\small\n\\caption{{{}}}\n\\begin{{tabular}}{{@{{}}l{}@{{}}}}\n\\toprule\n",
            escaped(&self.caption),
            "r".repeat(self.columns.len() - 1)
        );
        let headings = self.headings("$\\uparrow$", "$\\downarrow$");
        let headings: Vec<String> = headings
            .iter()
            .map(|heading| heading.replace('%', "\\%"))
            .collect();
        text += &format!("{} \\\\\n\\midrule\n", headings.join(" & "));
        for row in 0..self.rows.len() {
            let cells = self.ranked(row, |rank, shown| {
                let shown = escaped(shown);
                match rank {
                    Rank::Best => format!("\\textbf{{{shown}}}"),
                    Rank::RunnerUp => format!("\\underline{{{shown}}}"),
                    Rank::Other => shown,
                }
            });
            text += &format!("{} \\\\\n", cells.join(" & "));
        }
        text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> DataTable {
        let cell = |mean, deviation| Entry::of(Cell { mean, deviation });
        DataTable {
            caption: "Success, 100 %".into(),
            columns: vec![
                ("Method".into(), Better::Neither),
                ("SR".into(), Better::Higher),
                ("Steps".into(), Better::Lower),
            ],
            rows: vec![
                ("A, B".into(), vec![cell(40.0, Some(1.0)), cell(12.0, None)]),
                ("C".into(), vec![cell(50.0, None), cell(12.0, None)]),
                ("D".into(), vec![cell(30.0, None), cell(20.0, None)]),
            ],
        }
    }

    #[test]
    fn the_best_and_the_second_best_distinct_values_are_marked() {
        let markdown = table().markdown();
        assert!(
            markdown.contains("| A, B | *40.00 ± 1.00* | **12.00** |"),
            "{markdown}"
        );
        assert!(markdown.contains("| C | **50.00** | **12.00** |"));
        assert!(markdown.contains("| D | 30.00 | *20.00* |"));
        let latex = table().latex();
        assert!(
            latex.contains("\\underline{40.00 $\\pm$ 1.00}") && latex.contains("100 \\%"),
            "{latex}"
        );
    }

    #[test]
    fn csv_is_for_programs() {
        let csv = table().csv();
        assert_eq!(
            csv.lines().next(),
            Some("Method,SR,SR deviation,Steps,Steps deviation")
        );
        assert_eq!(csv.lines().nth(1), Some("\"A, B\",40.000000,1.000000,12.000000,"));
    }
}
