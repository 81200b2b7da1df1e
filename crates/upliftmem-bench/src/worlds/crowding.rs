//! Crowding: many long notes that say the same, and an agent that loses the thread.
//!
//! Each family has seven wordy notes that supply the same fact; one of them is enough, and each further one drowns what
//! the others say. Similarity finds them easily, so its first is good, but its first five are far too many. The best set
//! has one or two members; the harm is in the length, not in any memory.

use super::{
    builder::Builder,
    execution::Habits,
    plan::{HARM, Plan},
    prose::{Place, Voice},
    truth::Effect,
};

pub(super) const PLAN: Plan = Plan {
    topics: 8,
    train_tasks: 360,
    habits: Habits {
        half_tokens: 160.0,
        reading: 0.03,
        ..Plan::USUAL.habits
    },
    ..Plan::USUAL
};

pub(super) fn family(builder: &mut Builder, place: Place) {
    let known = builder.fact(place);
    let unknown = builder.fact(place);
    let needs = vec![builder.known(known), builder.unknown(unknown)];
    builder.family(needs);
    for _ in 0..7 {
        let help = builder.between(0.5..=0.9);
        builder.memory(
            place,
            unknown,
            Voice::Wordy,
            vec![Effect::Supplies(unknown.id, help)],
        );
    }
    let harm = builder.between(HARM);
    builder.memory(
        place,
        known,
        Voice::Wordy,
        vec![Effect::Falsifies(known.id, harm)],
    );
    builder.neutral(place, 2);
}
