//! Sub-type specific help: what helps one kind of job harms its neighbour.
//!
//! The three kinds of job of a topic are near each other in words, and a note that is right for one is wrong for the next.
//! Half of the notes name their kind, half speak of the topic as a whole. Similarity works where the kind is named, and
//! fails where it is not; the mean outcome of a note over all its tasks is near zero, so averages per note fail too.

use super::{
    builder::Builder,
    plan::{HARM, Plan, STRONG},
    prose::{Place, Voice},
    truth::Effect,
};

pub(super) const PLAN: Plan = Plan {
    topics: 12,
    train_tasks: 480,
    split: 1.0,
    ..Plan::USUAL
};

pub(super) fn family(builder: &mut Builder, place: Place) {
    let known = builder.habit(place);
    let unknown = builder.fact(place);
    let needs = vec![builder.known(known), builder.unknown(unknown)];
    builder.family(needs);
    for number in 0..4 {
        let (help, harm) = (builder.between(STRONG), builder.between(HARM));
        // Wrong for a neighbour, about what the neighbour would have known.
        let neighbour = builder.habit(place.neighbour(1 + number % 2));
        let effects = vec![
            Effect::Supplies(unknown.id, help),
            Effect::Falsifies(neighbour.id, harm),
        ];
        let voice = if builder.chance(0.5) {
            Voice::Everyday
        } else {
            Voice::General
        };
        builder.memory(place, unknown, voice, effects);
    }
    builder.neutral(place, 3);
}
