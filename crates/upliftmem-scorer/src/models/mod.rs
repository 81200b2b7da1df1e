//! Which models there are, where they lie, and how to get them.
//!
//! Nothing here reads the environment: the directory, the hub's address and the token are parameters.

mod arrival;
mod auto;
mod download;
mod error;
mod known;
mod library;

pub use auto::{Auto, Fallback};
pub use download::{DEFAULT_ENDPOINT, Hub};
pub use error::{ModelsError, Result};
pub use known::{CHAT_MODELS, KNOWN_MODELS, KnownModel, ModelFile, ModelKind};
pub use library::{ModelLibrary, Progress, Source, open_directory};
