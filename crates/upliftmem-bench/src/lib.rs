//! Where UpliftMem is measured: [synthetic worlds](worlds) of known truth, and the [`baselines`] to beat.
//!
//! How much similarity alone does for an agent in a world of look-alikes:
//!
//! ```
//! use upliftmem_bench::{LexicalIndex, baselines, worlds::{World, WorldKind}};
//!
//! let world = World::generate(WorldKind::LookAlikes, 1)?;
//! let index = LexicalIndex::new(world.memories());
//! let mut uplift = 0.0;
//! for task in world.test_tasks() {
//!     let ranked: Vec<_> = index.recall(&task.context, 50).into_iter().map(|(id, _)| id).collect();
//!     let set = baselines::similarity_top(&ranked, 5);
//!     uplift += world.expected_utility(task, &set)? - world.expected_utility(task, &baselines::no_memory())?;
//! }
//! assert!(uplift < 0.0);
//! # Ok::<(), upliftmem_core::InvalidInput>(())
//! ```

pub mod alfworld;
pub mod baselines;
pub mod bigcodebench;
pub mod learning;
mod lexical;
pub mod lm;
pub mod memsyco;
pub mod webshop;
mod world_executor;
pub mod worlds;

pub use lexical::LexicalIndex;
pub use world_executor::WorldExecutor;
