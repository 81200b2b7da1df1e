//! WebShop in native code: the official shop, searched and bought in without Python, Java or a tagger.
//!
//! A [`Shop`] is a catalogue with its search and its goals; a [`Session`] is one customer's way through it; [`WebShop`] is an
//! environment of both. Search gives Lucene's ranking, pages the official texts, purchases the official reward, which
//! recordings of the official environment check.
//!
//! ```no_run
//! use std::sync::Arc;
//! use upliftmem_bench::webshop::{Session, Shop};
//!
//! let shop = Arc::new(Shop::load("bench/webshop")?);
//! let mut session = Session::new(shop, 0).ok_or("no goal")?;
//! session.act("search[throw pillow covers 28 x 28]")?;
//! let first = session.page().clickables.iter().find(|text| text.starts_with("b0")).cloned();
//! session.act(&format!("click[{}]", first.ok_or("nothing found")?))?;
//! session.act("click[buy now]")?;
//! assert!(session.reward().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod agent;
mod analysis;
mod bm25;
mod converted;
mod emoji;
mod environment;
mod error;
mod fuzzy;
mod goals;
mod nouns;
mod official;
mod page;
mod porter;
mod product;
mod python_random;
mod reward;
mod session;
mod shelf;
mod shop;
mod stream;
#[cfg(test)]
mod tests;

pub use agent::{Customer, Sight};
pub use environment::{ACTIONS_MAX, WebShop};
pub use error::LoadError;
pub use goals::{Goal, GoalOption};
pub use page::{Page, SubPage};
pub use product::Product;
pub use reward::Reward;
pub use session::Session;
pub use shop::{FOUND_MAX, Shop, TEST_GOALS};
