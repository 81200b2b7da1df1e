//! Results as tables and figures in the folder.

use std::path::PathBuf;

use serde_json::json;
use upliftmem_core::statistics::Interval;

use super::{
    Bench, Event, KRow, MethodScores, PartScores, ProbeCurve, ProbePoint, Result, records::CODE, scores::Cell,
};
use crate::{
    figures::{HeatMap, Lines, Point, Series},
    tables::{Better, DataTable, Entry},
};

impl Bench {
    fn output(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A figure, which whoever listens may want in another form too.
    fn write_figure(&self, name: &str, svg: String) -> Result<()> {
        let file = self.output(name);
        self.write(&file, &svg)?;
        self.tell(Event::Figure { file, svg });
        Ok(())
    }

    /// A table in its three forms; says where the Markdown is.
    fn write_table(&self, name: &str, table: &DataTable) -> Result<PathBuf> {
        self.write(&self.output(&format!("{name}.csv")), &table.csv())?;
        self.write(&self.output(&format!("{name}.tex")), &table.latex())?;
        let markdown = self.output(&format!("{name}.md"));
        self.write(&markdown, &table.markdown())?;
        self.write_manifest()?;
        Ok(markdown)
    }

    /// What everything in the folder was made from.
    fn write_manifest(&self) -> Result<()> {
        let manifest = json!({ "made_from": self.made_from(), "code": CODE, "agent": self.suite.agent() });
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
        self.write(&self.output("manifest.json"), &text)
    }

    fn caption(&self, what: &str) -> String {
        let sizes: Vec<String> = self
            .suite
            .evaluation()
            .iter()
            .map(|part| format!("{} {}", part.tasks.len(), part.name))
            .collect();
        format!(
            "{what}: {} with the {}, {} seed and {} runtime tasks, {} evaluation tasks, {} runs.",
            self.suite.name(),
            self.suite.agent(),
            self.suite.seed_tasks().len(),
            self.suite.runtime_tasks().len(),
            sizes.join(" / "),
            self.runs
        )
    }

    /// Reward (in percent of the largest, where it is graded), success and steps of each part, and the gain over the first row.
    fn score_table(&self, what: &str, scores: &[MethodScores]) -> Result<DataTable> {
        let mut columns = vec![("Method".to_owned(), Better::Neither)];
        for part in self.suite.evaluation() {
            if self.suite.is_graded() {
                columns.push((format!("{} reward", part.name), Better::Higher));
            }
            columns.push((format!("{} SR, %", part.name), Better::Higher));
            columns.push((format!("{} {}", part.name, self.suite.cost_unit()), Better::Lower));
            columns.push((
                format!("{} over the first row [95 %]", part.name),
                Better::Neither,
            ));
            if let Some((behaviour, better)) = self.suite.behaviour(&part.name) {
                columns.push((format!("{} {behaviour}, %", part.name), better));
            }
        }
        columns.push(("memories given".into(), Better::Neither));
        columns.push(("store".into(), Better::Neither));
        let mut rows = Vec::with_capacity(scores.len());
        for method in scores {
            let mut entries = Vec::new();
            let mut given: Vec<usize> = Vec::new();
            for part in self.suite.evaluation() {
                let (Some(own), Some(first)) = (
                    method.parts.get(&part.name),
                    scores.first().and_then(|first| first.parts.get(&part.name)),
                ) else {
                    continue;
                };
                if self.suite.is_graded() {
                    entries.push(Entry::of(own.reward()?));
                }
                entries.push(Entry::of(own.success()?));
                entries.push(Entry::of(own.steps()?));
                let (gain, interval) = own.gain_over(first)?;
                entries.push(Entry::plain(interval.map_or_else(
                    || format!("{gain:+.1}"),
                    |interval| format!("{gain:+.1} [{:+.1}, {:+.1}]", interval.low, interval.high),
                )));
                if self.suite.behaviour(&part.name).is_some() {
                    entries.push(Entry::of(own.behaviour()?));
                }
                given.extend(&own.sizes);
            }
            let mean = given.iter().sum::<usize>() as f64 / given.len().max(1) as f64;
            entries.push(Entry::plain(format!("{mean:.1}")));
            entries.push(Entry::plain(method.store.to_string()));
            rows.push((method.method.clone(), entries));
        }
        Ok(DataTable {
            caption: self.caption(what),
            columns,
            rows,
        })
    }
}

/// The main table. Paper: tab. main_results.
///
/// # Errors
/// A file can not be written.
pub fn write_main(bench: &Bench, scores: &[MethodScores]) -> Result<PathBuf> {
    write_scores(bench, "main", "Complete workflows", scores)
}

/// A table of scores, and the benchmark's own summary beside it, if it has one.
fn write_scores(bench: &Bench, name: &str, what: &str, scores: &[MethodScores]) -> Result<PathBuf> {
    if let Some(summary) = bench.suite.summary(scores)? {
        let caption = bench.caption(&format!("{what}, {}", summary.caption));
        bench.write_table(&format!("{name}-summary"), &DataTable { caption, ..summary })?;
    }
    bench.write_table(name, &bench.score_table(what, scores)?)
}

/// The table of ablations. Paper: tab. ablation.
///
/// # Errors
/// A file can not be written.
pub fn write_ablations(bench: &Bench, scores: &[MethodScores]) -> Result<PathBuf> {
    write_scores(bench, "ablations", "Ablations", scores)
}

/// Native and UpliftMem's retrieval in fixed stores: the table, the heat map of gains at the suite's K, and success by K.
///
/// # Errors
/// A file can not be written.
pub fn write_budget_k(bench: &Bench, rows: &[KRow]) -> Result<PathBuf> {
    let parts: Vec<&str> = bench
        .suite
        .evaluation()
        .iter()
        .map(|part| part.name.as_str())
        .collect();
    let mut columns = vec![("Store, K".to_owned(), Better::Neither)];
    for part in &parts {
        columns.push((format!("{part} native SR, %"), Better::Neither));
        columns.push((format!("{part} UpliftMem SR, %"), Better::Neither));
        columns.push((format!("{part} gain [95 %]"), Better::Neither));
        if let Some((behaviour, _)) = bench.suite.behaviour(part) {
            columns.push((format!("{part} native {behaviour}, %"), Better::Neither));
            columns.push((format!("{part} UpliftMem {behaviour}, %"), Better::Neither));
            columns.push((format!("{part} {behaviour}, gain [95 %]"), Better::Neither));
        }
    }
    let mut table = DataTable {
        caption: bench.caption("Retrieval within fixed stores"),
        columns,
        rows: Vec::new(),
    };
    let mut heat = HeatMap {
        title: "Gain in success over native retrieval, points",
        rows: Vec::new(),
        columns: parts.iter().flat_map(|part| measured_in(bench, part)).collect(),
        values: Vec::new(),
        labels: Vec::new(),
    };
    for row in rows {
        let (mut entries, mut gains, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for part in &parts {
            let (Some(native), Some(ours)) = (row.native.parts.get(*part), row.uplift.parts.get(*part))
            else {
                continue;
            };
            entries.push(Entry::of(native.success()?));
            entries.push(Entry::of(ours.success()?));
            let (gain, interval) = ours.gain_over(native)?;
            let mut found = vec![gained(gain, interval)];
            entries.extend(found.clone());
            if let Some((_, better)) = bench.suite.behaviour(part) {
                entries.push(Entry::of(native.behaviour()?));
                entries.push(Entry::of(ours.behaviour()?));
                // Less of what is bad is a gain.
                let sign = if better == Better::Lower { -1.0 } else { 1.0 };
                let (more, interval) = ours.behaviour_over(native)?;
                let entry = gained(sign * more, interval);
                entries.push(entry.clone());
                found.push(entry);
            }
            for entry in found {
                gains.push(entry.value.unwrap_or_default());
                labels.push(entry.shown);
            }
        }
        table
            .rows
            .push((format!("{}, K = {}", row.store, row.count), entries));
        if row.count == bench.suite.memories_max() {
            heat.rows.push(row.store.clone());
            heat.values.push(gains);
            heat.labels.push(labels);
        }
    }
    if !heat.rows.is_empty() {
        bench.write_figure("gains.svg", heat.svg())?;
    }
    for part in &parts {
        let figure = Lines {
            title: &format!("Success by K, {part} tasks, mean of the stores"),
            x: "most memories, K",
            y: "success, %",
            series: vec![
                k_series("native", rows, |row| {
                    row.native.parts.get(*part).map(PartScores::success)
                })?,
                k_series("UpliftMem", rows, |row| {
                    row.uplift.parts.get(*part).map(PartScores::success)
                })?,
            ],
        };
        bench.write_figure(&format!("budget-k-{part}.svg"), figure.svg())?;
    }
    bench.write_table("stores", &table)
}

/// What is compared on a part, by name.
fn measured_in(bench: &Bench, part: &str) -> Vec<String> {
    let behaviour = bench.suite.behaviour(part);
    let behaviour = behaviour.map(|(behaviour, _)| format!("{part}, {behaviour}"));
    std::iter::once(part.to_owned()).chain(behaviour).collect()
}

/// A gain with half of its interval.
fn gained(gain: f64, interval: Option<Interval>) -> Entry {
    let half = interval.map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
    Entry {
        value: Some(gain),
        deviation: None,
        shown: format!("{gain:+.1} ± {half:.1}"),
    }
}

/// The mean over stores at each K, and the range of the stores.
fn k_series(name: &str, rows: &[KRow], of: impl Fn(&KRow) -> Option<Result<Cell>>) -> Result<Series> {
    let mut counts: Vec<usize> = rows.iter().map(|row| row.count).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut points = Vec::new();
    for count in counts {
        let cells: Vec<f64> = rows
            .iter()
            .filter(|row| row.count == count)
            .filter_map(&of)
            .map(|cell| Ok(cell?.mean))
            .collect::<Result<_>>()?;
        if !cells.is_empty() {
            points.push(Point {
                x: count as f64,
                y: cells.iter().sum::<f64>() / cells.len() as f64,
                low: cells.iter().copied().fold(f64::INFINITY, f64::min),
                high: cells.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            });
        }
    }
    Ok(Series {
        name: name.to_owned(),
        points,
    })
}

/// Probe curves: a table and two figures. Paper: fig. probe_efficiency.
///
/// # Errors
/// A file can not be written.
pub fn write_probes(bench: &Bench, curves: &[ProbeCurve], trials: usize) -> Result<PathBuf> {
    let budgets: Vec<usize> = curves.first().map_or_else(Vec::new, |curve| {
        curve.points.iter().map(|point| point.budget).collect()
    });
    let mut columns = vec![("Strategy".to_owned(), Better::Neither)];
    columns.extend(budgets.iter().map(|budget| (format!("{budget}"), Better::Higher)));
    let graded = bench.suite.is_graded();
    let mut measures = vec![
        ("success", "Success of the checkpoint, %"),
        ("cumulative", "Cumulative success, %"),
    ];
    if graded {
        measures.push(("reward", "Mean reward of the checkpoint, % of the largest"));
    }
    let entry = |name: &str, point: &ProbePoint| {
        let value = measured(name, point);
        let half = point
            .interval
            .map(|interval| (interval.high - interval.low) / 2.0);
        let shown = match (name, half) {
            ("success", Some(half)) => format!("{value:.1} ± {half:.1}"),
            _ => format!("{value:.1}"),
        };
        Entry {
            value: Some(value),
            deviation: None,
            shown,
        }
    };
    let table = |name: &str, what: &str| {
        let rows = curves.iter().map(|curve| {
            let entries = curve.points.iter().map(|point| entry(name, point));
            (curve.strategy.clone(), entries.collect())
        });
        let caption = format!(
            "{what}, by probes bought after warm-up: {} with the {}, {} warm-up tasks, {} validation tasks, mean of {trials} \
             trials (± half the 95 % interval over trials).",
            bench.suite.name(),
            bench.suite.agent(),
            bench.sizes.warm_up,
            bench.suite.validation_tasks().len()
        );
        DataTable {
            caption,
            columns: columns.clone(),
            rows: rows.collect(),
        }
    };
    let figure = |title: &str, y: &str, of: &dyn Fn(&ProbePoint) -> Point| {
        let series = curves.iter().map(|curve| Series {
            name: curve.strategy.clone(),
            points: curve.points.iter().map(of).collect(),
        });
        Lines {
            title,
            x: "probes after warm-up",
            y,
            series: series.collect(),
        }
        .svg()
    };
    let checkpoint = figure(
        "Success of the checkpoint by probe budget",
        "success, %",
        &|point| {
            let interval = point.interval;
            Point {
                x: point.budget as f64,
                y: point.success,
                low: interval.map_or(point.success, |interval| interval.low),
                high: interval.map_or(point.success, |interval| interval.high),
            }
        },
    );
    let cumulative = figure("Cumulative success by probe budget", "success, %", &|point| {
        Point::exact(point.budget as f64, point.cumulative)
    });
    bench.write_figure("probes-success.svg", checkpoint)?;
    bench.write_figure("probes-cumulative.svg", cumulative)?;
    if graded {
        let reward = figure(
            "Mean reward of the checkpoint by probe budget",
            "reward, %",
            &|point| Point::exact(point.budget as f64, point.reward),
        );
        bench.write_figure("probes-reward.svg", reward)?;
    }
    bench.write(
        &bench.output("probes.json"),
        &serde_json::to_string(curves).unwrap_or_default(),
    )?;
    let mut written = PathBuf::new();
    for (name, what) in measures {
        written = bench.write_table(&format!("probes-{name}"), &table(name, what))?;
    }
    Ok(written)
}

fn measured(name: &str, point: &ProbePoint) -> f64 {
    match name {
        "success" => point.success,
        "reward" => point.reward,
        _ => point.cumulative,
    }
}
