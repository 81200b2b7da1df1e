//! Graded outcomes: a task is done in parts, each part counts, and most notes give with one hand and take with the other.
//!
//! Performance is the share of four needs that are met; only a full score earns the bonus for few steps. Some notes
//! supply one need, some supply one and spoil another, some are about the whole topic. What is worded like the task mostly
//! spoils or helps little, and the best notes are worded like a manual, so similarity loses more parts than it gains. With
//! parts that count one by one, an outcome says more than success or failure would.

use super::{
    builder::{Builder, FamilyRoute},
    plan::{HARM, Plan, STRONG, WEAK},
    prose::{Place, Voice},
    truth::{Effect, Grading, Strategy},
};

pub(super) const PLAN: Plan = Plan {
    topics: 8,
    train_tasks: 360,
    ..Plan::USUAL
};

pub(super) fn family(builder: &mut Builder, place: Place) {
    let facts = [(); 4].map(|()| builder.fact(place));
    let needs = vec![
        builder.unknown(facts[0]),
        builder.unknown(facts[1]),
        builder.known(facts[2]),
        builder.known(facts[3]),
    ];
    let route = FamilyRoute {
        procedure: None,
        needs,
    };
    builder.family_with(vec![vec![route]], Strategy::Commit, Grading::Share);
    for fact in [facts[0], facts[1]] {
        for (range, voice) in [(STRONG, Voice::Formal), (WEAK, Voice::Everyday)] {
            let help = builder.between(range);
            builder.memory(place, fact, voice, vec![Effect::Supplies(fact.id, help)]);
        }
        // Gives one part and takes another.
        let spoiled = facts[2 + builder.below(2)];
        let (help, harm) = (builder.between(STRONG), builder.between(HARM));
        let effects = vec![
            Effect::Supplies(fact.id, help),
            Effect::Falsifies(spoiled.id, harm),
        ];
        builder.memory(place, fact, Voice::Everyday, effects);
    }
    for fact in [facts[2], facts[3]] {
        let harm = builder.between(HARM);
        builder.memory(
            place,
            fact,
            Voice::Everyday,
            vec![Effect::Falsifies(fact.id, harm)],
        );
    }
    let help = builder.between(WEAK);
    let general = facts.map(|fact| Effect::Supplies(fact.id, help)).to_vec();
    builder.memory(place, facts[0], Voice::General, general);
    builder.neutral(place, 2);
}
