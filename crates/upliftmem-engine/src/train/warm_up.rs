//! Bootstrap and warm-up: first sets of seed tasks, and the first version.

use std::collections::BTreeSet;

use rand::{Rng, RngExt};
use serde_json::json;
use upliftmem_core::{MemorySet, Purpose, SearchSpace};

use super::run::Running;
use crate::{
    error::Result,
    scoring::sample,
    texts::{KnownTask, Offer},
};

impl Running<'_> {
    /// First sets of seed tasks, and the first version. Paper: Bootstrap and value-only warm-up.
    pub(super) async fn warm_up(&mut self) -> Result<bool> {
        let tasks = self.trainer.seed_tasks.clone();
        let known = self.trainer.texts.tasks(&tasks).await?;
        let offers = self.recall_all(&known).await?;
        let executor = self.trainer.rollouts.executor.name();
        let mut wanted = Vec::new();
        for ((place, task), offer) in (0..).zip(&known).zip(&offers) {
            let id = task.task.id;
            wanted.extend(self.missing_reference(id));
            let mut rng = self.seeds.rng("bootstrap", place);
            for index in 0..self.trainer.settings.training.bootstrap_sets as u64 {
                let set = self.first_set(task, offer, &mut rng)?;
                if !set.is_empty() {
                    wanted.push(
                        self.seeds
                            .rollout(Purpose::Retrieval, (place, index), executor, id, &set),
                    );
                }
            }
        }
        let mut seen = BTreeSet::new();
        wanted.retain(|rollout| seen.insert(rollout.id));
        let affordable = self.affordable(&wanted);
        let complete = affordable == wanted.len();
        wanted.truncate(affordable);
        let settled = self.settle("warm-up", &wanted).await?;
        let mut entries = self.labels(&wanted, &settled)?;
        if !complete {
            self.commit(entries).await?;
            return Ok(false);
        }
        let done = self
            .state
            .event("warm-up", "warm-up", json!({ "tasks": tasks.len() }));
        if entries.is_empty() && self.state.labels.is_empty() {
            entries.push(done);
            self.commit(entries).await?;
            return Ok(true);
        }
        self.commit(entries).await?;
        self.update(None, vec![done]).await?;
        Ok(true)
    }

    /// What a scorer that knows of no label would like to try, or any candidates where sampling does not explore: then all
    /// sets are worth nothing to it.
    fn first_set(&self, task: &KnownTask, offer: &Offer, rng: &mut impl Rng) -> Result<MemorySet> {
        let settings = &self.trainer.settings.retrieval;
        if settings.exploration > 0.0 {
            let bound = self.scorer.bind(task.input(), &offer.inputs())?;
            let path = sample(bound.as_ref(), &offer.pool, settings, settings.policy()?, rng)?;
            if !path.terminal.is_empty() {
                return Ok(path.terminal);
            }
        }
        Ok(self.random_set(offer, rng))
    }

    fn random_set(&self, offer: &Offer, rng: &mut impl Rng) -> MemorySet {
        let candidates = offer.pool.candidates();
        let settings = &self.trainer.settings;
        let most = settings
            .training
            .bootstrap_members_max
            .min(settings.retrieval.memories_max)
            .min(candidates.len());
        if most == 0 {
            return MemorySet::EMPTY;
        }
        let size = rng.random_range(1..=most);
        let space = SearchSpace::new(&offer.pool, settings.retrieval.limits());
        let mut set = MemorySet::EMPTY;
        for _ in 0..size {
            let larger = set.with(candidates[rng.random_range(0..candidates.len())].id);
            if space.check(&larger).is_ok() {
                set = larger;
            }
        }
        set
    }
}
