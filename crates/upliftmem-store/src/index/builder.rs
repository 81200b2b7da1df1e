//! The thread that extends a scope's graph while questions are answered: what it does not cover is scanned.

use std::{
    num::NonZero,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread,
};

use super::{
    place::{Place, slot_number},
    saved::save,
    scope::{BATCH, EXACT_MAX, ScopeIndex},
    scopes::Shared,
};

/// Extends the graph if it is behind and nobody does.
pub(super) fn build_in_background(shared: &Arc<Shared>) {
    let behind = {
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        index
            .as_ref()
            .is_some_and(|index| index.unbuilt() > EXACT_MAX / 4)
    };
    if !behind || shared.building.swap(true, Ordering::AcqRel) {
        return;
    }
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        while extend(&shared) {}
        let mut nodes = shared.saved_nodes.load(Ordering::Relaxed);
        save(&shared, &mut nodes);
        shared.saved_nodes.store(nodes, Ordering::Relaxed);
        shared.building.store(false, Ordering::Release);
    });
}

/// Enters a batch of nodes; false when there is none left, or nobody but the builder holds the index.
fn extend(shared: &Arc<Shared>) -> bool {
    if Arc::strong_count(shared) == 1 {
        return false;
    }
    let (first, end, generation) = {
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        match index.as_ref() {
            Some(index) if index.unbuilt() > 0 => {
                let first = index.graph.len();
                (first, first + BATCH, index.generation)
            }
            _ => return false,
        }
    };
    let places = place_all(shared, generation, first, end);
    for (position, place) in (first..).zip(places) {
        let mut index = shared.index.write().unwrap_or_else(PoisonError::into_inner);
        match index.as_mut() {
            // A lock a node: questions wait for one of them at most.
            Some(index) if index.generation == generation && index.graph.len() == position => {
                index.graph.enter(&index.vectors, place);
            }
            // The index was started over meanwhile.
            _ => return true,
        }
    }
    true
}

/// The places of the slots from `first` to `end`, found on all processors. Fewer if the index was started over.
fn place_all(shared: &Shared, generation: i64, first: usize, end: usize) -> Vec<Place> {
    let next = Mutex::new(first..end);
    let found: Mutex<Vec<(usize, Place)>> = Mutex::default();
    let work = || {
        loop {
            let Some(position) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                return;
            };
            let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
            let same = |index: &&ScopeIndex| {
                index.generation == generation && index.graph.len() == first && index.vectors.len() >= end
            };
            let Some(index) = index.as_ref().filter(same) else {
                return;
            };
            let place = index.graph.place(&index.vectors, first, slot_number(position));
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((position, place));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|&(position, _)| position);
    // A gap is a place that was not found because the index changed: what comes after it has no use.
    let without_gap = (first..)
        .zip(&found)
        .take_while(|(wanted, (position, _))| wanted == position)
        .count();
    found
        .into_iter()
        .take(without_gap)
        .map(|(_, place)| place)
        .collect()
}
