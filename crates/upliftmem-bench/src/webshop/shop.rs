//! The shop: products, search and goals, shared by all who shop there.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::bm25::Index;
use super::error::LoadError;
use super::goals::Goal;
use super::product::Product;
use super::reward::{Reward, reward};
use super::shelf::{Shelf, Stocking};
use super::{converted, official};

/// How many products a search finds.
pub const FOUND_MAX: usize = 50;

/// How many goals, the first ones, are for tests only.
pub const TEST_GOALS: usize = 500;

/// A shop that never changes. Products are numbered in the order of the catalogue.
#[derive(Debug)]
pub struct Shop {
    shelf: Shelf,
    index: Index,
    asins: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    goals: Vec<Goal>,
}

impl Shop {
    /// Reads the catalogue of a folder: the converted one of 1,000 products, else the official files.
    ///
    /// The official files are read as a stream. The texts of a large catalogue go into a temporary file without a name.
    ///
    /// # Errors
    /// There is no catalogue, or something in it can not be read; the error names file and place.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::load_first(folder, usize::MAX)
    }

    /// The same, with no more than the first `products_max` products of the official files.
    ///
    /// # Errors
    /// As [`Shop::load`].
    pub fn load_first(folder: impl AsRef<Path>, products_max: usize) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        if folder.join(converted::PRODUCTS).is_file() {
            converted::load(folder)
        } else {
            official::load(folder, products_max)
        }
    }

    /// How many products there are.
    #[must_use]
    pub fn products(&self) -> usize {
        self.asins.len()
    }

    /// All goals in their official order: the first 500 are the test goals.
    #[must_use]
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    /// A product by its number in the catalogue.
    ///
    /// # Errors
    /// The temporary file can not be read, or no product has this number.
    pub fn product(&self, number: u32) -> io::Result<Arc<Product>> {
        self.shelf.get(number)
    }

    /// The number of a product.
    #[must_use]
    pub fn number(&self, asin: &str) -> Option<u32> {
        self.numbers.get(asin).copied()
    }

    /// The best 50 products for some words with their scores, best first; of equal ones the smaller asin.
    #[must_use]
    pub fn search(&self, words: &str) -> Vec<(u32, f32)> {
        let by_asin = |one: u32, other: u32| self.asins[one as usize].cmp(&self.asins[other as usize]);
        self.index.search(words, FOUND_MAX, by_asin)
    }

    /// What it is worth, to a customer with this goal, to buy a product with these options.
    ///
    /// # Errors
    /// The temporary file can not be read, or no product has this number.
    pub fn reward(&self, goal: &Goal, number: u32, options: &BTreeMap<String, String>) -> io::Result<Reward> {
        let product = self.product(number)?;
        let wanted = match self.number(&goal.asin) {
            Some(wanted) => self.product(wanted)?,
            None => return Err(io::Error::other(format!("no product {:?}", goal.asin))),
        };
        Ok(reward(&product, options, goal, &wanted.title_nouns))
    }
}

/// Takes the products of a catalogue one by one.
pub(super) struct ShopBuilder {
    stocking: Stocking,
    index: Index,
    asins: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl ShopBuilder {
    pub(super) fn new() -> Self {
        Self {
            stocking: Stocking::default(),
            index: Index::default(),
            asins: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    pub(super) fn has(&self, asin: &str) -> bool {
        self.numbers.contains_key(asin)
    }

    /// Adds the next product, which search finds by `contents`.
    pub(super) fn add(&mut self, product: Product, contents: &str) -> io::Result<()> {
        let number = u32::try_from(self.asins.len()).map_err(io::Error::other)?;
        let asin: Box<str> = product.asin.as_str().into();
        if self.numbers.insert(asin.clone(), number).is_some() {
            return Err(io::Error::other(format!("product {asin} comes twice")));
        }
        self.asins.push(asin);
        self.index.add(contents);
        self.stocking.add(product)
    }

    /// The shop; every goal must be of a product that is there, `file` is where goals came from.
    pub(super) fn finish(self, goals: Vec<Goal>, file: &Path) -> Result<Shop, LoadError> {
        if let Some(goal) = goals.iter().find(|goal| !self.has(&goal.asin)) {
            return Err(LoadError::Inconsistent {
                file: file.to_owned(),
                message: format!(
                    "a goal is made of product {}, which is not in the catalogue",
                    goal.asin
                ),
            });
        }
        let shelf = self.stocking.finish().map_err(super::error::unreadable(file))?;
        Ok(Shop {
            shelf,
            index: self.index,
            asins: self.asins,
            numbers: self.numbers,
            goals,
        })
    }
}
