//! Acquisition: a batch of probes for the window since the last one.

use rand::RngExt;
use serde_json::{Map, Value, json};
use upliftmem_core::{Purpose, Rollout};
use upliftmem_store::{EntryKind, JournalEntry, ProbeBatchRecord, ProbeRecord};

use super::run::Running;
use crate::{
    acquire::{Plan, Scene, plan},
    error::Result,
    scoring::scorer_label,
};

impl Running<'_> {
    /// The window with all that deciding about it needs.
    async fn scenes(&self) -> Result<Vec<Scene>> {
        let mut scenes = Vec::with_capacity(self.state.window.len());
        for entry in &self.state.window {
            let Some(task) = self.tasks.get(&entry.task) else {
                continue;
            };
            let task = self
                .trainer
                .texts
                .tasks(std::slice::from_ref(task))
                .await?
                .remove(0);
            let ids: Vec<_> = entry
                .pool
                .candidates()
                .iter()
                .map(|candidate| candidate.id)
                .collect();
            let memories = self.trainer.texts.memories(&ids).await?;
            if memories.len() == ids.len() {
                scenes.push(Scene {
                    entry: entry.clone(),
                    task,
                    memories,
                });
            }
        }
        Ok(scenes)
    }

    /// Buys a batch of probes. Paper: SelectProbes and ObserveProbes.
    pub(super) async fn acquire(&mut self, count: u64) -> Result<bool> {
        let trainer = self.trainer;
        let id = self.seeds.batch(count);
        let stored = trainer
            .store
            .entry(&trainer.scope, EntryKind::ProbeBatch, &id.to_string())
            .await?;
        let record = match stored.map(|stored| stored.entry) {
            Some(JournalEntry::ProbeBatch(record)) => record,
            _ => {
                let record = self.plan_batch(count).await?;
                self.commit(vec![JournalEntry::ProbeBatch(record.clone())])
                    .await?;
                record
            }
        };
        let executor = trainer.rollouts.executor.name();
        let mut wanted: Vec<Rollout> = (0..)
            .zip(&record.probes)
            .map(|(index, probe)| {
                self.seeds
                    .rollout(Purpose::Probe, (count, index), executor, probe.task, &probe.set)
            })
            .collect();
        // A batch is planned whole and bought in the order of its picks: what a budget cuts off is bought by a larger
        // one.
        let affordable = self.affordable(&wanted);
        let complete = affordable == wanted.len();
        wanted.truncate(affordable);
        let settled = self.settle("probes", &wanted).await?;
        let mut entries = self.labels(&wanted, &settled)?;
        if !complete {
            self.commit(entries).await?;
            return Ok(false);
        }
        entries.push(self.state.event(
            &format!("acquire/{count}"),
            "acquire",
            json!({ "count": count, "probes": wanted.len() }),
        ));
        self.commit(entries).await?;
        Ok(true)
    }

    async fn plan_batch(&mut self, count: u64) -> Result<ProbeBatchRecord> {
        let settings = &self.trainer.settings;
        let scenes = self.scenes().await?;
        let mut rng = self.seeds.rng("acquire", count);
        let seed = rng.random();
        let plan = plan(
            self.scorer.as_ref(),
            &scenes,
            &settings.retrieval,
            &settings.acquisition,
            settings.acquisition.probe_budget,
            &mut rng,
        )?;
        let executor = self.trainer.rollouts.executor.name();
        let probes = (0..).zip(&plan.chosen).map(|(index, chosen)| ProbeRecord {
            rollout: self
                .seeds
                .rollout(Purpose::Probe, (count, index), executor, chosen.task, &chosen.set)
                .id,
            task: chosen.task,
            set: chosen.set.clone(),
            marginal_value: chosen.pick.marginal_value,
        });
        Ok(ProbeBatchRecord {
            id: self.seeds.batch(count),
            strategy: settings.acquisition.strategy.name().to_owned(),
            scorer: scorer_label(&self.scorer),
            seed,
            probes: probes.collect(),
            decision: decision(&plan),
        })
    }
}

/// What a batch's record says of how it was chosen.
fn decision(plan: &Plan) -> Map<String, Value> {
    let mut decision = Map::new();
    decision.insert("pool".into(), json!(plan.pool));
    decision.insert("capped".into(), json!(plan.capped));
    decision.insert("comparisons".into(), json!(plan.comparisons));
    decision.insert("batch_value".into(), json!(plan.batch_value));
    decision.insert("residual_share".into(), json!(plan.residual_share));
    decision.insert(
        "picks".into(),
        plan.chosen
            .iter()
            .map(|chosen| json!({ "incumbent": chosen.incumbent, "pick": chosen.pick }))
            .collect(),
    );
    decision
}
