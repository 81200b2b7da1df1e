//! How the customer goes about it: one choice for every question that a purchase asks.

use rand::{Rng, RngExt, seq::SliceRandom};

use super::request::Request;

/// Which parts of an instruction a query is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Phrasing {
    pub(crate) kind: bool,
    pub(crate) features: bool,
    pub(crate) options: bool,
}

impl Phrasing {
    /// Those that a customer thinks of.
    pub(crate) const ALL: [Self; 6] = [
        Self::of(true, false, false),
        Self::of(false, true, false),
        Self::of(true, true, false),
        Self::of(true, false, true),
        Self::of(false, true, true),
        Self::of(true, true, true),
    ];

    pub(crate) const fn of(kind: bool, features: bool, options: bool) -> Self {
        Self {
            kind,
            features,
            options,
        }
    }

    /// Its words for a wish; all of it, if the wish has nothing of these parts.
    pub(crate) fn query(self, request: &Request) -> String {
        let mut parts: Vec<&str> = Vec::new();
        if self.kind {
            parts.push(&request.kind);
        }
        if self.features {
            parts.extend(request.features.iter().map(String::as_str));
        }
        if self.options {
            parts.extend(request.options.iter().map(|(_, value)| value.as_str()));
        }
        let query = parts.join(" ");
        if query.trim().is_empty() && self != Self::of(true, true, true) {
            return Self::of(true, true, true).query(request);
        }
        // Brackets end an action.
        query.replace(['[', ']'], " ").trim().to_owned()
    }

    /// How one says it.
    pub(crate) const fn words(self) -> &'static str {
        match (self.kind, self.features, self.options) {
            (true, false, false) => "the kind only",
            (false, true, false) => "the features only",
            (true, true, false) => "the kind and the features",
            (true, false, true) => "the kind and the options",
            (false, true, true) => "the features and the options",
            (false, false, true) => "the options only",
            _ => "the kind, the features and the options",
        }
    }
}

/// Which result is opened first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the page lists them.
    Listed,
    /// Those whose titles say most of what is wanted.
    Title,
    /// The cheapest.
    Price,
}

/// What is read before buying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Nothing but the product's main page.
    Nothing,
    /// The list of features.
    Features,
    /// The description.
    Description,
}

impl Check {
    /// The button that shows it.
    pub(crate) const fn button(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Features => Some("features"),
            Self::Description => Some("description"),
        }
    }
}

/// What is done when the products looked at do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// The one at hand is bought.
    Settle,
    /// Another query.
    SearchAgain,
    /// The next page of results.
    NextPage,
}

/// A customer's habits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Habits {
    /// Queries, one after the other.
    pub(super) phrasings: Vec<Phrasing>,
    pub(super) order: Order,
    pub(super) check: Check,
    /// Products to look at before something else is done.
    pub(super) patience: usize,
    pub(super) otherwise: Otherwise,
}

impl Habits {
    /// What a customer does of its own accord, today.
    pub(super) fn by_lot(rng: &mut impl Rng) -> Self {
        let mut phrasings = Phrasing::ALL.to_vec();
        phrasings.shuffle(rng);
        Self {
            phrasings,
            order: [Order::Listed, Order::Listed, Order::Title, Order::Price][rng.random_range(0..4)],
            check: [
                Check::Nothing,
                Check::Nothing,
                Check::Features,
                Check::Description,
            ][rng.random_range(0..4)],
            patience: rng.random_range(1..=4),
            otherwise: [
                Otherwise::Settle,
                Otherwise::Settle,
                Otherwise::SearchAgain,
                Otherwise::NextPage,
            ][rng.random_range(0..4)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_hold_the_parts_they_are_made_of() {
        let request = Request {
            kind: "beds".into(),
            features: vec!["solid wood".into()],
            options: vec![("size".into(), "[king]".into())],
            price: None,
        };
        let check = |kind, features, options, query: &str| {
            assert_eq!(Phrasing::of(kind, features, options).query(&request), query);
        };
        check(true, false, false, "beds");
        check(false, true, true, "solid wood  king");
        let bare = Request {
            kind: "beds".into(),
            ..Request::default()
        };
        assert_eq!(Phrasing::of(false, true, false).query(&bare), "beds");
        assert_eq!(Phrasing::of(false, true, false).query(&Request::default()), "");
    }
}
