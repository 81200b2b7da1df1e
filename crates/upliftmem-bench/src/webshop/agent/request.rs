//! What the customer is asked to buy, read from the instruction.

/// An instruction in the customer's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Request {
    /// What sort of product.
    pub(crate) kind: String,
    /// What it has to be.
    pub(crate) features: Vec<String>,
    /// What has to be chosen: the name of a group, and the value.
    pub(crate) options: Vec<(String, String)>,
    /// What it may cost.
    pub(crate) price: Option<f64>,
}

/// How instructions begin.
const OPENINGS: [&str; 6] = [
    "find me ",
    "i am looking for ",
    "i'm looking for ",
    "i would like ",
    "i need ",
    "i want ",
];

/// Words that begin the name of a kind.
const WHOSE: [&str; 8] = [
    "men's",
    "women's",
    "children's",
    "boy's",
    "girl's",
    "kid's",
    "kids'",
    "baby's",
];

impl Request {
    /// Reads an instruction. Where its form leaves open which words name the product, the reader guesses; an instruction of no known form is all kind.
    pub(crate) fn read(instruction: &str) -> Self {
        let lower = instruction.trim().trim_end_matches('.').to_lowercase();
        let opening = OPENINGS.iter().find_map(|opening| lower.strip_prefix(opening));
        let (wish, price) = priced(opening.unwrap_or(&lower));
        let (wish, options) = with_options(wish);
        let (head, tail) = match [" with ", " for "]
            .iter()
            .filter_map(|word| wish.find(word))
            .min()
        {
            Some(at) => wish.split_at(at),
            None => (wish, ""),
        };
        let (kind, mut features) = kind_of(head);
        let rest = tail.replace(" for ", ", ").replace(" with ", ", ");
        features.extend(listed(&rest));
        Self {
            kind,
            features,
            options,
            price,
        }
    }

    /// How many words of what is wanted a text has.
    pub(crate) fn words_in(&self, text: &str) -> usize {
        let text = text.to_lowercase();
        let values = self.options.iter().map(|(_, value)| value);
        let wanted = self.features.iter().chain(values).chain([&self.kind]);
        wanted
            .flat_map(|part| part.split_whitespace())
            .filter(|word| text.contains(*word))
            .count()
    }
}

fn listed(text: &str) -> impl Iterator<Item = String> {
    text.split(", ")
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
}

/// The wish, and the most it may cost.
fn priced(text: &str) -> (&str, Option<f64>) {
    let found = [
        ", and price lower than ",
        " and price lower than ",
        " price lower than ",
    ]
    .iter()
    .find_map(|words| text.rsplit_once(words));
    match found {
        Some((wish, price)) => (
            wish,
            price.split(' ').next().and_then(|number| number.parse().ok()),
        ),
        None => (text, None),
    }
}

/// The wish without what has to be chosen, and that.
fn with_options(wish: &str) -> (&str, Vec<(String, String)>) {
    let begins = |at: &usize| {
        let first = wish[at + " with ".len()..].split(", ").next().unwrap_or("");
        first
            .split_once(": ")
            .is_some_and(|(name, _)| !name.contains(" with "))
    };
    let Some(at) = wish.rmatch_indices(" with ").map(|(at, _)| at).find(begins) else {
        return (wish, Vec::new());
    };
    let mut options: Vec<(String, String)> = Vec::new();
    for piece in wish[at + " with ".len()..].split(", and ") {
        match (piece.split_once(": "), options.last_mut()) {
            (Some((name, value)), _) => options.push((name.to_owned(), value.trim().to_owned())),
            // A value with the separator in it.
            (None, Some((_, value))) => *value += &format!(", and {piece}"),
            (None, None) => {}
        }
    }
    (&wish[..at], options)
}

/// The kind and the features before it: "anti slip, machine washable decorative pillows". Features are most often of two
/// words, and nothing else tells where the last one ends.
fn kind_of(head: &str) -> (String, Vec<String>) {
    if let Some(at) = WHOSE.iter().filter_map(|word| head.find(word)).min() {
        return (head[at..].to_owned(), listed(&head[..at]).collect());
    }
    let mut items: Vec<String> = listed(head).collect();
    let Some(mut kind) = items.pop() else {
        return (String::new(), Vec::new());
    };
    // "hair extensions, wigs & accessories" is one kind.
    if kind.contains(" & ")
        && let Some(before) = items.pop()
    {
        kind = format!("{before}, {kind}");
    }
    let mut spaces = kind.match_indices(' ').map(|(at, _)| at);
    if let (Some(_), Some(at)) = (spaces.next(), spaces.next())
        && !kind[..at].contains(',')
    {
        items.push(kind[..at].to_owned());
        kind = kind[at + 1..].to_owned();
    }
    (kind, items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_taken_apart() {
        let check = |text: &str, kind: &str, features: &[&str], options: &[(&str, &str)], price| {
            let expected = Request {
                kind: kind.into(),
                features: features.iter().map(|item| (*item).to_owned()).collect(),
                options: options
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                price,
            };
            assert_eq!(Request::read(text), expected, "{text}");
        };
        check(
            "Find me double sided, machine washable decorative pillows with printing technology with size: 28\" x 28\", and \
             price lower than 30.00 dollars",
            "decorative pillows",
            &["double sided", "machine washable", "printing technology"],
            &[("size", "28\" x 28\"")],
            Some(30.0),
        );
        check(
            "Find me slim fit women's tops, tees & blouses with long sleeve, short sleeve for gym with color: a, and b, and size: small",
            "women's tops, tees & blouses",
            &["slim fit", "long sleeve", "short sleeve", "gym"],
            &[("color", "a, and b"), ("size", "small")],
            None,
        );
        check(
            "Find me high quality hair extensions, wigs & accessories for hair loss with size: 18 inch with clips",
            "hair extensions, wigs & accessories",
            &["high quality", "hair loss"],
            &[("size", "18 inch with clips")],
            None,
        );
        check("throw blankets", "throw blankets", &[], &[], None);
        check("", "", &[], &[], None);
    }

    #[test]
    fn any_text_is_survived() {
        for text in [
            " with ",
            "find me ",
            ", , &",
            "a & b",
            " with : ",
            "ẞ with İ: ß, and ",
            " price lower than x",
        ] {
            let _ = Request::read(text);
        }
    }
}
