//! What a customer sees: the texts of a page and what can be clicked on it.

use std::sync::Arc;

use super::product::Product;

/// Products shown on a page of results.
pub(super) const PER_PAGE: usize = 10;

/// A page as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its visible texts, joined by ` [SEP] `.
    pub text: String,
    /// Whether words can be searched for here.
    pub has_search_bar: bool,
    /// What can be clicked, in lower case.
    pub clickables: Vec<String>,
}

/// A page of a product beneath its main page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubPage {
    /// The description.
    Description,
    /// The list of features.
    Features,
    /// Reviews; the published catalogues have none.
    Reviews,
}

impl SubPage {
    /// The sub page behind a button.
    pub(super) fn of(button: &str) -> Option<Self> {
        match button {
            "description" => Some(Self::Description),
            "features" => Some(Self::Features),
            "reviews" => Some(Self::Reviews),
            _ => None,
        }
    }
}

impl Page {
    /// Where shopping begins.
    #[must_use]
    pub fn index(instruction: &str) -> Self {
        let mut page = Writer::default();
        page.text("WebShop");
        page.instruction(instruction);
        page.button("Search");
        page.finish(true)
    }

    /// One page, counted from 1, of `total` results, with the products on it.
    #[must_use]
    pub fn results(instruction: &str, number: usize, total: usize, products: &[Arc<Product>]) -> Self {
        let mut page = Writer::default();
        page.instruction(instruction);
        page.button("Back to Search");
        page.text(&format!("Page {number} (Total results: {total})"));
        if number > 1 {
            page.button("< Prev");
        }
        if number * PER_PAGE < total {
            page.button("Next >");
        }
        for product in products {
            page.button(&product.asin);
            page.text(&product.title);
            page.text(&product.price_tag);
        }
        page.finish(false)
    }

    /// The main page of a product.
    #[must_use]
    pub fn item(instruction: &str, product: &Product) -> Self {
        let mut page = Writer::default();
        page.instruction(instruction);
        page.button("Back to Search");
        page.button("< Prev");
        for (name, values) in &product.options {
            page.text(name);
            for value in values {
                page.text(value);
            }
        }
        page.text(&product.title);
        page.text(&format!("Price: {}", product.price_tag));
        page.text("Rating: N.A.");
        for button in ["Description", "Features", "Reviews", "Buy Now"] {
            page.button(button);
        }
        // Options come after all buttons in the list, wherever they stand.
        for value in product.options.iter().flat_map(|(_, values)| values) {
            page.clickable(value.clone());
        }
        page.finish(false)
    }

    /// A page beneath the main page of a product.
    #[must_use]
    pub fn sub_page(instruction: &str, product: &Product, which: SubPage) -> Self {
        let mut page = Writer::default();
        page.instruction(instruction);
        page.button("Back to Search");
        page.button("< Prev");
        match which {
            SubPage::Description => page.text(&product.description),
            SubPage::Features => {
                for point in &product.bullet_points {
                    // An empty point is still a line of the list.
                    page.texts.push(point.trim().to_owned());
                }
            }
            SubPage::Reviews => {}
        }
        page.finish(false)
    }

    /// After the purchase. The official page goes on with the score, which is for whoever judges, not for the customer.
    #[must_use]
    pub fn done() -> Self {
        let mut page = Writer::default();
        page.text("Thank you for shopping with us!");
        page.finish(false)
    }
}

#[derive(Default)]
struct Writer {
    texts: Vec<String>,
    clickables: Vec<String>,
}

impl Writer {
    fn instruction(&mut self, instruction: &str) {
        self.text("Instruction:");
        self.text(instruction);
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.texts.push(text.trim().to_owned());
        }
    }

    fn button(&mut self, text: &str) {
        self.text(text);
        self.clickable(text.to_lowercase());
    }

    /// Two things with one text are one entry.
    fn clickable(&mut self, text: String) {
        if !self.clickables.contains(&text) {
            self.clickables.push(text);
        }
    }

    fn finish(self, has_search_bar: bool) -> Page {
        Page {
            text: self.texts.join(" [SEP] "),
            has_search_bar,
            clickables: self.clickables,
        }
    }
}
