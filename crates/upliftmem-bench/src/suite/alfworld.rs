//! ALFWorld as a suite: the paper's partition, the scripted player, lessons of plays.

mod examples;
mod lessons;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use upliftmem_agent::{
    ExecutionRequest, Turn,
    prompts::{ActStyle, Domain},
};
use upliftmem_core::Task;
use upliftmem_engine::UtilitySettings;

use super::{
    Acting, Experience, Lesson, Part, Partition, Suite,
    agents::{Actor, Role, ScriptedAgent},
};
use crate::{
    alfworld::{ACTIONS_MAX, Alfworld, Game, LoadError, Player, Split, View, visit_games},
    protocol::Sizes,
};

/// Which training games are taken does not depend on a run's seed: the partition is part of the benchmark.
const PARTITION_SEED: u64 = 42;

const ROLE: Role = Role {
    style: ActStyle::Alfworld,
    scripted_name: "alfworld:scripted-1",
    scripted_title: "scripted player",
    scripted: player,
    actions_max: ACTIONS_MAX,
    failure_costs_all: true,
};

/// ALFWorld, with the scripted player unless another is to act.
pub struct AlfworldSuite {
    environment: Alfworld,
    actor: Actor,
    /// What a model is shown, by kind of task.
    examples: BTreeMap<String, String>,
    partition: Partition,
}

fn player(request: &ExecutionRequest) -> Box<dyn ScriptedAgent> {
    let texts = request.memories.iter().map(|memory| memory.text.as_str());
    Box::new(Player::new(texts, request.seed))
}

impl ScriptedAgent for Player {
    fn act(&mut self, turn: &Turn) -> Option<String> {
        Self::act(
            self,
            View {
                observation: &turn.observation,
                admissible: turn.actions.as_deref().unwrap_or_default(),
            },
        )
    }
}

impl AlfworldSuite {
    /// Reads the games, a folder or an archive, and parts them: seed and runtime tasks from the training games by lot, the
    /// evaluation from the official validation splits, validation from the official sample of training games, without
    /// those that are learned from.
    ///
    /// # Errors
    /// The collection can not be read.
    pub fn load(collection: &Path, sizes: &Sizes) -> Result<Self, LoadError> {
        let mut names: BTreeMap<Split, Vec<String>> = BTreeMap::new();
        // Which games are needed is known when all names are, and reading a game takes longer than skipping it.
        let list = |name: &str| {
            if let Some(split) = Split::of(name) {
                names.entry(split).or_default().push(name.to_owned());
            }
            false
        };
        visit_games(collection, list, |_| ())?;
        let mut names_of = |split: Split| {
            let mut list = names.remove(&split).unwrap_or_default();
            list.sort_unstable();
            list
        };
        let mut train = names_of(Split::Train);
        train.shuffle(&mut ChaCha8Rng::seed_from_u64(PARTITION_SEED));
        train.truncate(sizes.seed + sizes.runtime);
        let learned: BTreeSet<&str> = train.iter().map(|name| play_of(name)).collect();
        let mut validation = names_of(Split::ValidTrain);
        validation.retain(|name| !learned.contains(play_of(name)));
        let mut parts = Vec::new();
        for (split, name) in [(Split::ValidSeen, "seen"), (Split::ValidUnseen, "unseen")] {
            let mut list = names_of(split);
            list.truncate(sizes.evaluation.unwrap_or(usize::MAX));
            parts.push((name, list));
        }
        let needed: BTreeSet<&String> = train
            .iter()
            .chain(&validation)
            .chain(parts.iter().flat_map(|(_, list)| list))
            .collect();
        let mut games: BTreeMap<String, Game> = BTreeMap::new();
        let keep = |game: Game| {
            games.insert(game.name().to_owned(), game);
        };
        visit_games(collection, |name| needed.contains(&name.to_owned()), keep)?;
        let mut hash = Sha256::new();
        for (name, game) in &games {
            hash.update(name.as_bytes());
            hash.update(game.start().opening().observation.as_bytes());
        }
        let task = |name: &String| games.get(name).map(|game| task_of(name, game));
        let tasks = |names: &[String]| names.iter().filter_map(task).collect::<Vec<Task>>();
        let (seed, runtime) = train.split_at(sizes.seed.min(train.len()));
        let partition = Partition {
            seed: tasks(seed),
            runtime: tasks(runtime),
            validation: tasks(&validation),
            evaluation: parts
                .into_iter()
                .map(|(name, list)| Part {
                    name: name.to_owned(),
                    tasks: tasks(&list),
                })
                .collect(),
            digest: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let environment = Alfworld::new(games.into_values());
        Ok(Self {
            actor: Actor::scripted(ROLE, environment.clone()),
            environment,
            examples: examples::read(collection)?,
            partition,
        })
    }

    /// The same with someone else to act, or another place to act in.
    ///
    /// # Errors
    /// What a model does can not be kept.
    pub fn acted_by(mut self, acting: Acting) -> std::io::Result<Self> {
        let examples = self.examples.clone();
        self.actor = Actor::new(ROLE, self.environment.clone(), acting, examples)?;
        Ok(self)
    }
}

/// `task/trial` of `split/task/trial`: games of the sample of training games are training games under another name.
fn play_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, play)| play)
}

/// A game as a task. Its context is what a player is told at the start, the task first: sentence, then room.
fn task_of(name: &str, game: &Game) -> Task {
    let opening = game.start().opening().observation;
    let room = opening
        .split_once("you see ")
        .and_then(|(_, rest)| rest.split_once('.'))
        .map_or("", |(list, _)| list);
    let mut kinds: Vec<&str> = room
        .split(',')
        .map(|item| item.trim().trim_start_matches("and ").trim_start_matches("a "))
        .filter_map(|item| item.rsplit_once(' ').map(|(kind, _)| kind))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut task = Task::new(
        name,
        format!("{} In the room: {}.", game.task(), kinds.join(", ")),
    );
    if let Some(kind) = examples::kind_of(name) {
        task.metadata.insert("task_type".into(), kind.into());
    }
    task
}

impl Suite for AlfworldSuite {
    fn name(&self) -> &'static str {
        "alfworld"
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }

    fn domain(&self) -> Domain {
        Domain::Alfworld
    }

    fn partition(&self) -> &Partition {
        &self.partition
    }

    fn utility(&self) -> UtilitySettings {
        UtilitySettings {
            cost_max: ACTIONS_MAX as f64,
            ..UtilitySettings::default()
        }
    }

    fn memories_max(&self) -> usize {
        5
    }

    fn member_cost(&self) -> f64 {
        0.02
    }

    fn lessons(&self, experience: &Experience) -> Vec<Lesson> {
        lessons::lessons(experience)
    }

    fn transcript(&self, experience: &Experience) -> Option<String> {
        Some(lessons::transcript(experience))
    }
}
