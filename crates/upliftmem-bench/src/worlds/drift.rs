//! Drift: half-way through the stream, what was right becomes wrong for half of the families.
//!
//! Each family turns on a fact; in the changing ones another fact takes its place, and the notes about the old one now
//! mislead. The new notes were there before and misled then. All unseen tasks are of the time after the change. The texts
//! of old and new notes are alike, so similarity is right as often as wrong; what was learned before the change must be
//! unlearned after it.

use super::{
    builder::{Builder, FamilyRoute},
    plan::{HARM, Plan, STRONG, WEAK},
    prose::{Place, Voice},
    truth::{Effect, Grading, Strategy},
};

pub(super) const PLAN: Plan = Plan {
    train_tasks: 600,
    change_at: Some(300),
    ..Plan::USUAL
};

pub(super) fn family(builder: &mut Builder, place: Place) {
    let common = builder.fact(place);
    let before = builder.fact(place);
    let after = builder.fact(place);
    let route = |needs| FamilyRoute {
        procedure: None,
        needs,
    };
    let common_need = builder.known(common);
    let mut eras = vec![vec![route(vec![common_need, builder.unknown(before)])]];
    if builder.chance(0.5) {
        eras.push(vec![route(vec![common_need, builder.unknown(after)])]);
    }
    builder.family_with(eras, Strategy::Commit, Grading::All);
    for (right, wrong) in [(before, after), (after, before)] {
        for range in [STRONG, WEAK] {
            let (help, harm) = (builder.between(range), builder.between(HARM));
            let effects = vec![
                Effect::Supplies(right.id, help),
                Effect::Falsifies(wrong.id, harm),
            ];
            builder.memory(place, right, Voice::Everyday, effects);
        }
    }
    let harm = builder.between(HARM);
    builder.memory(
        place,
        common,
        Voice::Everyday,
        vec![Effect::Falsifies(common.id, harm)],
    );
    builder.neutral(place, 3);
}
