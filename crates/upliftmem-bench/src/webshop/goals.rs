//! What customers want, and how the official goals are made of products.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::product::Product;
use super::python_random::PythonRandom;

/// The seed of the official order of goals.
const ORDER_SEED: u32 = 233;

/// The official draws of price limits are not seeded: any seed is as good.
const PRICE_SEED: u64 = 233;

/// The limit of a goal that names no price.
const NO_LIMIT: f64 = 1_000_000.0;

/// What a customer wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The product that the goal was made of.
    pub asin: String,
    /// What the customer says.
    pub instruction: String,
    /// What the product must be.
    pub attributes: Vec<String>,
    /// What must be chosen.
    pub options: Vec<GoalOption>,
    /// What it may cost.
    pub price_upper: f64,
    /// The query of the product.
    pub query: String,
    /// The departments of the product.
    pub product_category: String,
}

/// An option that must be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalOption {
    /// The group it is chosen from; people's goals do not say.
    pub group: Option<String>,
    /// What to choose.
    pub value: String,
}

/// What a person asked for in words of their own.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct HumanInstruction {
    instruction: String,
    instruction_attributes: Vec<String>,
    #[serde(default)]
    instruction_options: Vec<String>,
}

/// Makes goals of products that come one after the other.
pub(super) struct GoalMaker {
    rng: ChaCha8Rng,
    goals: Vec<Goal>,
}

impl GoalMaker {
    pub(super) fn new() -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(PRICE_SEED),
            goals: Vec::new(),
        }
    }

    /// One goal for every combination of options, with an instruction made by rule.
    pub(super) fn add_synthetic(&mut self, product: &Product, instruction: &str, attributes: &[String]) {
        let price_upper = self.price_upper(product.price);
        let limit = limit_text(price_upper);
        // In the order of the groups' names; the last group changes fastest.
        let groups: BTreeMap<&str, &[String]> = product
            .options
            .iter()
            .map(|(name, values)| (name.as_str(), values.as_slice()))
            .collect();
        let mut combinations: Vec<Vec<(&str, &String)>> = vec![Vec::new()];
        for (name, values) in groups {
            let longer = combinations.iter().flat_map(|combination| {
                values.iter().map(move |value| {
                    let mut longer = combination.clone();
                    longer.push((name, value));
                    longer
                })
            });
            combinations = longer.collect();
        }
        for combination in combinations {
            let wanted: Vec<String> = combination
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            let with = if wanted.is_empty() {
                String::new()
            } else {
                format!(" with {}", wanted.join(", and "))
            };
            let option = |(name, value): (&str, &String)| GoalOption {
                group: Some(name.to_owned()),
                value: value.clone(),
            };
            let options = combination.into_iter().map(option).collect();
            self.push(
                product,
                format!("{instruction}{with}{limit}"),
                attributes,
                options,
                price_upper,
            );
        }
    }

    /// One goal for every instruction that names an attribute.
    pub(super) fn add_human(&mut self, product: &Product, instructions: &[HumanInstruction]) {
        for asked in instructions
            .iter()
            .filter(|asked| !asked.instruction_attributes.is_empty())
        {
            let price_upper = self.price_upper(product.price);
            let instruction = format!(
                "{}{}",
                asked.instruction.trim_matches('.'),
                limit_text(price_upper)
            );
            let options = asked.instruction_options.iter().map(|value| GoalOption {
                group: None,
                value: value.clone(),
            });
            let options = options.collect();
            self.push(
                product,
                instruction,
                &asked.instruction_attributes,
                options,
                price_upper,
            );
        }
    }

    fn push(
        &mut self,
        product: &Product,
        instruction: String,
        attributes: &[String],
        options: Vec<GoalOption>,
        price_upper: f64,
    ) {
        self.goals.push(Goal {
            asin: product.asin.clone(),
            instruction,
            attributes: attributes.to_vec(),
            options,
            price_upper,
            query: product.query.clone(),
            product_category: product.product_category.clone(),
        });
    }

    /// The greater of two different ones among the next four tens above the price.
    fn price_upper(&mut self, price: f64) -> f64 {
        let tens = (1..100).map(|ten| 10.0 * f64::from(ten));
        let above: Vec<f64> = tens.filter(|ten| *ten > price).take(4).collect();
        if above.len() < 2 {
            return NO_LIMIT;
        }
        let one = self.rng.random_range(0..above.len());
        let other = self.rng.random_range(0..above.len() - 1);
        // Skipping the first keeps them different.
        let other = if other >= one { other + 1 } else { other };
        above[one.max(other)]
    }

    /// All goals in the official order.
    pub(super) fn finish(mut self) -> Vec<Goal> {
        PythonRandom::new(ORDER_SEED).shuffle(&mut self.goals);
        self.goals
    }
}

fn limit_text(price_upper: f64) -> String {
    if price_upper < NO_LIMIT {
        format!(", and price lower than {price_upper:.2} dollars")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_two_to_four_tens_above_the_price() {
        let mut maker = GoalMaker::new();
        let mut seen = BTreeMap::new();
        for _ in 0..600 {
            *seen.entry(maker.price_upper(24.5) as u32).or_insert(0) += 1;
        }
        // Of six pairs out of four, the greater is the second once, the third twice, the fourth three times.
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [40, 50, 60]);
        assert!(seen[&40] < seen[&50] && seen[&50] < seen[&60], "{seen:?}");
        assert_eq!(maker.price_upper(980.0), NO_LIMIT);
        assert_eq!(limit_text(maker.price_upper(5000.0)), "");
        assert_eq!(limit_text(40.0), ", and price lower than 40.00 dollars");
    }
}
