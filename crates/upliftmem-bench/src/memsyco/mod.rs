//! MemSyco-Bench: when should memory guide an answer, and how?
//!
//! [`load`] reads the instances, [`split`] divides them, [`judge_prompt`] asks a judge about an answer, [`LikelihoodPair`] does
//! without one, [`Scores`] are what the paper reports. A store is the dialogue of one instance; [`Instance::turn_memories`] is the
//! NaiveRAG store. What should be remembered and how an answer is judged is never for the agent.
//!
//! ```no_run
//! use upliftmem_bench::memsyco::{SPLIT_SEED, load, split};
//!
//! let instances = load("bench/memsyco")?;
//! let split = split(&instances, SPLIT_SEED);
//! assert_eq!((split.train.len(), split.test.len()), (1085, 465));
//! # Ok::<(), upliftmem_bench::memsyco::LoadError>(())
//! ```

mod data;
mod error;
mod judge;
mod metrics;
mod proxy;
mod split;

pub use data::{DialogueTurn, Evaluation, GoldMemory, Instance, Role, Scenario, load};
pub use error::LoadError;
pub use judge::{Verdict, judge_prompt, read_verdict};
pub use metrics::{Behaviour, ScenarioScores, Scores};
pub use proxy::LikelihoodPair;
pub use split::{SPLIT_SEED, Split, split};
