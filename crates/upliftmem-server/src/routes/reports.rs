//! "Does memory help?", which memories harm, what was paid, whether predictions hold.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upliftmem_core::{MemoryId, Purpose, statistics::Interval};
use upliftmem_engine::{
    CalibrationReport, Effect, MemoryEffect, UpliftPoint, calibration_report, help_report, uplift_over_time,
};
use upliftmem_store::{Permission, Scope};

use crate::{
    app::Shared,
    error::{ApiError, Result},
    extract::{Answer, Asked},
    scope::InScope,
    table::{Route, get},
    wire::{Id, moment, parse_ids},
};

#[derive(Debug, Serialize, JsonSchema)]
struct IntervalView {
    low: f64,
    high: f64,
}

impl From<Interval> for IntervalView {
    fn from(interval: Interval) -> Self {
        Self {
            low: interval.low,
            high: interval.high,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct EffectView {
    /// Executions that were compared.
    pairs: usize,
    mean: f64,
    /// 95 %; absent with fewer than two.
    interval: Option<IntervalView>,
}

impl From<Effect> for EffectView {
    fn from(effect: Effect) -> Self {
        Self {
            pairs: effect.pairs,
            mean: effect.mean,
            interval: effect.interval.map(Into::into),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct HelpView {
    /// In words.
    verdict: String,
    /// Ordinary retrievals against no memory.
    retrievals: Option<EffectView>,
    /// Probes against no memory: what was paid to learn.
    probes: Option<EffectView>,
    /// Share of ordinary retrievals that did worse than no memory.
    harmed: f64,
    /// Share of searches that advised no memory.
    abstained: Option<f64>,
    /// No memory against no memory: anything but zero is noise.
    control: Option<EffectView>,
}

fn verdict(effect: Option<&EffectView>) -> String {
    match effect {
        None => "Nothing can be said yet: no outcome was compared with the same task without memory.".into(),
        Some(effect) => match &effect.interval {
            Some(interval) if interval.low > 0.0 => "Memory helps.".into(),
            Some(interval) if interval.high < 0.0 => "Memory harms.".into(),
            _ => "It can not be told yet whether memory helps: the interval includes zero.".into(),
        },
    }
}

async fn help(State(app): State<Shared>, InScope(scope): InScope) -> Result<Answer<HelpView>> {
    let report = help_report(app.store(), &scope).await?;
    let retrievals = report.retrievals.map(EffectView::from);
    Ok(Answer(HelpView {
        verdict: verdict(retrievals.as_ref()),
        retrievals,
        probes: report.probes.map(Into::into),
        harmed: report.harmed,
        abstained: report.abstained,
        control: report.control.map(Into::into),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct EffectsQuery {
    /// `harm` shows the most harmful first, `help` the most helpful.
    order: Option<Order>,
    /// Only these memories: their ids, separated by commas.
    memories: Option<String>,
    /// Most rows.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Harm,
    Help,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MemoryEffectView {
    id: Id,
    /// What it says; absent if it was removed.
    memory: Option<String>,
    status: Option<String>,
    /// Executions with it.
    executions: usize,
    /// Mean uplift of those, shrunk towards zero by one pseudo-observation.
    effect: f64,
    /// 95 % of the mean.
    interval: Option<IntervalView>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct EffectsView {
    results: Vec<MemoryEffectView>,
}

async fn with_texts(app: &Shared, scope: &Scope, effects: Vec<MemoryEffect>) -> Result<EffectsView> {
    let ids: Vec<MemoryId> = effects.iter().map(|effect| effect.id).collect();
    let stored = if ids.is_empty() {
        Vec::new()
    } else {
        app.store().memories(scope, &ids).await?
    };
    let results = effects.into_iter().map(|effect| {
        let found = stored.iter().find(|stored| stored.memory.id == effect.id);
        MemoryEffectView {
            id: Id::of(effect.id),
            memory: found.map(|stored| stored.memory.text.clone()),
            status: found.map(|stored| stored.status.as_str().into()),
            executions: effect.executions,
            effect: effect.effect,
            interval: effect.interval.map(Into::into),
        }
    });
    Ok(EffectsView {
        results: results.collect(),
    })
}

async fn effects(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<EffectsQuery>,
) -> Result<Answer<EffectsView>> {
    let rows = app.rows(query.limit)?;
    let wanted: Option<Vec<MemoryId>> = query
        .memories
        .as_deref()
        .map(|ids| parse_ids(ids, rows))
        .transpose()?;
    let mut effects = help_report(app.store(), &scope).await?.memories;
    if let Some(wanted) = wanted {
        effects.retain(|effect| wanted.contains(&effect.id));
    }
    if query.order == Some(Order::Help) {
        effects.reverse();
    }
    effects.truncate(rows);
    Ok(Answer(with_texts(&app, &scope, effects).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct HarmQuery {
    /// Most rows.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

async fn harm(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<HarmQuery>,
) -> Result<Answer<EffectsView>> {
    let mut effects = help_report(app.store(), &scope).await?.memories;
    effects.retain(|effect| effect.effect < 0.0);
    effects.truncate(app.rows(query.limit)?);
    Ok(Answer(with_texts(&app, &scope, effects).await?))
}

#[derive(Debug, Serialize, JsonSchema)]
struct LedgerLineView {
    purpose: String,
    executions: u64,
    cost: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct LedgerView {
    lines: Vec<LedgerLineView>,
    /// All of them together.
    executions: u64,
    cost: f64,
}

async fn ledger(State(app): State<Shared>, InScope(scope): InScope) -> Result<Answer<LedgerView>> {
    let ledger = app.store().ledger(&scope).await?;
    let lines = Purpose::ALL.into_iter().map(|purpose| {
        let line = ledger.line(purpose);
        LedgerLineView {
            purpose: purpose.name().into(),
            executions: line.executions,
            cost: line.cost,
        }
    });
    let total = ledger.total();
    Ok(Answer(LedgerView {
        lines: lines.collect(),
        executions: total.executions,
        cost: total.cost,
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct CalibrationBinView {
    /// Mean of what was predicted.
    predicted: f64,
    /// Mean of what came.
    observed: f64,
    count: usize,
}

/// Predicted against observed uplift of retrievals whose outcome became a label.
#[derive(Debug, Serialize, JsonSchema)]
struct CalibrationView {
    pairs: usize,
    /// What predictions must be multiplied by to fit best; 1 is calibrated, less is boastful.
    slope: Option<f64>,
    /// Predicted minus observed, on average; above zero promises too much.
    optimism: Option<f64>,
    /// Pairs in the order of what was predicted, in bins of about the same size.
    bins: Vec<CalibrationBinView>,
}

impl From<CalibrationReport> for CalibrationView {
    fn from(report: CalibrationReport) -> Self {
        let bins = report.bins.into_iter().map(|bin| CalibrationBinView {
            predicted: bin.predicted,
            observed: bin.observed,
            count: bin.count,
        });
        Self {
            pairs: report.pairs,
            slope: report.slope,
            optimism: report.optimism,
            bins: bins.collect(),
        }
    }
}

async fn calibration(State(app): State<Shared>, InScope(scope): InScope) -> Result<Answer<CalibrationView>> {
    Ok(Answer(calibration_report(app.store(), &scope).await?.into()))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct UpliftQuery {
    /// Most points; labels are gathered into so many groups of about the same size, in the order in which they came.
    #[schemars(range(min = 1, max = 500))]
    points: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UpliftPointView {
    /// When its last label came.
    at: String,
    effect: EffectView,
}

impl From<UpliftPoint> for UpliftPointView {
    fn from(point: UpliftPoint) -> Self {
        Self {
            at: moment(point.at),
            effect: point.effect.into(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct UpliftView {
    results: Vec<UpliftPointView>,
}

async fn uplift(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<UpliftQuery>,
) -> Result<Answer<UpliftView>> {
    let points = query.points.unwrap_or(20);
    if !(1..=500).contains(&points) {
        return Err(ApiError::invalid("points", "ask for 1 to 500"));
    }
    let found = uplift_over_time(app.store(), &scope, points).await?;
    Ok(Answer(UpliftView {
        results: found.into_iter().map(Into::into).collect(),
    }))
}

pub(super) fn routes() -> Vec<Route> {
    let (tag, read) = ("reports", Permission::Read);
    vec![
        get("/v1/reports/help", "report_help", help)
            .about(tag, "Does memory help? With intervals and a negative control.")
            .needs(read)
            .scoped()
            .answers::<HelpView>(),
        get("/v1/reports/uplift", "report_uplift", uplift)
            .about(tag, "Uplift of ordinary retrievals over time, with intervals.")
            .needs(read)
            .scoped()
            .asks::<UpliftQuery>()
            .answers::<UpliftView>(),
        get("/v1/reports/memories", "report_memories", effects)
            .about(tag, "What executions with each memory say about it.")
            .needs(read)
            .scoped()
            .asks::<EffectsQuery>()
            .answers::<EffectsView>(),
        get("/v1/reports/harm", "report_harm", harm)
            .about(tag, "Memories that made things worse, the worst first.")
            .needs(read)
            .scoped()
            .asks::<HarmQuery>()
            .answers::<EffectsView>(),
        get("/v1/reports/ledger", "report_ledger", ledger)
            .about(tag, "What was executed and what it cost, by purpose.")
            .needs(read)
            .scoped()
            .answers::<LedgerView>(),
        get("/v1/reports/calibration", "report_calibration", calibration)
            .about(tag, "Whether predicted uplift comes true.")
            .needs(read)
            .scoped()
            .answers::<CalibrationView>(),
    ]
}
