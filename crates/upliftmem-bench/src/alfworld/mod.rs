//! ALFWorld in native code: the official household games, played without Python.
//!
//! A [`Game`] is one `game.tw-pddl` file; an [`Episode`] is one play of it. Every text, the admissible commands and the
//! verdict `won` are those of the official environment (TextWorld 1.7 with ALFWorld's object names), which recorded
//! transcripts check step by step. [`visit_games`] reads the published folder, or a `.tar.xz` archive of it.
//!
//! ```no_run
//! use upliftmem_bench::alfworld::Game;
//!
//! let game = Game::load("valid_seen/some_task/some_trial/game.tw-pddl")?;
//! let mut episode = game.start();
//! let mut done = false;
//! for command in game.walkthrough() {
//!     done = episode.step(command).done;
//! }
//! assert!(done);
//! # Ok::<(), upliftmem_bench::alfworld::LoadError>(())
//! ```

mod agent;
mod commands;
mod data;
mod environment;
mod episode;
mod error;
mod game;
mod goal;
mod names;
mod problem;
mod sexpr;
#[cfg(test)]
mod tests;
mod text;

pub use agent::{Player, View};
pub use data::{Split, visit_games};
pub use environment::{ACTIONS_MAX, Alfworld};
pub use episode::{Episode, Step};
pub use error::LoadError;
pub use game::Game;
pub use goal::TaskKind;
