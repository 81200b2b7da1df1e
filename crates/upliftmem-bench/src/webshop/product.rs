//! What the shop sells.

use serde::{Deserialize, Serialize};

/// A product as its pages show it and as the reward judges it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product {
    /// The shop's number for it.
    pub asin: String,
    /// Its name.
    pub title: String,
    /// What the description page says; often nothing.
    pub description: String,
    /// What the features page lists.
    pub bullet_points: Vec<String>,
    /// The price as shown: one, or a range.
    pub price_tag: String,
    /// What it costs at the till: within the range that is shown.
    pub price: f64,
    /// What can be chosen, and among which values; in the order of the page.
    pub options: Vec<(String, Vec<String>)>,
    /// What it is said to be, hidden from the customer: "easy clean", "long sleeve".
    pub attributes: Vec<String>,
    /// The search that the product was collected with.
    pub query: String,
    /// Its place in the shop's departments, "A › B › C".
    pub product_category: String,
    /// Nouns of the title in lower case, once for every time they occur.
    pub title_nouns: Vec<String>,
}

impl Product {
    /// The text that search finds it by.
    pub(super) fn contents(&self) -> String {
        let options: Vec<_> = self
            .options
            .iter()
            .map(|(name, values)| format!("{name}: {}", values.join(", ")))
            .collect();
        let first = self.bullet_points.first().map_or("", String::as_str);
        format!(
            "{} {} {first} {}",
            self.title,
            self.description,
            options.join(", and ")
        )
        .to_lowercase()
    }

    /// Whether a text stands somewhere on its pages, whatever the case.
    pub(super) fn mentions(&self, text: &str) -> bool {
        self.title.to_lowercase().contains(text)
            || self.bullet_points.join(" ").to_lowercase().contains(text)
            || self.description.to_lowercase().contains(text)
    }
}
