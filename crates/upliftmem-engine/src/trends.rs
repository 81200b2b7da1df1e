//! How labels go on: uplift over time, and whether what was predicted came.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use upliftmem_core::{
    Purpose, RolloutId,
    statistics::{Summary, calibration_slope, optimism},
};
use upliftmem_store::{EntryKind, JournalEntry, JournalFilter, Scope, Store, Timestamp};

use crate::{error::Result, journal::each_entry, report::Effect};

/// Bins of a calibration plot at most.
const BINS: usize = 10;

/// The uplift of some labels in a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpliftPoint {
    /// When the last of them came.
    pub at: Timestamp,
    /// What they say.
    pub effect: Effect,
}

/// Retrievals that were predicted about the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// Mean of what was predicted.
    pub predicted: f64,
    /// Mean of what came.
    pub observed: f64,
    /// How many.
    pub count: usize,
}

/// Predicted against observed uplift of retrievals whose outcome became a label.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CalibrationReport {
    /// How many.
    pub pairs: usize,
    /// See [`calibration_slope`].
    pub slope: Option<f64>,
    /// Mean of [`optimism`].
    pub optimism: Option<f64>,
    /// In the order of what was predicted.
    pub bins: Vec<CalibrationBin>,
}

/// The uplift of every execution with memories that became a label, in the order in which they came.
pub async fn observed_uplifts(store: &Arc<dyn Store>, scope: &Scope) -> Result<Vec<f64>> {
    let mut uplifts = Vec::new();
    each_entry(store.as_ref(), scope, Some(EntryKind::Observation), |entry| {
        if let JournalEntry::Observation(seen) = entry {
            uplifts.push(seen.uplift.get());
        }
        Ok(())
    })
    .await?;
    Ok(uplifts)
}

/// The uplift of ordinary retrievals in the order in which their labels came, in groups of about the same size.
pub async fn uplift_over_time(
    store: &Arc<dyn Store>,
    scope: &Scope,
    points: usize,
) -> Result<Vec<UpliftPoint>> {
    let mut labels: Vec<(Timestamp, f64)> = Vec::new();
    let mut after = 0;
    loop {
        let filter = JournalFilter {
            kind: Some(EntryKind::Observation),
            task: None,
            after,
        };
        let page = store
            .list_entries(scope, filter, store.limits().page_rows_max)
            .await?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        labels.extend(page.into_iter().filter_map(|found| match found.entry {
            JournalEntry::Observation(seen) if seen.purpose == Purpose::Retrieval => {
                Some((found.at, seen.uplift.get()))
            }
            _ => None,
        }));
    }
    let size = labels.len().div_ceil(points.max(1)).max(1);
    labels
        .chunks(size)
        .map(|chunk| {
            let uplifts: Vec<f64> = chunk.iter().map(|(_, uplift)| *uplift).collect();
            let summary = Summary::of(&uplifts)?;
            Ok(UpliftPoint {
                at: chunk[chunk.len() - 1].0,
                effect: Effect {
                    pairs: summary.count,
                    mean: summary.mean,
                    interval: summary.t_interval(0.95)?,
                },
            })
        })
        .collect()
}

/// Compares what retrievals promised with what came.
pub async fn calibration_report(store: &Arc<dyn Store>, scope: &Scope) -> Result<CalibrationReport> {
    let mut observed: BTreeMap<RolloutId, f64> = BTreeMap::new();
    each_entry(store.as_ref(), scope, Some(EntryKind::Observation), |entry| {
        if let JournalEntry::Observation(seen) = entry
            && seen.purpose == Purpose::Retrieval
        {
            observed.insert(seen.rollout, seen.uplift.get());
        }
        Ok(())
    })
    .await?;
    let mut pairs: Vec<(f64, f64)> = Vec::with_capacity(observed.len());
    each_entry(store.as_ref(), scope, Some(EntryKind::Retrieval), |entry| {
        if let JournalEntry::Retrieval(record) = entry {
            let rollout = RolloutId::from_u128(record.id.as_u128());
            if let Some(&uplift) = observed.get(&rollout) {
                pairs.push((record.predicted_uplift.get(), uplift));
            }
        }
        Ok(())
    })
    .await?;
    if pairs.is_empty() {
        return Ok(CalibrationReport::default());
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (predicted, came): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| values.sum::<f64>() / count as f64;
    let bins = pairs
        .chunks(pairs.len().div_ceil(BINS))
        .map(|bin| CalibrationBin {
            predicted: mean(&mut bin.iter().map(|pair| pair.0), bin.len()),
            observed: mean(&mut bin.iter().map(|pair| pair.1), bin.len()),
            count: bin.len(),
        });
    Ok(CalibrationReport {
        pairs: pairs.len(),
        slope: calibration_slope(&predicted, &came)?,
        optimism: Some(optimism(&predicted, &came)?.mean),
        bins: bins.collect(),
    })
}
