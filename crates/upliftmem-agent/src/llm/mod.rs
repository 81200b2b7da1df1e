//! Executors that are a language model: answering questions, acting in worlds.

mod answers;
mod attached;
mod episode;
mod question;

pub use answers::{AnswerScoring, ExpectedAnswer};
pub use attached::{AttachedEnvironment, AttachedSettings, AttachedWorlds};
pub use episode::{ActExecutor, ActSettings, EnvironmentSource};
pub use question::{QuestionExecutor, QuestionSettings};
