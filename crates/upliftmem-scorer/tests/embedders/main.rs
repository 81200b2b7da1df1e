//! What embedders and models promise, shown from outside.

mod http;
mod models;
mod reference;
mod server;
