//! A scripted customer that follows what memories say, right or wrong.
//!
//! It stands in for a language model where thousands of purchases must be had without one. Alone it draws its habits by lot:
//! what of the instruction it searches for, which result it opens first, what it reads before it buys, how soon it settles.
//! Memories change that: it reads their [sentences](notes) and does what they say, also when they are about another kind of
//! product.
//!
//! Invariant: all it ever sees is a [`Sight`] and texts of memories. No id, goal, reward or verdict reaches it.

mod account;
mod customer;
mod habits;
mod notes;
mod request;
mod results;

pub(crate) use account::Account;
pub use customer::{Customer, Sight};
pub(crate) use habits::{Check, Order, Phrasing};
pub(crate) use notes::RECORD;
pub(crate) use results::Results;
