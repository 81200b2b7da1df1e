//! Look-alike harm: what is most similar to a task makes it fail.
//!
//! Every kind of job has traps: notes in the very words of the request, about the thing that the agent would have got
//! right by itself, and wrong. What helps is written in the words of a manual and shares little more than the topic's
//! name with the task. Similarity ranks the traps first, so the first five are worse than nothing; recall of fifty still
//! reaches what helps. To do better one must have seen outcomes.

use super::{
    builder::Builder,
    plan::{HARM, Plan, STRONG, WEAK},
    prose::{Place, Voice},
    truth::Effect,
};

pub(super) const PLAN: Plan = Plan {
    topics: 12,
    train_tasks: 480,
    ..Plan::USUAL
};

pub(super) fn family(builder: &mut Builder, place: Place) {
    let known = builder.fact(place);
    let unknown = builder.fact(place);
    let needs = vec![builder.known(known), builder.unknown(unknown)];
    builder.family(needs);
    for _ in 0..3 {
        let harm = builder.between(HARM);
        builder.memory(place, known, Voice::Echo, vec![Effect::Falsifies(known.id, harm)]);
    }
    for range in [STRONG, STRONG, WEAK] {
        let help = builder.between(range);
        builder.memory(
            place,
            unknown,
            Voice::Formal,
            vec![Effect::Supplies(unknown.id, help)],
        );
    }
    builder.neutral(place, 2);
}
