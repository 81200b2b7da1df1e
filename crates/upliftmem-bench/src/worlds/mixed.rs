//! A bit of everything: each family follows the rules of another world, and some change half-way.
//!
//! What a store looks like after a year: recipes in halves, traps, versions, notes that help a neighbour, jobs that need no
//! help, all side by side. Similarity is right in some places and harmful in others, and nothing in the text says where.

use super::{
    builder::Builder, crowding, drift, graded, look_alikes, plan::Plan, prose::Place, recipes, routes,
    self_reliant, sub_types, versions,
};

pub(super) const PLAN: Plan = Plan {
    topics: 12,
    train_tasks: 540,
    change_at: Some(270),
    ..Plan::USUAL
};

const FAMILIES: [fn(&mut Builder, Place); 9] = [
    crowding::family,
    drift::family,
    graded::family,
    look_alikes::family,
    recipes::family,
    routes::family,
    self_reliant::family,
    versions::family,
    // Last: a whole topic has no neighbours to tell apart.
    sub_types::family,
];

pub(super) fn family(builder: &mut Builder, place: Place) {
    let choice = builder.below(FAMILIES.len() - usize::from(builder.is_whole_topic()));
    FAMILIES[choice](builder, place);
}
