//! Tasks solved alone: half of the families need no help, and every memory can only be in the way.
//!
//! There are as many helpful-looking notes about the jobs that the agent masters as about those it does not, and most
//! of them are even right. Similarity finds them all and injects them everywhere; on half of the tasks that costs
//! attention, and where a note is wrong, the task. What pays is knowing when to abstain, and that shows in how the agent
//! does without memory.

use super::{
    builder::Builder,
    plan::{HARM, Plan, STRONG, WEAK},
    prose::{Place, Voice},
    truth::Effect,
};

pub(super) const PLAN: Plan = Plan {
    topics: 9,
    train_tasks: 400,
    solved_alone: 0.5,
    ..Plan::USUAL
};

pub(super) fn family(builder: &mut Builder, place: Place) {
    let known = builder.fact(place);
    let unknown = builder.fact(place);
    let needs = vec![builder.known(known), builder.unknown(unknown)];
    builder.family(needs);
    for (fact, range) in [
        (unknown, STRONG),
        (unknown, STRONG),
        (unknown, WEAK),
        (known, STRONG),
    ] {
        let help = builder.between(range);
        let voice = if builder.chance(0.7) {
            Voice::Everyday
        } else {
            Voice::Formal
        };
        builder.memory(place, fact, voice, vec![Effect::Supplies(fact.id, help)]);
    }
    for fact in [known, unknown] {
        let harm = builder.between(HARM);
        builder.memory(
            place,
            fact,
            Voice::Everyday,
            vec![Effect::Falsifies(fact.id, harm)],
        );
    }
    builder.neutral(place, 3);
}
