//! How the worlds' agent works: from a task and the memories in its context to how an execution ends.

use rand::{Rng, RngExt};
use upliftmem_core::{Cost, InvalidInput, Performance, Result, UtilityRule};

use super::truth::{Effect, MemoryTruth, Need, Route, Strategy, TaskTruth};

/// The most steps an execution may take.
pub(super) const STEPS_MAX: f64 = 30.0;

/// What is the same for all tasks of a world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Habits {
    /// Tokens at which what a memory says gets through half as often.
    pub(super) half_tokens: f64,
    /// How much of a falsehood is left when another memory says the truth.
    pub(super) doubt: f64,
    /// How often the agent goes the way that a memory suggests.
    pub(super) trust: f64,
    /// How often wavering between two suggestions ends in failure.
    pub(super) clash: f64,
    /// Chance that reading a memory that can help costs the task.
    pub(super) reading: f64,
    /// Chance that reading one that can not does.
    pub(super) distraction: f64,
}

/// One way an execution may end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ending {
    probability: f64,
    performance: f64,
    steps: f64,
}

/// What the memories in the context amount to, for one task.
struct Context<'a> {
    memories: &'a [&'a MemoryTruth],
    attention: f64,
    focus: f64,
    detours: f64,
}

impl Habits {
    /// The expected utility, exactly.
    pub(super) fn expected_utility(
        &self,
        rule: &UtilityRule,
        task: &TaskTruth,
        memories: &[&MemoryTruth],
    ) -> Result<f64> {
        let mut expected = 0.0;
        for ending in self.endings(task, memories) {
            // The wobble of the steps is symmetric and utility is linear in them, so the middle stands for all.
            let utility = rule.utility(Performance::new(ending.performance)?, Cost::new(ending.steps)?)?;
            expected += ending.probability * utility.get();
        }
        Ok(expected)
    }

    /// One execution.
    pub(super) fn execute(
        &self,
        task: &TaskTruth,
        memories: &[&MemoryTruth],
        rng: &mut impl Rng,
    ) -> Result<(Performance, Cost)> {
        let endings = self.endings(task, memories);
        let mut left: f64 = rng.random();
        let wobble = f64::from(rng.random_range(-1..=1_i8));
        let ending = endings
            .iter()
            .find(|ending| {
                left -= ending.probability;
                left < 0.0
            })
            .or(endings.last())
            .ok_or_else(|| InvalidInput::new("task", "it has no route to its goal"))?;
        let steps = if ending.steps < STEPS_MAX {
            ending.steps + wobble
        } else {
            STEPS_MAX
        };
        Ok((Performance::new(ending.performance)?, Cost::new(steps)?))
    }

    /// Every way an execution may end; the probabilities add up to one.
    fn endings(&self, task: &TaskTruth, memories: &[&MemoryTruth]) -> Vec<Ending> {
        let context = self.context(task, memories);
        let mut endings = match task.strategy {
            Strategy::Commit => self.commit(task, &context),
            Strategy::TryEach => self.try_each(task, &context),
        };
        for ending in &mut endings {
            ending.probability *= context.focus;
            if ending.performance == 0.0 {
                ending.steps = STEPS_MAX;
            }
        }
        endings.push(Ending {
            probability: 1.0 - context.focus,
            performance: 0.0,
            steps: STEPS_MAX,
        });
        endings
    }

    fn context<'a>(&self, task: &TaskTruth, memories: &'a [&'a MemoryTruth]) -> Context<'a> {
        let tokens: f64 = memories.iter().map(|memory| memory.tokens).sum();
        let (mut focus, mut detours) = (task.luck, 0.0);
        for memory in memories {
            if memory.can_help(task) {
                focus *= 1.0 - self.reading;
            } else {
                focus *= 1.0 - self.distraction;
                detours += 0.5;
            }
        }
        Context {
            memories,
            attention: 1.0 / (1.0 + (tokens / self.half_tokens).powi(2)),
            focus,
            detours,
        }
    }

    /// Goes the ordinary way, or one that is suggested if it trusts that, or wavers between several.
    fn commit(&self, task: &TaskTruth, context: &Context<'_>) -> Vec<Ending> {
        let suggested: Vec<&Route> = task
            .routes
            .iter()
            .filter(|route| {
                route.procedure.is_some_and(|procedure| {
                    context
                        .memories
                        .iter()
                        .any(|memory| memory.effects.contains(&Effect::Suggests(procedure)))
                })
            })
            .collect();
        let wavering = if suggested.len() > 1 {
            self.trust * self.clash
        } else {
            0.0
        };
        let following = if suggested.is_empty() {
            0.0
        } else {
            self.trust - wavering
        };
        let ordinary = task.routes.first().into_iter();
        let ways = ordinary.map(|route| (1.0 - following - wavering, route)).chain(
            suggested
                .iter()
                .map(|&route| (following / suggested.len() as f64, route)),
        );
        let mut endings: Vec<Ending> = ways
            .flat_map(|(share, route)| {
                self.walk(task, route, context, 0.0)
                    .into_iter()
                    .map(move |ending| Ending {
                        probability: share * ending.probability,
                        ..ending
                    })
            })
            .collect();
        endings.push(Ending {
            probability: wavering,
            performance: 0.0,
            steps: STEPS_MAX,
        });
        endings
    }

    /// Tries the routes in order; each failure costs half the task's steps again.
    fn try_each(&self, task: &TaskTruth, context: &Context<'_>) -> Vec<Ending> {
        let mut endings = Vec::new();
        let mut arriving = 1.0;
        for (number, route) in task.routes.iter().enumerate() {
            let late = 0.5 * task.steps * number as f64;
            let mut failing = 0.0;
            for ending in self.walk(task, route, context, late) {
                if ending.performance >= 1.0 {
                    endings.push(Ending {
                        probability: arriving * ending.probability,
                        ..ending
                    });
                } else {
                    failing += ending.probability;
                }
            }
            arriving *= failing;
        }
        endings.push(Ending {
            probability: arriving,
            performance: 0.0,
            steps: STEPS_MAX,
        });
        endings
    }

    /// How one route ends, by how many of its needs are met.
    fn walk(&self, task: &TaskTruth, route: &Route, context: &Context<'_>, late: f64) -> Vec<Ending> {
        let mut met_probability = vec![1.0];
        let mut saved = 0.0;
        for need in &route.needs {
            let probability = self.met(need, context);
            // What is told need not be found out.
            saved += (probability - need.own).max(0.0);
            // One more need: the number met stays or rises by one.
            met_probability.push(0.0);
            for met in (0..met_probability.len()).rev() {
                let from_below = if met > 0 { met_probability[met - 1] } else { 0.0 };
                met_probability[met] = met_probability[met] * (1.0 - probability) + from_below * probability;
            }
        }
        let steps = (task.steps + late + context.detours - saved).clamp(2.0, STEPS_MAX - 1.0);
        met_probability
            .iter()
            .enumerate()
            .map(|(met, &probability)| Ending {
                probability,
                performance: task.grading.performance(met, route.needs.len()),
                steps,
            })
            .collect()
    }

    /// How probably a need is met.
    fn met(&self, need: &Need, context: &Context<'_>) -> f64 {
        let (mut unknown, mut supplied) = (1.0 - need.own, false);
        for effect in context.memories.iter().flat_map(|memory| &memory.effects) {
            if let &Effect::Supplies(fact, strength) = effect
                && fact == need.fact
            {
                unknown *= 1.0 - context.attention * strength;
                supplied = true;
            }
        }
        let remaining = if supplied { self.doubt } else { 1.0 };
        let mut right = 1.0 - unknown;
        for effect in context.memories.iter().flat_map(|memory| &memory.effects) {
            if let &Effect::Falsifies(fact, strength) = effect
                && fact == need.fact
            {
                right *= 1.0 - remaining * strength;
            }
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::truth::{FactId, Grading, ProcedureId},
        *,
    };

    /// An agent without wear: what is read costs nothing.
    const TIRELESS: Habits = Habits {
        half_tokens: f64::INFINITY,
        doubt: 0.5,
        trust: 1.0,
        clash: 0.5,
        reading: 0.0,
        distraction: 0.0,
    };

    type Ways<'a> = &'a [(Option<ProcedureId>, &'a [(FactId, f64)])];

    fn task(ways: Ways<'_>, strategy: Strategy, grading: Grading) -> TaskTruth {
        let routes = ways
            .iter()
            .map(|&(procedure, needs)| Route {
                procedure,
                needs: needs.iter().map(|&(fact, own)| Need { fact, own }).collect(),
            })
            .collect();
        TaskTruth {
            routes,
            strategy,
            grading,
            luck: 1.0,
            steps: 10.0,
        }
    }

    fn memory(effects: &[Effect]) -> MemoryTruth {
        MemoryTruth {
            effects: effects.to_vec(),
            tokens: 20.0,
        }
    }

    /// The expected performance, where steps do not matter.
    fn check(habits: &Habits, task: &TaskTruth, memories: &[&MemoryTruth], expected: f64) {
        let rule = UtilityRule::new(0.0, 1.0, STEPS_MAX).unwrap();
        let found = habits.expected_utility(&rule, task, memories).unwrap();
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        let endings = habits.endings(task, memories);
        let total: f64 = endings.iter().map(|ending| ending.probability).sum();
        assert!((total - 1.0).abs() < 1e-12, "the endings add up to {total}");
    }

    #[test]
    fn facts_are_a_noisy_or_and_needs_an_and() {
        let task = task(&[(None, &[(1, 0.5), (2, 0.8)])], Strategy::Commit, Grading::All);
        let first = memory(&[Effect::Supplies(1, 0.6)]);
        let second = memory(&[Effect::Supplies(1, 0.5)]);
        check(&TIRELESS, &task, &[], 0.4);
        check(&TIRELESS, &task, &[&first], 0.8 * (1.0 - 0.5 * 0.4));
        check(
            &TIRELESS,
            &task,
            &[&first, &second],
            0.8 * (1.0 - 0.5 * 0.4 * 0.5),
        );
    }

    #[test]
    fn a_falsehood_counts_half_beside_the_truth() {
        let task = task(&[(None, &[(1, 0.5)])], Strategy::Commit, Grading::All);
        let truth = memory(&[Effect::Supplies(1, 1.0)]);
        let falsehood = memory(&[Effect::Falsifies(1, 0.6)]);
        check(&TIRELESS, &task, &[&falsehood], 0.5 * 0.4);
        check(&TIRELESS, &task, &[&truth, &falsehood], 1.0 - 0.5 * 0.6);
    }

    #[test]
    fn a_suggestion_is_followed_and_two_make_it_waver() {
        let ways: Ways<'_> = &[
            (None, &[(1, 0.4)]),
            (Some(7), &[(2, 0.1), (3, 0.1)]),
            (Some(8), &[(4, 0.9)]),
        ];
        let task = task(ways, Strategy::Commit, Grading::All);
        let half = memory(&[Effect::Suggests(7), Effect::Supplies(2, 1.0)]);
        let rest = memory(&[Effect::Supplies(3, 1.0)]);
        let other = memory(&[Effect::Suggests(8)]);
        check(&TIRELESS, &task, &[&half], 0.1);
        check(&TIRELESS, &task, &[&rest], 0.4);
        check(&TIRELESS, &task, &[&half, &rest], 1.0);
        check(
            &TIRELESS,
            &task,
            &[&half, &rest, &other],
            0.5 * (0.5 * 1.0 + 0.5 * 0.9),
        );
        let wary = Habits {
            trust: 0.8,
            ..TIRELESS
        };
        check(&wary, &task, &[&half], 0.8 * 0.1 + 0.2 * 0.4);
    }

    #[test]
    fn any_route_will_do_and_any_two_clues() {
        let ways: Ways<'_> = &[(None, &[(1, 0.3)]), (None, &[(2, 0.5)])];
        check(
            &TIRELESS,
            &task(ways, Strategy::TryEach, Grading::All),
            &[],
            1.0 - 0.7 * 0.5,
        );
        let three: Ways<'_> = &[(None, &[(1, 0.5), (2, 0.5), (3, 0.5)])];
        let clues = task(three, Strategy::Commit, Grading::AtLeast(2));
        check(&TIRELESS, &clues, &[], 0.5);
        check(&TIRELESS, &clues, &[&memory(&[Effect::Supplies(1, 1.0)])], 0.75);
        let parts = task(&[(None, &[(1, 0.5), (2, 0.7)])], Strategy::Commit, Grading::Share);
        check(&TIRELESS, &parts, &[], 0.6);
    }

    #[test]
    fn reading_costs_and_length_dilutes() {
        let task = task(&[(None, &[(1, 0.0)])], Strategy::Commit, Grading::All);
        let habits = Habits {
            half_tokens: 20.0,
            reading: 0.1,
            distraction: 0.2,
            ..TIRELESS
        };
        let (helper, idle) = (memory(&[Effect::Supplies(1, 1.0)]), memory(&[]));
        check(&habits, &task, &[&helper], 0.9 * 0.5);
        check(&habits, &task, &[&helper, &idle], 0.9 * 0.8 * 0.2);
    }

    #[test]
    fn a_success_in_fewer_steps_is_worth_more() {
        let rule = UtilityRule::new(0.3, 1.0, STEPS_MAX).unwrap();
        let task = task(&[(None, &[(1, 0.25)])], Strategy::Commit, Grading::All);
        let helper = memory(&[Effect::Supplies(1, 1.0)]);
        let alone = TIRELESS.expected_utility(&rule, &task, &[]).unwrap();
        assert!((alone - 0.25 * (1.0 + 0.3 * 20.0 / 30.0)).abs() < 1e-12);
        let helped = TIRELESS.expected_utility(&rule, &task, &[&helper]).unwrap();
        assert!((helped - (1.0 + 0.3 * 20.75 / 30.0)).abs() < 1e-12);
    }
}
