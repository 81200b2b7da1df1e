//! Everything that a model is told. The templates are files in `prompts/`; here they are filled in.
//!
//! Builders see public types only: [`PublicTask`], [`PublicTurn`] and [`InjectedMemories`]. What a judge knows (expected
//! answers, tests, how well an episode goes) has no way into them. Paper: app. prompts, Information Boundaries.

mod act;
mod code;
mod distil;
mod evidence;
mod fence;
mod public;
mod question;
mod template;
mod write;

pub use act::{ActStyle, Scene, TakenStep};
pub use code::{ImplementationNote, code_messages};
pub use distil::distil_messages;
pub(crate) use evidence::is_section;
pub use evidence::without_literals;
pub use fence::{InjectedMemories, MemoryBudget, plain};
pub(crate) use fence::{bounded, indented, quoted, shown_chars};
pub use public::{PublicTask, PublicTurn};
pub use question::{Judged, judge_messages, question_messages, reply_messages};
pub use template::{Field, Template};
pub use write::{Contract, Domain, Episode, Outcome, ValidatedMemory, construction, revision};
