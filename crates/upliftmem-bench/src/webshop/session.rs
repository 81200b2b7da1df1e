//! One customer's way through the shop.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::page::{PER_PAGE, Page, SubPage};
use super::product::Product;
use super::reward::Reward;
use super::shop::Shop;

/// A customer with a goal, somewhere in the shop.
#[derive(Clone, Debug)]
pub struct Session {
    shop: Arc<Shop>,
    goal: usize,
    place: Place,
    /// What the last search found.
    found: Vec<u32>,
    /// The page of results that was shown last, from 1.
    results_page: usize,
    page: Page,
}

#[derive(Clone, Debug)]
enum Place {
    Index,
    Results,
    Item(Visit),
    SubPage(Visit),
    Done(Reward),
}

/// A product that is looked at, and what is chosen of its options.
#[derive(Clone, Debug)]
struct Visit {
    number: u32,
    product: Arc<Product>,
    options: BTreeMap<String, String>,
}

impl Session {
    /// Begins to shop for a goal, given by its number in [`Shop::goals`]; none if there is no such goal.
    #[must_use]
    pub fn new(shop: Arc<Shop>, goal: usize) -> Option<Self> {
        let page = Page::index(&shop.goals().get(goal)?.instruction);
        Some(Self {
            shop,
            goal,
            place: Place::Index,
            found: Vec::new(),
            results_page: 1,
            page,
        })
    }

    /// What the customer sees.
    #[must_use]
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// What the purchase was worth, once it is made.
    #[must_use]
    pub fn reward(&self) -> Option<&Reward> {
        match &self.place {
            Place::Done(reward) => Some(reward),
            _ => None,
        }
    }

    /// Does `search[words]` or `click[text]`. What is neither, or not on the page, changes nothing; searching works on every
    /// page, as it does officially. After the purchase nothing changes any more.
    ///
    /// # Errors
    /// The shop's temporary file can not be read.
    pub fn act(&mut self, action: &str) -> io::Result<()> {
        if matches!(self.place, Place::Done(_)) {
            return Ok(());
        }
        match parse(action) {
            Some(("search", words)) => {
                let found = self.shop.search(&words.to_lowercase());
                self.found = found.into_iter().map(|(number, _)| number).collect();
                self.show_results(1)
            }
            Some(("click", text)) => {
                let text = text.to_lowercase();
                if text != "search" && self.page.clickables.contains(&text) {
                    self.click(&text)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn click(&mut self, text: &str) -> io::Result<()> {
        if text == "back to search" {
            self.place = Place::Index;
            self.page = Page::index(self.instruction());
            return Ok(());
        }
        match &mut self.place {
            Place::Index | Place::Done(_) => Ok(()),
            Place::Results => match text {
                "next >" => self.show_results(self.results_page + 1),
                "< prev" => self.show_results(self.results_page - 1),
                asin => self.open(&asin.to_uppercase()),
            },
            Place::SubPage(visit) => {
                // Nothing but the way back is left to click here.
                self.place = Place::Item(visit.clone());
                self.show_item();
                Ok(())
            }
            Place::Item(visit) => match (text, SubPage::of(text)) {
                ("buy now", _) => self.buy(),
                ("< prev", _) => self.show_results(self.results_page),
                (_, Some(which)) => {
                    let visit = visit.clone();
                    self.page = Page::sub_page(self.instruction(), &visit.product, which);
                    self.place = Place::SubPage(visit);
                    Ok(())
                }
                (value, None) => {
                    // A value of two groups is taken for the later one.
                    let has =
                        |(_, values): &&(String, Vec<String>)| values.iter().any(|known| known == value);
                    if let Some((name, _)) = visit.product.options.iter().rev().find(has) {
                        visit.options.insert(name.clone(), value.to_owned());
                    }
                    Ok(())
                }
            },
        }
    }

    fn instruction(&self) -> &str {
        &self.shop.goals()[self.goal].instruction
    }

    /// Shows results. What was chosen of a product is forgotten.
    fn show_results(&mut self, number: usize) -> io::Result<()> {
        let shown = self.found.iter().skip((number - 1) * PER_PAGE).take(PER_PAGE);
        let products: Vec<_> = shown
            .map(|product| self.shop.product(*product))
            .collect::<io::Result<_>>()?;
        self.page = Page::results(self.instruction(), number, self.found.len(), &products);
        self.results_page = number;
        self.place = Place::Results;
        Ok(())
    }

    fn open(&mut self, asin: &str) -> io::Result<()> {
        let Some(number) = self.shop.number(asin) else {
            return Ok(());
        };
        self.place = Place::Item(Visit {
            number,
            product: self.shop.product(number)?,
            options: BTreeMap::new(),
        });
        self.show_item();
        Ok(())
    }

    fn show_item(&mut self) {
        if let Place::Item(visit) = &self.place {
            self.page = Page::item(self.instruction(), &visit.product);
        }
    }

    fn buy(&mut self) -> io::Result<()> {
        if let Place::Item(visit) = &self.place {
            let goal = &self.shop.goals()[self.goal];
            let reward = self.shop.reward(goal, visit.number, &visit.options)?;
            self.place = Place::Done(reward);
            self.page = Page::done();
        }
        Ok(())
    }
}

/// `name[argument]`, divided at the last bracket that leaves both something, in the first line.
fn parse(action: &str) -> Option<(&str, &str)> {
    let line = action.trim().lines().next()?;
    let (inside, _) = line.rsplit_once(']')?;
    let mut brackets = inside.rmatch_indices('[').map(|(at, _)| at);
    let start = brackets.find(|at| *at > 0 && at + 1 < inside.len())?;
    Some((&line[..start], &inside[start + 1..]))
}
