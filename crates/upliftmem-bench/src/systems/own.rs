//! Stores that belong to one task each: any system, built once for every task from what the task brings along.

use std::collections::{BTreeMap, BTreeSet};

use upliftmem_core::{Task, TaskId};

use super::{MemorySystem, Query, Sources, SystemName, shared};
use crate::protocol::{Error, Result};

pub(super) struct OwnStores {
    texts: Vec<String>,
    stores: BTreeMap<TaskId, Store>,
}

struct Store {
    system: Box<dyn MemorySystem>,
    /// Where its texts stand among all: dialogues have turns in common, and a text is there once.
    places: Vec<usize>,
}

impl OwnStores {
    /// A store for every task of the suite.
    pub(super) async fn build(name: SystemName, sources: Sources<'_>) -> Result<Self> {
        let suite = sources.suite;
        let evaluation = suite.evaluation().iter().flat_map(|part| &part.tasks);
        let tasks: BTreeMap<TaskId, &Task> = suite
            .runtime_tasks()
            .iter()
            .chain(suite.validation_tasks())
            .chain(evaluation)
            .map(|task| (task.id, task))
            .collect();
        let mut all = Self {
            texts: Vec::new(),
            stores: BTreeMap::new(),
        };
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for (id, task) in tasks {
            let experiences = suite.own_experiences(task);
            let own = Sources {
                experiences: &experiences,
                ..sources
            };
            let system = shared(name, own).await?;
            if system.learns() {
                return Err(Error::Input(format!(
                    "{} learns from what became of its memories, and in {} every task has memories of its own",
                    name.title(),
                    suite.name()
                )));
            }
            let mut places = Vec::with_capacity(system.memories().len());
            for text in system.memories() {
                let place = *known.entry(text.clone()).or_insert(all.texts.len());
                if place == all.texts.len() {
                    all.texts.push(text.clone());
                }
                places.push(place);
            }
            all.stores.insert(id, Store { system, places });
        }
        Ok(all)
    }
}

impl MemorySystem for OwnStores {
    fn memories(&self) -> &[String] {
        &self.texts
    }

    fn own(&self) -> BTreeMap<TaskId, Vec<usize>> {
        let own = self.stores.iter();
        own.map(|(task, store)| (*task, once(store.places.iter().copied())))
            .collect()
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        let Some(store) = self.stores.get(&query.task.id) else {
            return Vec::new();
        };
        let found = store.system.retrieve(query, count);
        once(found.into_iter().map(|place| store.places[place]))
    }
}

/// The places in their order, each once: a dialogue may say the same twice.
fn once(places: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    places.filter(|&place| seen.insert(place)).collect()
}
