//! What was executed in a store, as figures.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use upliftmem_bench::figures::{Bar, Bars, Histogram, Lines, Point, Series};
use upliftmem_core::Purpose;
use upliftmem_engine::{
    HelpReport, UpliftPoint, calibration_report, help_report, observed_uplifts, uplift_over_time,
};

use crate::{context::Context, output::Output, png};

/// Points of a learning curve.
const CURVE_POINTS: usize = 12;

/// A figure with its file's name.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) svg: String,
}

/// The figures of a store.
pub(crate) async fn of_store(context: &Context) -> Result<Vec<Figure>> {
    let (store, scope) = (&context.store, &context.scope);
    let uplifts = observed_uplifts(store, scope).await?;
    let histogram = Histogram {
        title: "Observed uplift of executions with memories",
        x: "utility with memories minus utility without",
        values: &uplifts,
        bins: 21,
    };
    Ok(vec![
        Figure {
            name: "uplift",
            svg: histogram.svg(),
        },
        calibration(context).await?,
        coverage(&help_report(store, scope).await?),
        ledger(context).await?,
    ])
}

/// How much retrieval helped as labels came, a line a store.
pub(crate) async fn learning(contexts: &[(String, &Context)]) -> Result<Figure> {
    let mut series = Vec::new();
    for (name, context) in contexts {
        let points = uplift_over_time(&context.store, &context.scope, CURVE_POINTS).await?;
        series.push(Series {
            name: name.clone(),
            points: curve(&points),
        });
    }
    let lines = Lines {
        title: "Uplift of ordinary retrievals while learning",
        x: "retrievals",
        y: "mean uplift",
        series,
    };
    Ok(Figure {
        name: "learning",
        svg: lines.svg(),
    })
}

/// Writes figures into a folder, as SVG and as PNG, and says what they are called.
pub(crate) fn write(folder: &Path, figures: &[Figure], output: Output) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("{} can not be made", folder.display()))?;
    let mut files = Vec::new();
    for figure in figures {
        let file = folder.join(format!("{}.svg", figure.name));
        std::fs::write(&file, &figure.svg)
            .with_context(|| format!("{} can not be written", file.display()))?;
        let drawn = png::beside(&file, &figure.svg, output)?;
        files.push(file);
        files.extend(drawn);
    }
    Ok(files)
}

fn curve(points: &[UpliftPoint]) -> Vec<Point> {
    let mut seen = 0.0;
    let placed = points.iter().map(|point| {
        seen += point.effect.pairs as f64;
        let mean = point.effect.mean;
        let (low, high) = point.effect.interval.map_or((mean, mean), |i| (i.low, i.high));
        Point {
            x: seen,
            y: mean,
            low,
            high,
        }
    });
    placed.collect()
}

/// Predicted against observed uplift; on the diagonal, predictions are right on average.
async fn calibration(context: &Context) -> Result<Figure> {
    let report = calibration_report(&context.store, &context.scope).await?;
    let observed: Vec<Point> = report
        .bins
        .iter()
        .map(|bin| Point::exact(bin.predicted, bin.observed))
        .collect();
    let exactly: Vec<Point> = [report.bins.first(), report.bins.last()]
        .into_iter()
        .flatten()
        .map(|bin| Point::exact(bin.predicted, bin.predicted))
        .collect();
    let lines = Lines {
        title: "Calibration of retrievals while learning",
        x: "predicted uplift",
        y: "observed uplift",
        series: vec![
            Series {
                name: "observed".into(),
                points: observed,
            },
            Series {
                name: "as predicted".into(),
                points: exactly,
            },
        ],
    };
    Ok(Figure {
        name: "calibration",
        svg: lines.svg(),
    })
}

/// How often memories were tried.
fn coverage(report: &HelpReport) -> Figure {
    let counts: Vec<f64> = report
        .memories
        .iter()
        .map(|memory| memory.executions as f64)
        .collect();
    let histogram = Histogram {
        title: "How often memories were tried",
        x: "executions with a memory, of those that were tried at all",
        values: &counts,
        bins: 20,
    };
    Figure {
        name: "coverage",
        svg: histogram.svg(),
    }
}

async fn ledger(context: &Context) -> Result<Figure> {
    let ledger = context.store.ledger(&context.scope).await?;
    let bars = Purpose::ALL.into_iter().map(|purpose| Bar {
        name: purpose.name().to_owned(),
        value: ledger.line(purpose).executions as f64,
        interval: None,
    });
    let bars = Bars {
        title: "What executions were spent on",
        x: "executions",
        bars: bars.filter(|bar| bar.value > 0.0).collect(),
    };
    Ok(Figure {
        name: "ledger",
        svg: bars.svg(),
    })
}
