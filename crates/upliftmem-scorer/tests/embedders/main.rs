//! What embedders and models promise, shown from outside.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests stop where they fail, and say what was not checked"
)]

mod http;
mod models;
mod reference;
mod server;
