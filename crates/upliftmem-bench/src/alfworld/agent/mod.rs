//! A scripted player that follows what memories say, right or wrong.
//!
//! It stands in for a language model where thousands of plays must be had without one. Alone it searches a room in an
//! order drawn by lot and finds out by trying which appliance heats, cools or cleans, so that it solves a part of the
//! tasks. Memories change that: it reads their [sentences](notes) and does what they say, in the order they say it, also
//! when they are about another thing or another room.
//!
//! Invariant: all it ever sees is a [`View`] and texts of memories. No id, goal, score or verdict reaches it.

mod notes;
mod player;
mod request;
mod room;

pub use player::{Player, View};
