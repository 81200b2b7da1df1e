//! "Does memory help?", from what was executed.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use upliftmem_core::{
    MemoryId, Observation, Purpose, TaskId,
    statistics::{Interval, Summary},
};
use upliftmem_store::{EntryKind, JournalEntry, Scope, Store, TicketFilter, TicketState};

use crate::{error::Result, journal::each_entry};

/// What executions with one memory say about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryEffect {
    /// The memory.
    pub id: MemoryId,
    /// Executions with it.
    pub executions: usize,
    /// Mean uplift of those, shrunk towards zero by one pseudo-observation.
    pub effect: f64,
    /// 95 % interval of the mean uplift.
    pub interval: Option<Interval>,
}

/// A mean with its interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// Number of pairs.
    pub pairs: usize,
    /// Mean difference.
    pub mean: f64,
    /// 95 % interval.
    pub interval: Option<Interval>,
}

/// Whether memory helps, and how sure that is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HelpReport {
    /// Ordinary retrievals against their references.
    pub retrievals: Option<Effect>,
    /// Probes against their references: what was paid to learn.
    pub probes: Option<Effect>,
    /// Share of ordinary retrievals that did worse than the reference.
    pub harmed: f64,
    /// Share of answered retrievals that advised no memory.
    pub abstained: Option<f64>,
    /// Two executions without memory of one task against each other: anything but zero is noise.
    pub control: Option<Effect>,
    /// Memories by what executions with them say, the most harmful first.
    pub memories: Vec<MemoryEffect>,
}

fn effect(differences: &[f64]) -> Result<Option<Effect>> {
    if differences.is_empty() {
        return Ok(None);
    }
    let summary = Summary::of(differences)?;
    Ok(Some(Effect {
        pairs: summary.count,
        mean: summary.mean,
        interval: summary.t_interval(0.95)?,
    }))
}

/// Reads everything that was executed in a scope.
pub async fn help_report(store: &Arc<dyn Store>, scope: &Scope) -> Result<HelpReport> {
    let mut observations: Vec<Observation> = Vec::new();
    let mut answered = (0_usize, 0_usize);
    for kind in [EntryKind::Observation, EntryKind::Retrieval] {
        each_entry(store.as_ref(), scope, Some(kind), |entry| {
            match entry {
                JournalEntry::Observation(seen) => observations.push(seen),
                JournalEntry::Retrieval(record) => {
                    answered.0 += 1;
                    answered.1 += usize::from(record.set.is_empty());
                }
                _ => {}
            }
            Ok(())
        })
        .await?;
    }
    let of = |purpose: Purpose| -> Vec<f64> {
        let some = observations.iter().filter(|seen| seen.purpose == purpose);
        some.map(|seen| seen.uplift.get()).collect()
    };
    let retrievals = of(Purpose::Retrieval);
    let harmed = retrievals.iter().filter(|&&uplift| uplift < 0.0).count();
    Ok(HelpReport {
        harmed: harmed as f64 / retrievals.len().max(1) as f64,
        retrievals: effect(&retrievals)?,
        probes: effect(&of(Purpose::Probe))?,
        abstained: (answered.0 > 0).then(|| answered.1 as f64 / answered.0 as f64),
        control: effect(&repeated_references(store, scope).await?)?,
        memories: effects(&observations)?,
    })
}

fn effects(observations: &[Observation]) -> Result<Vec<MemoryEffect>> {
    let mut uplifts: BTreeMap<MemoryId, Vec<f64>> = BTreeMap::new();
    for seen in observations {
        for &id in &seen.set {
            uplifts.entry(id).or_default().push(seen.uplift.get());
        }
    }
    let mut effects = Vec::with_capacity(uplifts.len());
    for (id, uplifts) in uplifts {
        let summary = Summary::of(&uplifts)?;
        effects.push(MemoryEffect {
            id,
            executions: uplifts.len(),
            effect: uplifts.iter().sum::<f64>() / (uplifts.len() + 1) as f64,
            interval: summary.t_interval(0.95)?,
        });
    }
    effects.sort_by(|a, b| a.effect.total_cmp(&b.effect).then(a.id.cmp(&b.id)));
    Ok(effects)
}

/// Differences of performance between executions without memory of the same task and executor, each with the next.
async fn repeated_references(store: &Arc<dyn Store>, scope: &Scope) -> Result<Vec<f64>> {
    let mut alone: BTreeMap<(TaskId, String), Vec<f64>> = BTreeMap::new();
    let mut after = None;
    loop {
        let filter = TicketFilter {
            state: Some(TicketState::Completed),
            purpose: None,
            after,
        };
        let page = store
            .list_tickets(scope, filter, store.limits().page_rows_max)
            .await?;
        let Some(last) = page.last() else { break };
        after = Some(last.rollout.id);
        for ticket in page.into_iter().filter(|ticket| ticket.rollout.set.is_empty()) {
            if let Some(stored) = store.report(scope, ticket.rollout.id).await? {
                let key = (ticket.rollout.task, ticket.rollout.executor);
                let performance = stored.report.outcome.performance.get();
                alone.entry(key).or_default().push(performance);
            }
        }
    }
    Ok(alone
        .values()
        .flat_map(|seen| seen.windows(2).map(|pair| pair[1] - pair[0]))
        .collect())
}
