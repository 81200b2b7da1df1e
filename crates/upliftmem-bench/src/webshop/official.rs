//! The official files: `items_shuffle.json`, `items_ins_v2.json` and, if there, `items_human_ins.json`.
//!
//! They are read as a stream: of 1.18 million products only names, postings and attributes stay in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::Value;

use super::error::{LoadError, unreadable};
use super::goals::{GoalMaker, HumanInstruction};
use super::nouns::likely_nouns;
use super::product::Product;
use super::shop::{Shop, ShopBuilder};
use super::stream::{Flow, each_element, each_entry, in_order};

const PRODUCTS: [&str; 2] = ["items_shuffle.json", "items_shuffle_1000.json"];
const ATTRIBUTES: [&str; 2] = ["items_ins_v2.json", "items_ins_v2_1000.json"];
const HUMAN: &str = "items_human_ins.json";
const TITLE_NOUNS: &str = "title_nouns.json";

/// The official draws of prices are not seeded: any seed is as good.
const PRICE_SEED: u64 = 1;

/// A product as the official file has it.
#[derive(Deserialize)]
struct Fields {
    asin: String,
    name: String,
    full_description: String,
    small_description: Value,
    #[serde(default)]
    pricing: Value,
    #[serde(default, deserialize_with = "in_order")]
    customization_options: Vec<(String, Option<Vec<OptionFields>>)>,
    query: String,
    product_category: String,
}

#[derive(Deserialize)]
struct OptionFields {
    value: String,
}

/// What the official file says of a product: attributes, and for some an instruction made of them.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    attributes: Option<Vec<String>>,
    #[serde(default)]
    instruction: Option<String>,
    #[serde(default)]
    instruction_attributes: Option<Vec<String>>,
}

/// What is kept of it; attributes are few and shared.
struct Kept {
    attributes: Option<Vec<Arc<str>>>,
    instruction: Option<(String, Vec<String>)>,
}

/// The official product file of a folder.
pub(super) fn products_file(folder: &Path) -> Option<PathBuf> {
    PRODUCTS
        .iter()
        .map(|name| folder.join(name))
        .find(|file| file.is_file())
}

/// Reads the first `products_max` products, and the goals of people if their file is there, else goals made by rule.
pub(super) fn load(folder: &Path, products_max: usize) -> Result<Shop, LoadError> {
    let no_catalogue = || LoadError::NoCatalogue {
        folder: folder.to_owned(),
    };
    let products = products_file(folder).ok_or_else(no_catalogue)?;
    let attributes = ATTRIBUTES
        .iter()
        .map(|name| folder.join(name))
        .find(|file| file.is_file());
    let human_file = folder.join(HUMAN);
    let human = if human_file.is_file() {
        Some(read_human(&human_file)?)
    } else {
        None
    };
    let mut said = read_attributes(&attributes.ok_or_else(no_catalogue)?, human.is_none())?;
    let mut nouns = read_nouns(&folder.join(TITLE_NOUNS))?;

    let mut rng = ChaCha8Rng::seed_from_u64(PRICE_SEED);
    let mut builder = ShopBuilder::new();
    let mut goals = GoalMaker::new();
    let mut read = 0;
    each_element(&products, |fields: Fields| {
        read += 1;
        let is_last = read >= products_max;
        let flow = if is_last { Flow::Stop } else { Flow::Continue };
        // A second entry of one product, and entries without a number, are passed over like in the official code.
        if fields.asin == "nan" || fields.asin.chars().count() > 10 || builder.has(&fields.asin) {
            return Ok(flow);
        }
        let kept = said.remove(&fields.asin);
        let tagged = nouns.as_mut().and_then(|nouns| nouns.remove(&fields.asin));
        let (attributes, instruction) = kept.map_or((None, None), |kept| (kept.attributes, kept.instruction));
        let product = product(fields, attributes, tagged.as_deref(), &mut rng);
        if let Some((instruction, attributes)) = instruction {
            goals.add_synthetic(&product, &instruction, &attributes);
        }
        if let Some(instructions) = human.as_ref().and_then(|human| human.get(&product.asin)) {
            goals.add_human(&product, instructions);
        }
        let contents = product.contents();
        builder.add(product, &contents).map_err(unreadable(&products))?;
        Ok(flow)
    })?;
    builder.finish(goals.finish(), &products)
}

fn product(
    fields: Fields,
    attributes: Option<Vec<Arc<str>>>,
    nouns: Option<&str>,
    rng: &mut ChaCha8Rng,
) -> Product {
    let prices = prices(&fields.pricing);
    let (price_tag, price) = match prices[..] {
        // A price that nobody gave.
        [] => ("$100.0".to_owned(), 100.0),
        [price] => (format!("${price:?}"), price),
        [low, high, ..] => (
            format!("${low:?} to ${high:?}"),
            low + (high - low) * rng.random::<f64>(),
        ),
    };
    let title_nouns = match nouns {
        Some(tagged) => tagged.lines().map(str::to_owned).collect(),
        None => likely_nouns(&fields.name),
    };
    Product {
        asin: fields.asin,
        description: fields.full_description,
        bullet_points: match fields.small_description {
            Value::Array(points) => points.iter().map(plain).collect(),
            point => vec![plain(&point)],
        },
        price_tag,
        price,
        options: options(fields.customization_options),
        attributes: match attributes {
            Some(attributes) => attributes.iter().map(ToString::to_string).collect(),
            None => vec!["DUMMY_ATTR".to_owned()],
        },
        query: fields.query.to_lowercase().trim().to_owned(),
        product_category: fields.product_category,
        title_nouns,
        title: fields.name,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// "$1,299.00" or "$5.99$12.99" as numbers.
fn prices(pricing: &Value) -> Vec<f64> {
    let after_signs = pricing.as_str().unwrap_or_default().split('$').skip(1);
    after_signs
        .filter_map(|price| {
            let digits: String = price
                .chars()
                .filter(|letter| letter.is_ascii_digit() || *letter == '.')
                .collect();
            digits.parse().ok()
        })
        .collect()
}

/// Groups of options with their values as the pages show them.
fn options(customization: Vec<(String, Option<Vec<OptionFields>>)>) -> Vec<(String, Vec<String>)> {
    let mut options: Vec<(String, Vec<String>)> = Vec::new();
    for (name, contents) in customization {
        let Some(contents) = contents else { continue };
        let shown = |option: &OptionFields| option.value.trim().replace('/', " | ").to_lowercase();
        let values = contents.iter().map(shown).collect();
        let name = name.to_lowercase();
        match options.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = values,
            None => options.push((name, values)),
        }
    }
    options
}

fn read_attributes(file: &Path, wants_instructions: bool) -> Result<HashMap<String, Kept>, LoadError> {
    let mut names: HashMap<String, Arc<str>> = HashMap::new();
    let mut kept = HashMap::new();
    each_entry(file, |asin, said: Said| {
        let mut shared = |name: String| {
            let name = names
                .entry(name)
                .or_insert_with_key(|name| Arc::from(name.as_str()));
            name.clone()
        };
        let attributes = said
            .attributes
            .map(|names| names.into_iter().map(&mut shared).collect());
        let instruction = said.instruction.filter(|_| wants_instructions);
        let instruction = instruction.map(|text| (text, said.instruction_attributes.unwrap_or_default()));
        kept.insert(
            asin,
            Kept {
                attributes,
                instruction,
            },
        );
        Ok(Flow::Continue)
    })?;
    Ok(kept)
}

fn read_human(file: &Path) -> Result<HashMap<String, Vec<HumanInstruction>>, LoadError> {
    let mut all = HashMap::new();
    each_entry(file, |asin, instructions| {
        all.insert(asin, instructions);
        Ok(Flow::Continue)
    })?;
    Ok(all)
}

/// Nouns that a tagger found, if its file is there: one text a product, a noun a line.
fn read_nouns(file: &Path) -> Result<Option<HashMap<String, String>>, LoadError> {
    if !file.is_file() {
        return Ok(None);
    }
    let mut all = HashMap::new();
    each_entry(file, |asin, nouns: Vec<String>| {
        all.insert(asin, nouns.join("\n"));
        Ok(Flow::Continue)
    })?;
    Ok(Some(all))
}
