//! Puts a world together: families of tasks, the memories about them, then texts and ids.

use std::{collections::BTreeMap, ops::RangeInclusive};

use rand::{Rng, RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{IdSequence, Memory, MemoryId, Result, Task, UtilityRule};

use super::{
    World, WorldKind,
    execution::STEPS_MAX,
    plan::{KNOWN, MASTERED, Plan, UNKNOWN},
    prose::{self, Leaning, Place, Voice},
    truth::{Effect, FactId, Grading, MemoryTruth, Need, ProcedureId, Route, Strategy, TaskTruth},
    words::TOPICS,
};

/// A fact and the thing it is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fact {
    pub(super) id: FactId,
    object: &'static str,
}

/// A need of every task of a family, before the task's own variation.
#[derive(Debug, Clone, Copy)]
pub(super) struct FamilyNeed {
    fact: Fact,
    own: f64,
}

/// A route of every task of a family.
#[derive(Debug, Clone)]
pub(super) struct FamilyRoute {
    pub(super) procedure: Option<ProcedureId>,
    pub(super) needs: Vec<FamilyNeed>,
}

/// Tasks that turn on the same facts.
struct Family {
    /// Routes in each era; the last holds from then on.
    eras: Vec<Vec<FamilyRoute>>,
    strategy: Strategy,
    grading: Grading,
}

/// A memory before it has an id.
struct Draft {
    text: String,
    effects: Vec<Effect>,
    /// Memories of a later time get later ids.
    time: u8,
}

/// A world in the making.
pub(super) struct Builder {
    rng: ChaCha8Rng,
    /// The jobs that the family in the making is about.
    places: Vec<Place>,
    /// Whether it is one that the agent solves alone.
    solved_alone: bool,
    facts: FactId,
    procedures: ProcedureId,
    /// One fact for each place that asked for it.
    habits: BTreeMap<Place, Fact>,
    families: Vec<Family>,
    /// Every job, with the family whose rules it goes by.
    jobs: Vec<(Place, usize)>,
    drafts: Vec<Draft>,
}

impl Builder {
    /// Builds a world: `family` is called once for every group of jobs that go by the same rules, and adds a family.
    pub(super) fn build(
        kind: WorldKind,
        seed: u64,
        plan: &Plan,
        family: fn(&mut Self, Place),
    ) -> Result<World> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(kind as u64);
        let mut builder = Self {
            rng,
            places: Vec::new(),
            solved_alone: false,
            facts: 0,
            procedures: 0,
            habits: BTreeMap::new(),
            families: Vec::new(),
            jobs: Vec::new(),
            drafts: Vec::new(),
        };
        let groups = builder.groups(plan);
        // As near to this share of the jobs as whole groups allow.
        let mut alone_left = plan.solved_alone * (3 * plan.topics) as f64;
        for places in groups {
            let size = places.len() as f64;
            builder.solved_alone = alone_left >= 0.5 * size;
            alone_left -= if builder.solved_alone { size } else { 0.0 };
            let first = places[0];
            builder.places = places;
            family(&mut builder, first);
            if builder.is_whole_topic() {
                // One family instead of three: the shelf is as long all the same.
                builder.neutral(first, 10);
            }
        }
        builder.finish(kind, seed, plan)
    }

    /// Jobs that go by the same rules: whole topics, or one kind of job; in random order.
    fn groups(&mut self, plan: &Plan) -> Vec<Vec<Place>> {
        let mut topics: Vec<usize> = (0..TOPICS.len()).collect();
        topics.shuffle(&mut self.rng);
        topics.truncate(plan.topics);
        let split = (plan.split * plan.topics as f64).round() as usize;
        let mut groups = Vec::new();
        for (number, topic) in topics.into_iter().enumerate() {
            let places = (0..3).map(|kind| Place { topic, kind });
            if number < split {
                groups.extend(places.map(|place| vec![place]));
            } else {
                groups.push(places.collect());
            }
        }
        groups.shuffle(&mut self.rng);
        groups
    }

    fn finish(mut self, kind: WorldKind, seed: u64, plan: &Plan) -> Result<World> {
        let (memories, memory_truths) = self.mint();
        let mut task_truths = BTreeMap::new();
        let name = kind.name();
        let mut tasks = |split: &str, count: usize, change_at: Option<usize>| -> Vec<Task> {
            (0..count)
                .map(|number| {
                    let era = usize::from(change_at.is_some_and(|change| number >= change));
                    let (context, truth) = self.task(era);
                    let task = Task::new(format!("{name}-{seed}-{split}-{number:04}"), context);
                    task_truths.insert(task.id, truth);
                    task
                })
                .collect()
        };
        let train = tasks("train", plan.train_tasks, plan.change_at);
        let test = tasks("test", plan.test_tasks, plan.change_at.map(|_| 0));
        Ok(World {
            kind,
            seed,
            memories,
            train,
            test,
            memory_truths,
            task_truths,
            habits: plan.habits,
            utility_rule: UtilityRule::new(0.2, 1.0, STEPS_MAX)?,
        })
    }

    /// Gives the memories their ids, in an order that says nothing but what is older.
    fn mint(&mut self) -> (Vec<Memory>, BTreeMap<MemoryId, MemoryTruth>) {
        let mut drafts = std::mem::take(&mut self.drafts);
        drafts.shuffle(&mut self.rng);
        drafts.sort_by_key(|draft| draft.time);
        let mut ids = IdSequence::default();
        let mut memories = Vec::with_capacity(drafts.len());
        let mut truths = BTreeMap::new();
        for (draft, millis) in drafts.into_iter().zip((1_700_000_000_000_u64..).step_by(60_000)) {
            let id = MemoryId::from_u128(ids.mint(millis, &mut self.rng));
            let tokens = prose::tokens(&draft.text);
            truths.insert(
                id,
                MemoryTruth {
                    effects: draft.effects,
                    tokens: f64::from(tokens),
                },
            );
            memories.push(Memory {
                id,
                text: draft.text,
                tokens,
                source_task: None,
                metadata: Default::default(),
            });
        }
        (memories, truths)
    }

    /// A task of some family, with a variation of its own.
    fn task(&mut self, era: usize) -> (String, TaskTruth) {
        let (place, family) = self.jobs[self.rng.random_range(0..self.jobs.len())];
        let family = &self.families[family];
        let routes = &family.eras[era.min(family.eras.len() - 1)];
        let first = &routes[0].needs;
        let object = self
            .rng
            .random_bool(0.6)
            .then(|| first[self.rng.random_range(0..first.len())].fact.object);
        let context = prose::task(&mut self.rng, place, object);
        let rng = &mut self.rng;
        let routes = routes
            .iter()
            .map(|route| Route {
                procedure: route.procedure,
                needs: route
                    .needs
                    .iter()
                    .map(|need| Need {
                        fact: need.fact.id,
                        own: vary(rng, need.own),
                    })
                    .collect(),
            })
            .collect();
        let truth = TaskTruth {
            routes,
            strategy: family.strategy,
            grading: family.grading,
            luck: rng.random_range(0.93..=0.99),
            steps: f64::from(rng.random_range(6..=14_u8)),
        };
        (context, truth)
    }

    /// A new fact about something at this place.
    pub(super) fn fact(&mut self, place: Place) -> Fact {
        self.facts += 1;
        Fact {
            id: self.facts,
            object: place.object(&mut self.rng),
        }
    }

    /// The fact that a place is known for, the same whoever asks.
    pub(super) fn habit(&mut self, place: Place) -> Fact {
        if let Some(&fact) = self.habits.get(&place) {
            return fact;
        }
        let fact = self.fact(place);
        self.habits.insert(place, fact);
        fact
    }

    /// A new procedure.
    pub(super) fn procedure(&mut self) -> ProcedureId {
        self.procedures += 1;
        self.procedures
    }

    /// A number from a range.
    pub(super) fn between(&mut self, range: RangeInclusive<f64>) -> f64 {
        self.rng.random_range(range)
    }

    /// True this often.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    /// A whole number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end)
    }

    /// A need that the agent usually masters.
    pub(super) fn known(&mut self, fact: Fact) -> FamilyNeed {
        let range = if self.solved_alone { MASTERED } else { KNOWN };
        self.need(fact, range)
    }

    /// A need that the agent seldom masters, unless it solves this family alone.
    pub(super) fn unknown(&mut self, fact: Fact) -> FamilyNeed {
        let range = if self.solved_alone { MASTERED } else { UNKNOWN };
        self.need(fact, range)
    }

    /// A need that the agent masters this well.
    pub(super) fn need(&mut self, fact: Fact, own: RangeInclusive<f64>) -> FamilyNeed {
        let own = self.between(own);
        FamilyNeed { fact, own }
    }

    /// Whether the family in the making is solved alone.
    pub(super) const fn is_solved_alone(&self) -> bool {
        self.solved_alone
    }

    /// Whether it is about a whole topic.
    pub(super) fn is_whole_topic(&self) -> bool {
        self.places.len() > 1
    }

    /// Adds a family with one route that needs everything.
    pub(super) fn family(&mut self, needs: Vec<FamilyNeed>) {
        let route = FamilyRoute {
            procedure: None,
            needs,
        };
        self.family_with(vec![vec![route]], Strategy::Commit, Grading::All);
    }

    /// Adds a family of any shape.
    pub(super) fn family_with(&mut self, eras: Vec<Vec<FamilyRoute>>, strategy: Strategy, grading: Grading) {
        let number = self.families.len();
        self.jobs.extend(self.places.iter().map(|&place| (place, number)));
        self.families.push(Family {
            eras,
            strategy,
            grading,
        });
    }

    /// Adds a memory about a fact.
    pub(super) fn memory(&mut self, place: Place, about: Fact, voice: Voice, effects: Vec<Effect>) {
        self.memory_at(place, about, voice, effects, 0);
    }

    /// Adds a memory of a certain time.
    pub(super) fn memory_at(
        &mut self,
        place: Place,
        about: Fact,
        voice: Voice,
        effects: Vec<Effect>,
        time: u8,
    ) {
        let place = self.one_of(place);
        // Now and then a memory talks about something else than what it turns on.
        let object = if self.rng.random_bool(0.75) {
            about.object
        } else {
            place.object(&mut self.rng)
        };
        let text = prose::memory(&mut self.rng, place, object, voice, leaning(&effects));
        self.drafts.push(Draft { text, effects, time });
    }

    /// Adds two memories that differ in hardly more than one word, the second written later.
    pub(super) fn versions(&mut self, place: Place, about: Fact, effects: [Vec<Effect>; 2]) {
        let text = prose::memory(
            &mut self.rng,
            place,
            about.object,
            Voice::Everyday,
            Leaning::Neither,
        );
        let [older, newer] = effects;
        let marks = [
            "by the blue sheet",
            "by the green sheet",
            "by the white sheet",
            "by the red sheet",
        ];
        let first = self.rng.random_range(0..marks.len());
        let second = (first + 1 + self.rng.random_range(0..marks.len() - 1)) % marks.len();
        for (effects, mark, time) in [(older, marks[first], 0), (newer, marks[second], 1)] {
            self.drafts.push(Draft {
                text: format!("{text} That is {mark}."),
                effects,
                time,
            });
        }
    }

    /// A note is about one kind of job, also where what it says holds for the whole topic.
    fn one_of(&mut self, place: Place) -> Place {
        let kind = self.places[self.rng.random_range(0..self.places.len())].kind;
        Place { kind, ..place }
    }

    /// Adds memories that do nothing for anybody.
    pub(super) fn neutral(&mut self, place: Place, count: usize) {
        for _ in 0..count {
            let about = self.fact(place);
            let voice = if self.chance(0.5) {
                Voice::Everyday
            } else {
                Voice::Formal
            };
            self.memory(place, about, voice, Vec::new());
        }
    }
}

/// The same probability for another task of the family: moved a little on the scale of log odds.
fn vary(rng: &mut impl Rng, probability: f64) -> f64 {
    let shift: f64 = rng.random_range(-0.5..=0.5);
    let odds = (probability / (1.0 - probability)) * shift.exp();
    odds / (1.0 + odds)
}

fn leaning(effects: &[Effect]) -> Leaning {
    let helps = effects
        .iter()
        .any(|effect| matches!(effect, Effect::Supplies(..)));
    let harms = effects
        .iter()
        .any(|effect| matches!(effect, Effect::Falsifies(..)));
    match (helps, harms) {
        (true, false) => Leaning::Helps,
        (false, true) => Leaning::Harms,
        _ => Leaning::Neither,
    }
}
