//! What was done in a purchase, as its list of actions tells.

use super::{
    habits::{Check, Phrasing},
    request::Request,
};

/// A purchase, search by search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Account {
    /// What was wanted.
    pub(crate) request: Request,
    pub(crate) searches: Vec<Search>,
    /// What was read of products.
    pub(crate) checks: Vec<Check>,
    /// Whether results were leafed through.
    pub(crate) turned_pages: bool,
    pub(crate) bought: bool,
    /// Options that were chosen of the last product.
    pub(crate) chosen: Vec<String>,
}

/// A search and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) phrasing: Phrasing,
    /// Products that were opened, in this order.
    pub(crate) opened: Vec<String>,
}

impl Account {
    /// Follows actions. Where a product can be clicked is known from what was done before.
    pub(crate) fn of<'a>(instruction: &str, actions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut account = Self {
            request: Request::read(instruction),
            searches: Vec::new(),
            checks: Vec::new(),
            turned_pages: false,
            bought: false,
            chosen: Vec::new(),
        };
        let mut at_results = false;
        let mut beneath = false;
        for action in actions {
            let Some((verb, argument)) = action
                .trim()
                .strip_suffix(']')
                .and_then(|text| text.split_once('['))
            else {
                continue;
            };
            match (verb, argument) {
                ("search", query) => {
                    account.searches.push(Search {
                        phrasing: account.phrasing_of(query),
                        opened: Vec::new(),
                    });
                    at_results = true;
                    beneath = false;
                }
                ("click", "next >") => account.turned_pages = true,
                ("click", "< prev") if beneath => beneath = false,
                ("click", "< prev") => at_results = true,
                ("click", "back to search" | "reviews") => {}
                ("click", "features") => {
                    account.read(Check::Features);
                    beneath = true;
                }
                ("click", "description") => {
                    account.read(Check::Description);
                    beneath = true;
                }
                ("click", "buy now") => account.bought = true,
                ("click", product) if at_results => {
                    at_results = false;
                    account.chosen.clear();
                    if let Some(search) = account.searches.last_mut() {
                        search.opened.push(product.to_owned());
                    }
                }
                ("click", option) => account.chosen.push(option.to_owned()),
                _ => {}
            }
        }
        account
    }

    fn read(&mut self, page: Check) {
        if !self.checks.contains(&page) {
            self.checks.push(page);
        }
    }

    /// The parts of the instruction that are all in a query.
    fn phrasing_of(&self, query: &str) -> Phrasing {
        let words: Vec<&str> = query.split_whitespace().collect();
        let has = |part: &str| !part.is_empty() && part.split_whitespace().all(|word| words.contains(&word));
        let request = &self.request;
        let all = |parts: &[&str]| !parts.is_empty() && parts.iter().all(|part| has(part));
        let features: Vec<&str> = request.features.iter().map(String::as_str).collect();
        let options: Vec<String> = request
            .options
            .iter()
            .map(|(_, value)| value.replace(['[', ']'], " "))
            .collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Phrasing::of(has(&request.kind), all(&features), all(&options))
    }

    /// Whether everything that had to be chosen was chosen.
    pub(crate) fn chose_all(&self) -> bool {
        self.request
            .options
            .iter()
            .all(|(_, value)| self.chosen.contains(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_understood() {
        let account = Account::of(
            "Find me solid wood beds with size: king, and price lower than 30.00 dollars",
            [
                "search[wood beds]",
                "click[b000000001]",
                "click[features]",
                "click[< prev]",
                "click[king]",
                "click[< prev]",
                "click[b000000002]",
                "nonsense",
                "click[back to search]",
                "search[beds king]",
                "click[next >]",
                "click[b000000003]",
                "click[king]",
                "click[buy now]",
            ],
        );
        assert_eq!(account.searches.len(), 2);
        assert_eq!(account.searches[0].opened, ["b000000001", "b000000002"]);
        assert_eq!(account.searches[1].opened, ["b000000003"]);
        let phrasings = account.searches.iter().map(|search| search.phrasing);
        assert_eq!(
            phrasings.collect::<Vec<_>>(),
            [Phrasing::of(true, false, false), Phrasing::of(true, false, true)]
        );
        assert_eq!(account.checks, [Check::Features]);
        assert!(account.turned_pages && account.bought && account.chose_all());
        assert!(Account::of("", []).searches.is_empty());
    }
}
