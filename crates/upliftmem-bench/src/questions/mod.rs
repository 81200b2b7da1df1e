//! A world of questions for a real language model.
//!
//! Some questions ask for common knowledge, which a small model has: there a memory can only do harm. Others ask for facts
//! that are written nowhere but in memories, of which some are right, some outdated, some simply wrong; nothing in a wrong
//! one says so. A third kind needs two memories together. Every fact is asked for in several ways: some of them are there
//! to learn from, the others are held out.

mod facts;
mod remembered;

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use upliftmem_core::{Memory, MemoryId, Task};

pub use remembered::{RealWork, RememberingExecutor};

use facts::{KEEPERS, KINDS, Kind, OBJECTS, ROOMS};

/// Statement, two questions, the answer, three wrong ones; a line each, separated by tabs.
const COMMON: &str = include_str!("common.tsv");
/// Choices of a question.
const CHOICES: usize = 4;

/// Questions, and memories that may help with them.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionWorld {
    /// In creation order.
    pub memories: Vec<Memory>,
    /// Questions to learn from.
    pub train: Vec<Task>,
    /// The same facts, asked for in other words.
    pub test: Vec<Task>,
}

/// How many facts of each sort there are; `full` has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionWorldSize {
    /// Facts of each kind of private fact, at most 10.
    pub private: usize,
    /// Facts that need two memories, at most 15.
    pub pairs: usize,
    /// Facts of common knowledge, at most 60.
    pub common: usize,
}

impl QuestionWorldSize {
    /// 180 private questions, 30 that need two memories, 120 of common knowledge.
    pub const FULL: Self = Self {
        private: 10,
        pairs: 15,
        common: 60,
    };
    /// A few minutes' worth.
    pub const SMALL: Self = Self {
        private: 4,
        pairs: 4,
        common: 20,
    };
}

/// Builds a world.
struct Builder {
    rng: ChaCha8Rng,
    texts: Vec<(String, &'static str)>,
    train: Vec<Task>,
    test: Vec<Task>,
}

impl QuestionWorld {
    /// The world of a seed: which value is true, which memories there are, in which order they were written.
    pub fn generate(size: QuestionWorldSize, seed: u64) -> Self {
        let mut builder = Builder {
            rng: ChaCha8Rng::seed_from_u64(seed),
            texts: Vec::new(),
            train: Vec::new(),
            test: Vec::new(),
        };
        for (number, kind) in KINDS.iter().enumerate() {
            builder.private(number, kind, size.private.min(kind.subjects.len()));
        }
        builder.pairs(size.pairs.min(OBJECTS.len()));
        builder.common(size.common);
        builder.finish()
    }

    /// How many questions of each sort there are, train and test together.
    pub fn sorts(&self) -> BTreeMap<String, usize> {
        let mut sorts = BTreeMap::new();
        for task in self.train.iter().chain(&self.test) {
            *sorts.entry(sort_of(task).to_owned()).or_default() += 1;
        }
        sorts
    }
}

/// `private`, `pair` or `common`.
pub fn sort_of(task: &Task) -> &str {
    task.metadata
        .get("sort")
        .and_then(|sort| sort.as_str())
        .unwrap_or_default()
}

impl Builder {
    fn private(&mut self, number: usize, kind: &Kind, facts: usize) {
        let mut values = kind.values.to_vec();
        for (place, subject) in kind.subjects.iter().take(facts).enumerate() {
            values.shuffle(&mut self.rng);
            let (truth, wrong) = (values[0], &values[1..CHOICES]);
            let say = |pattern: &str, value: &str| pattern.replace("{s}", subject).replace("{v}", value);
            self.texts.push((capital(&say(kind.states, truth)), "right"));
            // One fact in three has no false memory, one an outdated one, one a false one that looks like the right one.
            match place % 3 {
                1 => self
                    .texts
                    .push((capital(&say(kind.stated, wrong[0])), "outdated")),
                2 => self.texts.push((capital(&say(kind.states, wrong[0])), "wrong")),
                _ => {}
            }
            if place % 2 == 0 {
                self.texts.push((capital(&say(kind.aside, "")), "irrelevant"));
            }
            for (way, pattern) in kind.asks.iter().enumerate() {
                let name = format!("private-{number}-{place}-{way}");
                let question = capital(&say(pattern, ""));
                let mut task = self.task(name, question, "private", truth, wrong);
                // Whoever asked knows better, and says so.
                let correction = format!("The customer says: {}", capital(&say(kind.states, truth)));
                task.metadata.insert("feedback".into(), json!(correction));
                if way == 2 {
                    self.test.push(task);
                } else {
                    self.train.push(task);
                }
            }
        }
    }

    fn pairs(&mut self, count: usize) {
        for (place, object) in OBJECTS.iter().take(count).enumerate() {
            let (mut rooms, mut keepers) = (ROOMS.to_vec(), KEEPERS.to_vec());
            rooms.shuffle(&mut self.rng);
            keepers.shuffle(&mut self.rng);
            let here = self.rng.random_range(0..2);
            let (truth, other) = (keepers[here], keepers[1 - here]);
            self.texts
                .push((format!("The {object} is in the {}.", rooms[here]), "half"));
            self.texts.push((
                format!(
                    "For the {object} ask {} if it is in the {}, and {} if it is in the {}.",
                    keepers[0], rooms[0], keepers[1], rooms[1]
                ),
                "half",
            ));
            let wrong = [other, keepers[2], keepers[3]];
            let asks = [
                format!("Whom do I ask for the {object}?"),
                format!("Who can give me the {object}?"),
            ];
            for (way, question) in asks.into_iter().enumerate() {
                let task = self.task(format!("pair-{place}-{way}"), question, "pair", truth, &wrong);
                if way == 1 {
                    self.test.push(task);
                } else {
                    self.train.push(task);
                }
            }
        }
    }

    fn common(&mut self, count: usize) {
        for (place, line) in COMMON.lines().take(count).enumerate() {
            let parts: Vec<&str> = line.split('\t').collect();
            let [states, first, second, truth, wrong @ ..] = parts.as_slice() else {
                continue;
            };
            let pick = self.rng.random_range(0..wrong.len());
            self.texts.push((states.replace("{}", wrong[pick]), "wrong"));
            if place % 3 == 0 {
                self.texts.push((states.replace("{}", truth), "right"));
            }
            for (way, question) in [first, second].into_iter().enumerate() {
                let name = format!("common-{place}-{way}");
                let task = self.task(name, (*question).to_owned(), "common", truth, wrong);
                if way == 1 {
                    self.test.push(task);
                } else {
                    self.train.push(task);
                }
            }
        }
    }

    fn task(&mut self, name: String, question: String, sort: &str, truth: &str, wrong: &[&str]) -> Task {
        let mut choices: Vec<&str> = std::iter::once(truth).chain(wrong.iter().copied()).collect();
        choices.truncate(CHOICES);
        choices.shuffle(&mut self.rng);
        let mut task = Task::new(name, question);
        task.metadata.insert("answer".into(), json!(truth));
        task.metadata.insert("choices".into(), json!(choices));
        task.metadata.insert("sort".into(), json!(sort));
        task
    }

    fn finish(mut self) -> QuestionWorld {
        self.texts.shuffle(&mut self.rng);
        self.train.shuffle(&mut self.rng);
        let memories = (1_u128..).zip(self.texts).map(|(id, (text, truth))| {
            let tokens = u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX);
            let mut metadata = serde_json::Map::new();
            metadata.insert("truth".into(), json!(truth));
            Memory {
                id: MemoryId::from_u128(id),
                text,
                tokens,
                source_task: None,
                metadata,
            }
        });
        QuestionWorld {
            memories: memories.collect(),
            train: self.train,
            test: self.test,
        }
    }
}

/// A sentence begins with a capital letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_full_world_has_what_it_promises() {
        let world = QuestionWorld::generate(QuestionWorldSize::FULL, 1);
        let sorts = world.sorts();
        assert_eq!((sorts["private"], sorts["pair"], sorts["common"]), (180, 30, 120));
        for truth in ["right", "outdated", "wrong", "irrelevant", "half"] {
            let count = world
                .memories
                .iter()
                .filter(|memory| memory.metadata["truth"] == truth)
                .count();
            assert!(count >= 10, "{count} memories are {truth}");
        }
    }

    #[test]
    fn every_question_has_four_different_choices_with_the_answer_among_them() {
        let world = QuestionWorld::generate(QuestionWorldSize::FULL, 2);
        let mut names = BTreeSet::new();
        for task in world.train.iter().chain(&world.test) {
            let choices: BTreeSet<&str> = task.metadata["choices"]
                .as_array()
                .unwrap()
                .iter()
                .map(|choice| choice.as_str().unwrap())
                .collect();
            assert_eq!(choices.len(), CHOICES, "{}", task.context);
            assert!(choices.contains(task.metadata["answer"].as_str().unwrap()));
            assert!(names.insert(task.name.clone()), "{} twice", task.name);
            assert!(!task.context.contains('{'), "{}", task.context);
        }
        assert!(world.memories.iter().all(|memory| !memory.text.contains('{')));
    }

    #[test]
    fn a_question_does_not_hold_its_answer_and_no_test_question_is_learned_from() {
        let world = QuestionWorld::generate(QuestionWorldSize::FULL, 3);
        let learned: BTreeSet<&str> = world.train.iter().map(|task| task.context.as_str()).collect();
        for task in &world.test {
            assert!(!learned.contains(task.context.as_str()), "{}", task.context);
            let answer = task.metadata["answer"].as_str().unwrap();
            assert!(!task.context.contains(&format!(" {answer}")), "{}", task.context);
        }
    }

    #[test]
    fn the_same_seed_is_the_same_world() {
        let world = |seed| QuestionWorld::generate(QuestionWorldSize::SMALL, seed);
        assert_eq!(world(5), world(5));
        assert_ne!(world(5), world(6));
    }
}
