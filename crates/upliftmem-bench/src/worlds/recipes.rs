//! Complement and conflict: half a recipe is worse than none, and two recipes at once are worse than one.
//!
//! A family has its ordinary way, which works now and then, and recipes that replace it. Some recipes come in two
//! halves in two memories: a half alone makes the agent leave its ordinary way and get stuck, both together work. Others
//! fit in one memory. Two different recipes in one context make the agent waver. Similarity finds recipes, but it takes
//! halves without their other half and recipes that clash; whether a memory helps depends on what stands beside it.

use std::ops::RangeInclusive;

use super::{
    builder::{Builder, Fact, FamilyNeed, FamilyRoute},
    plan::{HARM, MASTERED, Plan, STRONG},
    prose::{Place, Voice},
    truth::{Effect, Grading, Strategy},
};

pub(super) const PLAN: Plan = Plan::USUAL;

pub(super) fn family(builder: &mut Builder, place: Place) {
    let ordinary = builder.fact(place);
    let own = if builder.is_solved_alone() {
        MASTERED
    } else {
        0.25..=0.5
    };
    let mut routes = vec![FamilyRoute {
        procedure: None,
        needs: vec![builder.need(ordinary, own)],
    }];
    // Halves alone, a whole one beside them, two whole ones that clash, or one by itself.
    let (in_halves_too, whole) = [(true, 0), (true, 1), (false, 2), (false, 1)][builder.below(4)];
    if in_halves_too {
        routes.push(in_halves(builder, place));
    }
    for _ in 0..whole {
        routes.push(in_one(builder, place));
    }
    builder.family_with(vec![routes], Strategy::Commit, Grading::All);
    let harm = builder.between(HARM);
    builder.memory(
        place,
        ordinary,
        Voice::Everyday,
        vec![Effect::Falsifies(ordinary.id, harm)],
    );
    builder.neutral(place, 4);
}

/// A recipe that needs two memories. One half may be there twice, in other words.
fn in_halves(builder: &mut Builder, place: Place) -> FamilyRoute {
    let procedure = builder.procedure();
    let mut needs = Vec::new();
    for half in 0..2 {
        let fact = builder.fact(place);
        needs.push(recipe_need(builder, fact, 0.08..=0.2));
        let copies = 1 + usize::from(builder.chance(0.4));
        for _ in 0..copies {
            let help = builder.between(0.85..=0.97);
            let mut effects = vec![Effect::Supplies(fact.id, help)];
            // The first half always says what to make; the second only sometimes.
            if half == 0 || builder.chance(0.5) {
                effects.push(Effect::Suggests(procedure));
            }
            builder.memory(place, fact, Voice::Everyday, effects);
        }
    }
    FamilyRoute {
        procedure: Some(procedure),
        needs,
    }
}

/// A recipe that one memory tells whole, and another tells with a gap.
fn in_one(builder: &mut Builder, place: Place) -> FamilyRoute {
    let procedure = builder.procedure();
    let facts = [builder.fact(place), builder.fact(place)];
    let needs = facts
        .iter()
        .map(|&fact| recipe_need(builder, fact, 0.15..=0.3))
        .collect();
    let mut whole = vec![Effect::Suggests(procedure)];
    for fact in facts {
        let help = builder.between(STRONG);
        whole.push(Effect::Supplies(fact.id, help));
    }
    let with_a_gap = whole[..2].to_vec();
    let voice = if builder.chance(0.5) {
        Voice::Everyday
    } else {
        Voice::Formal
    };
    builder.memory(place, facts[0], voice, whole);
    builder.memory(place, facts[0], Voice::Everyday, with_a_gap);
    FamilyRoute {
        procedure: Some(procedure),
        needs,
    }
}

/// Who masters a job also knows its recipes, though not as well as the ordinary way.
fn recipe_need(builder: &mut Builder, fact: Fact, own: RangeInclusive<f64>) -> FamilyNeed {
    let own = if builder.is_solved_alone() { 0.8..=0.9 } else { own };
    builder.need(fact, own)
}
