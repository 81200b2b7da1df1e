//! The converted catalogue: gzipped JSON, one product or goal a line, with prices and nouns beside them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{LoadError, not_json, unreadable};
use super::goals::{Goal, GoalOption};
use super::product::Product;
use super::shop::{Shop, ShopBuilder};

pub(super) const PRODUCTS: &str = "products.jsonl.gz";
const GOALS: &str = "goals.jsonl.gz";
const PRICES: &str = "prices.json.gz";
const TITLE_NOUNS: &str = "title_nouns.json.gz";

#[derive(Deserialize)]
struct Line {
    contents: String,
    product: Fields,
}

#[derive(Deserialize)]
struct Fields {
    asin: String,
    #[serde(rename = "Title")]
    title: String,
    #[serde(rename = "Description")]
    description: String,
    #[serde(rename = "BulletPoints")]
    bullet_points: Vec<String>,
    #[serde(rename = "Price")]
    price_tag: String,
    #[serde(deserialize_with = "super::stream::in_order")]
    options: Vec<(String, Vec<String>)>,
    #[serde(rename = "Attributes")]
    attributes: Vec<String>,
    query: String,
    product_category: String,
}

#[derive(Deserialize)]
struct GoalFields {
    asin: String,
    instruction_text: String,
    attributes: Vec<String>,
    goal_options: Options,
    price_upper: f64,
    query: String,
    product_category: String,
}

/// Made goals name the groups of their options, people's do not.
#[derive(Deserialize)]
#[serde(untagged)]
enum Options {
    Named(BTreeMap<String, String>),
    Plain(Vec<String>),
}

pub(super) fn load(folder: &Path) -> Result<Shop, LoadError> {
    let prices: HashMap<String, f64> = whole(&folder.join(PRICES))?;
    let mut nouns: HashMap<String, Vec<String>> = whole(&folder.join(TITLE_NOUNS))?;
    let file = folder.join(PRODUCTS);
    let mut builder = ShopBuilder::new();
    each_line(&file, |line: Line| {
        let fields = line.product;
        let missing = |what: &str| LoadError::Inconsistent {
            file: file.clone(),
            message: format!("product {} has no entry in {what}", fields.asin),
        };
        let price = *prices.get(&fields.asin).ok_or_else(|| missing(PRICES))?;
        let title_nouns = nouns.remove(&fields.asin).ok_or_else(|| missing(TITLE_NOUNS))?;
        let product = Product {
            asin: fields.asin,
            title: fields.title,
            description: fields.description,
            bullet_points: fields.bullet_points,
            price_tag: fields.price_tag,
            price,
            options: fields.options,
            attributes: fields.attributes,
            query: fields.query,
            product_category: fields.product_category,
            title_nouns,
        };
        builder.add(product, &line.contents).map_err(unreadable(&file))
    })?;
    let mut goals = Vec::new();
    each_line(&folder.join(GOALS), |fields: GoalFields| {
        goals.push(Goal {
            asin: fields.asin,
            instruction: fields.instruction_text,
            attributes: fields.attributes,
            options: match fields.goal_options {
                Options::Named(options) => options
                    .into_iter()
                    .map(|(group, value)| option(Some(group), value))
                    .collect(),
                Options::Plain(options) => options.into_iter().map(|value| option(None, value)).collect(),
            },
            price_upper: fields.price_upper,
            query: fields.query,
            product_category: fields.product_category,
        });
        Ok(())
    })?;
    builder.finish(goals, &folder.join(GOALS))
}

fn option(group: Option<String>, value: String) -> GoalOption {
    GoalOption { group, value }
}

fn open(file: &Path) -> Result<BufReader<MultiGzDecoder<BufReader<File>>>, LoadError> {
    let opened = File::open(file).map_err(unreadable(file))?;
    Ok(BufReader::new(MultiGzDecoder::new(BufReader::new(opened))))
}

fn whole<T: DeserializeOwned>(file: &Path) -> Result<T, LoadError> {
    serde_json::from_reader(open(file)?).map_err(not_json(file))
}

fn each_line<T: DeserializeOwned>(
    file: &Path,
    mut visit: impl FnMut(T) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let mut reader = open(file)?;
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if reader.read_line(&mut text).map_err(unreadable(file))? == 0 {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        let parsed = serde_json::from_str(&text).map_err(|source| LoadError::Json {
            file: file.to_owned(),
            line: Some(line),
            source,
        })?;
        visit(parsed)?;
    }
    Ok(())
}
