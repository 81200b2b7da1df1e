//! What a purchase is worth.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::fuzzy::is_alike;
use super::goals::{Goal, GoalOption};
use super::product::Product;

/// Words that name a colour; the first in this order that stands in an option stands for the option.
const COLOURS: [&str; 102] = [
    "alabaster",
    "apricot",
    "aqua",
    "ash",
    "asphalt",
    "azure",
    "banana",
    "beige",
    "black",
    "blue",
    "blush",
    "bordeaux",
    "bronze",
    "brown",
    "burgundy",
    "camel",
    "camo",
    "caramel",
    "champagne",
    "charcoal",
    "cheetah",
    "chestnut",
    "chocolate",
    "christmas",
    "coffee",
    "cognac",
    "copper",
    "coral",
    "cranberry",
    "cream",
    "crystal",
    "dark",
    "denim",
    "eggplant",
    "elephant",
    "espresso",
    "fuchsia",
    "gold",
    "granite",
    "grape",
    "graphite",
    "grass",
    "gray",
    "green",
    "grey",
    "heather",
    "indigo",
    "ivory",
    "ivy",
    "khaki",
    "lavender",
    "lemon",
    "leopard",
    "light",
    "lilac",
    "lime",
    "magenta",
    "maroon",
    "mauve",
    "merlot",
    "midnight",
    "mint",
    "mocha",
    "multicolor",
    "mushroom",
    "mustard",
    "natural",
    "navy",
    "nude",
    "olive",
    "orange",
    "peach",
    "pewter",
    "pink",
    "plum",
    "purple",
    "rainbow",
    "red",
    "rose",
    "royal",
    "rust",
    "sand",
    "sapphire",
    "seashell",
    "silver",
    "skull",
    "slate",
    "steel",
    "stone",
    "stonewash",
    "sunflower",
    "tan",
    "taupe",
    "teal",
    "tiger",
    "turquoise",
    "violet",
    "walnut",
    "wheat",
    "white",
    "wine",
    "yellow",
];

/// A reward and what it is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Reward {
    /// Between 0 and 1, which is a success.
    pub total: f64,
    /// How well the kind of product fits: 1, 0.5, 0.1 or 0.
    pub type_factor: f64,
    /// Attributes of the goal that the product has.
    pub attributes_matched: usize,
    /// Options of the goal that were chosen.
    pub options_matched: usize,
    /// Whether the price is within the limit.
    pub is_within_price: bool,
}

/// Judges the purchase of a product with the options chosen; `goal_nouns` are those of the title that was asked for.
pub(super) fn reward(
    product: &Product,
    chosen: &BTreeMap<String, String>,
    goal: &Goal,
    goal_nouns: &[String],
) -> Reward {
    let has = |wanted: &&String| {
        product
            .attributes
            .iter()
            .any(|attribute| is_alike(attribute, wanted))
            || product.mentions(wanted)
    };
    let attributes_matched = goal.attributes.iter().filter(has).count();
    let chosen: Vec<&str> = chosen.values().map(|option| colour(option)).collect();
    let is_chosen = |wanted: &&GoalOption| {
        let wanted = asked(wanted);
        chosen.iter().any(|option| is_alike(option, &wanted))
    };
    let options_matched = goal.options.iter().filter(is_chosen).count();
    let is_within_price = product.price <= goal.price_upper;
    let type_factor = type_factor(product, goal, goal_nouns);
    let matched = attributes_matched + options_matched + usize::from(is_within_price);
    let wanted = goal.attributes.len() + goal.options.len() + 1;
    Reward {
        total: matched as f64 / wanted as f64 * type_factor,
        type_factor,
        attributes_matched,
        options_matched,
        is_within_price,
    }
}

fn colour(option: &str) -> &str {
    COLOURS
        .into_iter()
        .find(|colour| option.contains(colour))
        .unwrap_or(option)
}

/// An option of a goal as it is compared.
///
/// The official code compares the option of a made goal together with the name of its group, as Python writes the pair of them:
/// `('size', 'x-large')`. So "large" is alike, since both its words occur, and "xx-large" is not; and a colour is found only if it
/// is all of the option. People's goals name no groups.
fn asked(option: &GoalOption) -> Cow<'_, str> {
    let Some(group) = &option.group else {
        return colour(&option.value).into();
    };
    let is_colour = |colour: &&str| *colour == group || *colour == option.value;
    match COLOURS.into_iter().find(is_colour) {
        Some(colour) => colour.into(),
        None => format!(
            "{} {}",
            written_by_python(group),
            written_by_python(&option.value)
        )
        .into(),
    }
}

/// A text as Python's `repr` writes it, which spells out what can not be seen: a no-break space becomes the word `xa0`.
fn written_by_python(text: &str) -> Cow<'_, str> {
    if !text.contains(is_spelled_out) {
        return text.into();
    }
    let mut written = String::new();
    for letter in text.chars() {
        match (letter, u32::from(letter)) {
            ('\t', _) => written += "\\t",
            ('\n', _) => written += "\\n",
            ('\r', _) => written += "\\r",
            (_, code) if !is_spelled_out(letter) || code > 0xffff => written.push(letter),
            (_, code) if code <= 0xff => written += &format!("\\x{code:02x}"),
            (_, code) => written += &format!("\\u{code:04x}"),
        }
    }
    written.into()
}

fn is_spelled_out(letter: char) -> bool {
    letter.is_control()
        || (letter.is_whitespace() && letter != ' ')
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn type_factor(product: &Product, goal: &Goal, goal_nouns: &[String]) -> f64 {
    let overlap = if goal_nouns.is_empty() {
        0.2
    } else {
        let asked: BTreeSet<&String> = goal_nouns.iter().collect();
        let bought: BTreeSet<&String> = product.title_nouns.iter().collect();
        bought.intersection(&asked).count() as f64 / goal_nouns.len() as f64
    };
    if overlap == 0.0 {
        return 0.0;
    }
    if overlap < 0.1 {
        return 0.1;
    }
    let is_of_the_kind = product.query == goal.query
        || common_departments(&product.product_category, &goal.product_category) >= 2
        || overlap > 0.2;
    if is_of_the_kind { 1.0 } else { 0.5 }
}

fn common_departments(one: &str, other: &str) -> usize {
    let one: BTreeSet<&str> = one.split('›').map(str::trim).collect();
    let other: BTreeSet<&str> = other.split('›').map(str::trim).collect();
    one.intersection(&other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_compared_as_officially() {
        let check = |chosen: &str, group: Option<&str>, value: &str, expected: bool| {
            let option = GoalOption {
                group: group.map(str::to_owned),
                value: value.to_owned(),
            };
            assert_eq!(
                is_alike(colour(chosen), &asked(&option)),
                expected,
                "{chosen} for {group:?} {value}"
            );
        };
        check("large", Some("size"), "x-large", true);
        check("xx-large", Some("size"), "x-large", false);
        check("xx-large", None, "x-large", true);
        check("navy blue", Some("color"), "blue", true);
        check("228black", Some("color"), "228black", false);
        check("228black", None, "228black", true);
        check("opal heather", Some("color"), "dark heather", true);
        check("a1-wine\u{a0}red", Some("color"), "a1-wine\u{a0}red", false);
    }
}
