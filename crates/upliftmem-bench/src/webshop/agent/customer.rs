//! The customer: one action after another until something is bought.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{
    super::environment::ACTIONS_MAX,
    habits::{Habits, Otherwise},
    notes::{self, Note},
    request::Request,
    results::Results,
};

/// All that a customer is shown at a turn.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'s> {
    /// The page.
    pub observation: &'s str,
    /// What can be done on it.
    pub actions: &'s [String],
}

impl Sight<'_> {
    fn can_click(&self, text: &str) -> bool {
        self.actions.iter().any(|action| {
            action
                .strip_prefix("click[")
                .and_then(|rest| rest.strip_suffix(']'))
                == Some(text)
        })
    }

    fn can_search(&self) -> bool {
        self.actions.iter().any(|action| action.starts_with("search["))
    }
}

/// A scripted customer with the notes it was given.
#[derive(Clone, Debug)]
pub struct Customer {
    notes: Vec<Note>,
    rng: ChaCha8Rng,
    errand: Option<Errand>,
    done: usize,
}

/// A purchase under way.
#[derive(Clone, Debug)]
struct Errand {
    request: Request,
    habits: Habits,
    queries: usize,
    /// Products that were opened since the last query or leafing.
    looked: usize,
    seen: BTreeSet<String>,
    product: Product,
    turns_page: bool,
}

/// What is known of the product at hand.
#[derive(Clone, Debug, Default)]
struct Product {
    title: String,
    chosen: BTreeSet<String>,
    is_read: bool,
    is_refused: bool,
}

impl Customer {
    /// A customer that has read these memories, in this order, and draws its lots from this seed.
    pub fn new<'t>(memories: impl IntoIterator<Item = &'t str>, seed: u64) -> Self {
        Self {
            notes: notes::read(memories),
            rng: ChaCha8Rng::seed_from_u64(seed),
            errand: None,
            done: 0,
        }
    }

    /// The next action, or none if the customer knows no further. The first sight is the page where shopping begins.
    pub fn act(&mut self, sight: Sight<'_>) -> Option<String> {
        if self.errand.is_none() {
            let mut habits = Habits::by_lot(&mut self.rng);
            notes::follow(&self.notes, &mut habits);
            self.errand = Some(Errand {
                request: Request::read(instruction(sight.observation)?),
                habits,
                queries: 0,
                looked: 0,
                seen: BTreeSet::new(),
                product: Product::default(),
                turns_page: false,
            });
        }
        let left = ACTIONS_MAX.saturating_sub(self.done);
        self.done += 1;
        let errand = self.errand.as_mut()?;
        if sight.can_search() {
            errand.searching()
        } else if sight.can_click("buy now") {
            Some(errand.looking(sight, left))
        } else if sight.observation.contains("(Total results: ") {
            errand.choosing(sight)
        } else {
            errand.reading(sight)
        }
    }
}

fn click(text: &str) -> String {
    format!("click[{text}]")
}

/// The instruction that stands on every page.
fn instruction(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("Instruction: [SEP] ")?;
    rest.split(" [SEP] ").next()
}

impl Errand {
    /// The next query that was not made yet.
    fn searching(&mut self) -> Option<String> {
        let phrasing = self.habits.phrasings.get(self.queries)?;
        self.queries += 1;
        self.looked = 0;
        self.turns_page = false;
        Some(format!("search[{}]", phrasing.query(&self.request)))
    }

    /// Which product to open: one that may be had for the price and was not opened before.
    fn choosing(&mut self, sight: Sight<'_>) -> Option<String> {
        if std::mem::take(&mut self.turns_page) && sight.can_click("next >") {
            self.looked = 0;
            return Some(click("next >"));
        }
        let found = Results::read(sight.observation).ordered(self.habits.order, &self.request, |result| {
            !self.seen.contains(&result.id) && sight.can_click(&result.id)
        });
        if let Some(best) = found.first() {
            self.looked += 1;
            self.seen.insert(best.id.clone());
            self.product = Product {
                title: best.title.to_lowercase(),
                ..Product::default()
            };
            return Some(click(&best.id));
        }
        let away = ["next >", "back to search"]
            .into_iter()
            .find(|button| sight.can_click(button))?;
        Some(click(away))
    }

    /// On a product's page: choose, read, buy, or leave.
    fn looking(&mut self, sight: Sight<'_>, left: usize) -> String {
        let wanted = self.request.options.iter().map(|(_, value)| value);
        let (there, missing): (Vec<&String>, Vec<&String>) = wanted.partition(|value| sight.can_click(value));
        let to_choose = there
            .iter()
            .find(|value| !self.product.chosen.contains(**value))
            .map(|value| (*value).clone());
        // What the purchase itself takes.
        let needed = there.len()
            - there
                .iter()
                .filter(|value| self.product.chosen.contains(**value))
                .count()
            + 1;
        let fits = missing.is_empty() && !self.product.is_refused;
        if fits
            && !self.product.is_read
            && let Some(button) = self.habits.check.button()
            && left >= needed + 2
            && sight.can_click(button)
        {
            self.product.is_read = true;
            return click(button);
        }
        // To another product and what it takes to buy it, as far as that can be known before.
        let elsewhere = 2 + self.request.options.len() + 1;
        if !fits
            && left >= elsewhere
            && let Some(action) = self.leaving(left > elsewhere)
        {
            return action;
        }
        match to_choose {
            Some(value) if left >= needed => {
                self.product.chosen.insert(value.clone());
                click(&value)
            }
            _ => click("buy now"),
        }
    }

    /// Away from a product that does not fit; none if the customer settles for it. A detour takes an action more.
    fn leaving(&mut self, has_time_for_a_detour: bool) -> Option<String> {
        if self.looked < self.habits.patience {
            return Some(click("< prev"));
        }
        match self.habits.otherwise {
            Otherwise::SearchAgain if has_time_for_a_detour && self.queries < self.habits.phrasings.len() => {
                Some(click("back to search"))
            }
            Otherwise::NextPage if has_time_for_a_detour => {
                self.turns_page = true;
                Some(click("< prev"))
            }
            _ => None,
        }
    }

    /// Whether everything wanted is said beneath a product, or in its title.
    fn reading(&mut self, sight: Sight<'_>) -> Option<String> {
        let text = sight
            .observation
            .split(" [SEP] ")
            .skip(2)
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        let says = |word: &str| text.contains(word) || self.product.title.contains(word);
        let is_said = |feature: &String| feature.split_whitespace().all(says);
        self.product.is_refused = !self.request.features.iter().all(is_said);
        sight.can_click("< prev").then(|| click("< prev"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: &str =
        "Instruction: [SEP] Find me solid wood beds with size: king, and price lower than 30.00 dollars";

    /// What a customer who read these memories does on these pages.
    fn actions(memories: &[&str], pages: &[(&str, &[&str])]) -> Vec<String> {
        let mut customer = Customer::new(memories.iter().copied(), 1);
        let act = |(text, actions): &(&str, &[&str])| {
            let observation = format!("{WISH} [SEP] {text}");
            let actions: Vec<String> = actions.iter().map(|action| (*action).to_owned()).collect();
            let sight = Sight {
                observation: &observation,
                actions: &actions,
            };
            customer.act(sight).unwrap_or_default()
        };
        pages.iter().map(act).collect()
    }

    const START: (&str, &[&str]) = ("Search", &["search[keywords]"]);
    const FOUND: (&str, &[&str]) = (
        "Back to Search [SEP] Page 1 (Total results: 30) [SEP] Next > [SEP] B000000001 [SEP] A bed [SEP] $31.00 [SEP] B000000002 \
         [SEP] Beds [SEP] $20.00 [SEP] B000000003 [SEP] Solid wood beds [SEP] $25.00",
        &[
            "click[back to search]",
            "click[next >]",
            "click[b000000001]",
            "click[b000000002]",
            "click[b000000003]",
        ],
    );
    const QUEEN: (&str, &[&str]) = (
        "size [SEP] queen",
        &[
            "click[< prev]",
            "click[features]",
            "click[buy now]",
            "click[queen]",
        ],
    );
    const KING: (&str, &[&str]) = (
        "size [SEP] king",
        &[
            "click[< prev]",
            "click[features]",
            "click[buy now]",
            "click[king]",
        ],
    );

    #[test]
    fn it_does_what_it_is_told() {
        let plain = "Search for the kind and the options. Open the results in the order of the page. Do not read the features.";
        assert_eq!(
            actions(
                &[plain, "Look at two products."],
                &[START, FOUND, QUEEN, FOUND, KING, KING]
            ),
            [
                "search[beds king]",
                "click[b000000002]",
                "click[< prev]",
                "click[b000000003]",
                "click[king]",
                "click[buy now]"
            ]
        );
        assert_eq!(
            actions(
                &[plain, "Buy the first product. If nothing fits, settle."],
                &[START, FOUND, QUEEN]
            )[2],
            "click[buy now]"
        );
        assert_eq!(
            actions(
                &[
                    plain,
                    "Buy the first product. If nothing fits, go to the next page of results."
                ],
                &[START, FOUND, QUEEN, FOUND]
            )[2..],
            ["click[< prev]", "click[next >]"]
        );
        assert_eq!(
            actions(
                &["Search for the features only. Open first what says most of it in its title."],
                &[START, FOUND]
            ),
            ["search[solid wood]", "click[b000000003]"]
        );
    }

    #[test]
    fn what_is_read_decides() {
        let told =
            "Search for the kind. Open the cheapest. Check the features before you buy. Look at 3 products.";
        let says = (
            "Back to Search [SEP] < Prev [SEP] Made of solid wood",
            &["click[< prev]"][..],
        );
        let is_silent = ("Back to Search [SEP] < Prev [SEP] Soft", &["click[< prev]"][..]);
        let after = |page| actions(&[told], &[START, FOUND, KING, page, KING])[2..].to_vec();
        assert_eq!(after(says), ["click[features]", "click[< prev]", "click[king]"]);
        assert_eq!(
            after(is_silent),
            ["click[features]", "click[< prev]", "click[< prev]"]
        );
    }

    #[test]
    fn pages_of_no_known_sort_are_survived() {
        assert_eq!(
            actions(&[], &[("", &[]), ("Page 1 (Total results: 0)", &[])]),
            ["", ""]
        );
        assert_eq!(
            Customer::new([], 1).act(Sight {
                observation: "",
                actions: &[]
            }),
            None
        );
    }
}
