//! Outdated and current: two versions of one note, alike to the word, one of them no longer true.
//!
//! Most notes exist twice. The text differs in the name of the sheet it was copied from, and only the later one is right;
//! for some both still are. With both in the context the agent hesitates. Similarity can not tell versions apart and
//! usually takes both; the order of creation and executed outcomes can.

use super::{
    builder::Builder,
    plan::{HARM, Plan, STRONG},
    prose::Place,
    truth::Effect,
};

pub(super) const PLAN: Plan = Plan::USUAL;

pub(super) fn family(builder: &mut Builder, place: Place) {
    let facts = [builder.fact(place), builder.fact(place), builder.fact(place)];
    let needs = vec![
        builder.unknown(facts[0]),
        builder.known(facts[1]),
        builder.known(facts[2]),
    ];
    builder.family(needs);
    for fact in facts {
        let (help, harm) = (builder.between(STRONG), builder.between(HARM));
        let current = vec![Effect::Supplies(fact.id, help)];
        let older = if builder.chance(0.25) {
            current.clone()
        } else {
            vec![Effect::Falsifies(fact.id, harm)]
        };
        builder.versions(place, fact, [older, current]);
    }
    builder.neutral(place, 2);
}
