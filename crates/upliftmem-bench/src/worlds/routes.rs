//! Enough is enough: one of several routes will do, or two of four clues, and more is wasted.
//!
//! In half of the families the agent tries one route after the other, and a note that completes any of them solves the
//! task; a second one adds nothing but text. In the other half any two of four clues suffice: the first note hardly
//! helps, the second decides, the third is wasted. Similarity finds notes of the right kind and so does some good, but
//! it can not see that a note is one too many, or one too few.

use super::{
    builder::{Builder, FamilyRoute},
    plan::{HARM, Plan, STRONG},
    prose::{Place, Voice},
    truth::{Effect, Grading, Strategy},
};

pub(super) const PLAN: Plan = Plan::USUAL;

pub(super) fn family(builder: &mut Builder, place: Place) {
    if builder.chance(0.5) {
        any_route(builder, place);
    } else {
        enough_clues(builder, place);
    }
    builder.neutral(place, 3);
}

fn any_route(builder: &mut Builder, place: Place) {
    let routes = (0..3)
        .map(|number| {
            let fact = builder.fact(place);
            let need = if number == 0 {
                builder.unknown(fact)
            } else {
                builder.need(fact, 0.02..=0.1)
            };
            let help = builder.between(STRONG);
            builder.memory(
                place,
                fact,
                Voice::Everyday,
                vec![Effect::Supplies(fact.id, help)],
            );
            if number == 0 {
                for _ in 0..2 {
                    let harm = builder.between(HARM);
                    builder.memory(
                        place,
                        fact,
                        Voice::Everyday,
                        vec![Effect::Falsifies(fact.id, harm)],
                    );
                }
            }
            FamilyRoute {
                procedure: None,
                needs: vec![need],
            }
        })
        .collect();
    builder.family_with(vec![routes], Strategy::TryEach, Grading::All);
}

fn enough_clues(builder: &mut Builder, place: Place) {
    let own = if builder.is_solved_alone() {
        0.95..=0.98
    } else {
        0.05..=0.15
    };
    let mut needs = Vec::new();
    for number in 0..4 {
        let fact = builder.fact(place);
        needs.push(builder.need(fact, own.clone()));
        let (help, harm) = (builder.between(STRONG), builder.between(HARM));
        let voice = if builder.chance(0.7) {
            Voice::Everyday
        } else {
            Voice::Formal
        };
        builder.memory(place, fact, voice, vec![Effect::Supplies(fact.id, help)]);
        if number < 2 {
            builder.memory(
                place,
                fact,
                Voice::Everyday,
                vec![Effect::Falsifies(fact.id, harm)],
            );
        }
    }
    let route = FamilyRoute {
        procedure: None,
        needs,
    };
    builder.family_with(vec![vec![route]], Strategy::Commit, Grading::AtLeast(2));
}
