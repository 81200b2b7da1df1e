//! A page of results, as far as a customer reads it.

use super::{habits::Order, request::Request};

/// The products on a page of results, as listed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<'p>(Vec<Found<'p>>);

/// A product in a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<'p> {
    /// What to click to open it.
    pub(crate) id: String,
    pub(crate) title: &'p str,
    pub(crate) price: Option<f64>,
}

impl<'p> Results<'p> {
    /// Reads a page.
    pub(crate) fn read(page: &'p str) -> Self {
        let mut found: Vec<Found<'p>> = Vec::new();
        for text in page.split(" [SEP] ") {
            if is_id(text) {
                found.push(Found {
                    id: text.to_lowercase(),
                    title: "",
                    price: None,
                });
            } else if let Some(last) = found.last_mut() {
                match price_of(text) {
                    Some(price) => last.price = Some(price),
                    None => last.title = text,
                }
            }
        }
        Self(found)
    }

    /// The products that may be had for the price and pass, in an order.
    pub(crate) fn ordered(
        mut self,
        order: Order,
        request: &Request,
        passes: impl Fn(&Found<'p>) -> bool,
    ) -> Vec<Found<'p>> {
        let limit = request.price.unwrap_or(f64::INFINITY);
        let price = |result: &Found<'_>| result.price.unwrap_or(f64::INFINITY);
        self.0
            .retain(|result| passes(result) && result.price.is_none_or(|price| price <= limit));
        match order {
            Order::Listed => {}
            Order::Title => self
                .0
                .sort_by_key(|result| usize::MAX - request.words_in(result.title)),
            Order::Price => self.0.sort_by(|one, other| price(one).total_cmp(&price(other))),
        }
        self.0
    }

    /// The order in which this product is the first; none, if in none.
    pub(crate) fn reason_for(&self, id: &str, request: &Request) -> Option<Order> {
        [Order::Listed, Order::Price, Order::Title]
            .into_iter()
            .find(|order| {
                self.clone()
                    .ordered(*order, request, |_| true)
                    .first()
                    .is_some_and(|first| first.id == id)
            })
    }
}

/// Ten capitals and digits.
fn is_id(text: &str) -> bool {
    text.len() == 10
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The number of a price tag; of a range, the lower end.
fn price_of(tag: &str) -> Option<f64> {
    let number: String = tag
        .strip_prefix('$')?
        .chars()
        .filter(|letter| *letter != ',')
        .take_while(|letter| letter.is_ascii_digit() || *letter == '.')
        .collect();
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_and_put_in_order() {
        let page = "Instruction: [SEP] Find me beds [SEP] Back to Search [SEP] Page 1 (Total results: 3) [SEP] B000000001 [SEP] \
                    A chair [SEP] $9.50 [SEP] B000000002 [SEP] Wooden beds [SEP] $1,200.0 to $1,300.0 [SEP] B000000003 [SEP] A \
                    stool [SEP] $7.00";
        let request = Request::read("Find me beds, and price lower than 2000.00 dollars");
        let results = Results::read(page);
        let ids = |order| {
            let found = results.clone().ordered(order, &request, |_| true);
            found
                .iter()
                .map(|found| found.id.bytes().last().unwrap_or(0) - b'0')
                .collect::<Vec<u8>>()
        };
        assert_eq!(ids(Order::Listed), [1, 2, 3]);
        assert_eq!(ids(Order::Price), [3, 1, 2]);
        assert_eq!(ids(Order::Title), [2, 1, 3]);
        assert_eq!(results.reason_for("b000000001", &request), Some(Order::Listed));
        assert_eq!(results.reason_for("b000000002", &request), Some(Order::Title));
        assert_eq!(results.reason_for("b000000009", &request), None);
        let cheap = Request::read("Find me beds, and price lower than 8.00 dollars");
        assert_eq!(results.clone().ordered(Order::Listed, &cheap, |_| true).len(), 1);
        assert!(Results::read("").0.is_empty());
    }
}
