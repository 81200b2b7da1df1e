//! The native WebShop against recordings of the official one.
//!
//! Needs the data: a folder `UPLIFTMEM_BENCH_DIR` with the converted catalogue and the recordings in `webshop/` (see
//! `docs/environments.md`). Without it these tests say so and stop.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use upliftmem_bench::webshop::{Page, Product, Session, Shop, SubPage};

static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let folder = std::env::var_os("UPLIFTMEM_BENCH_DIR").map(|data| PathBuf::from(data).join("webshop"));
    let folder = folder.filter(|folder| folder.is_dir());
    if folder.is_none() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with `webshop` in it");
        }
    }
    folder
});

static SHOP: LazyLock<Option<Arc<Shop>>> =
    LazyLock::new(|| Some(Arc::new(Shop::load(FOLDER.as_ref()?).unwrap())));

fn lines(folder: &Path, name: &str) -> Vec<String> {
    let file = File::open(folder.join(name)).unwrap();
    BufReader::new(flate2::read::MultiGzDecoder::new(file))
        .lines()
        .map(Result::unwrap)
        .collect()
}

fn products(shop: &Shop, numbers: impl IntoIterator<Item = u32>) -> Vec<Arc<Product>> {
    numbers
        .into_iter()
        .map(|number| shop.product(number).unwrap())
        .collect()
}

fn assert_none(differences: &[String], of: usize) {
    let shown = differences
        .iter()
        .take(10)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        differences.is_empty(),
        "{} of {of} differ:\n{shown}",
        differences.len()
    );
}

#[derive(Deserialize)]
struct RecordedPage {
    kind: String,
    args: PageArguments,
    text: String,
    avail: Available,
}

#[derive(Deserialize)]
struct PageArguments {
    instruction: String,
    asin: Option<String>,
    query: Option<String>,
    page: Option<usize>,
}

#[derive(Deserialize)]
struct Available {
    has_search_bar: bool,
    clickables: Vec<String>,
}

#[test]
fn every_recorded_page_is_equal() {
    let (Some(folder), Some(shop)) = (&*FOLDER, &*SHOP) else {
        return;
    };
    let recorded: Vec<RecordedPage> = lines(folder, "pages.jsonl.gz")
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(recorded.len(), 210);
    let mut differences = Vec::new();
    for expected in &recorded {
        let args = &expected.args;
        let instruction = args.instruction.as_str();
        let product = || {
            shop.product(shop.number(args.asin.as_ref().unwrap()).unwrap())
                .unwrap()
        };
        let found = match expected.kind.as_str() {
            "index" => Page::index(instruction),
            "results" => {
                let found = shop.search(args.query.as_ref().unwrap());
                let number = args.page.unwrap();
                let shown = found
                    .iter()
                    .skip((number - 1) * 10)
                    .take(10)
                    .map(|(product, _)| *product);
                Page::results(instruction, number, found.len(), &products(shop, shown))
            }
            "item_page" => Page::item(instruction, &product()),
            "description_page" => Page::sub_page(instruction, &product(), SubPage::Description),
            "features_page" => Page::sub_page(instruction, &product(), SubPage::Features),
            "review_page" => Page::sub_page(instruction, &product(), SubPage::Reviews),
            kind => panic!("a page of unknown kind {kind}"),
        };
        let is_equal = found.text == expected.text
            && found.has_search_bar == expected.avail.has_search_bar
            && found.clickables == expected.avail.clickables;
        if !is_equal {
            differences.push(format!(
                "{} {instruction:?}\n  expected {:?} {:?}\n  found    {:?} {:?}",
                expected.kind, expected.text, expected.avail.clickables, found.text, found.clickables
            ));
        }
    }
    assert_none(&differences, recorded.len());
}

/// One recorded search: the query, and the products with their scores.
fn recorded_searches(folder: &Path) -> Vec<(String, Vec<(String, f64)>)> {
    let search = |line: &String| {
        let (query, found) = line.split_once('\t').unwrap();
        let found = found.split_whitespace().map(|hit| {
            let (asin, score) = hit.split_once(':').unwrap();
            (asin.to_owned(), score.parse().unwrap())
        });
        (query.to_owned(), found.collect())
    };
    lines(folder, "bm25.tsv.gz").iter().map(search).collect()
}

#[test]
fn search_ranks_like_lucene() {
    let (Some(folder), Some(shop)) = (&*FOLDER, &*SHOP) else {
        return;
    };
    let recorded = recorded_searches(folder);
    assert_eq!(recorded.len(), 502);
    let (mut top_10, mut top_50, mut differences) = (0, 0, Vec::new());
    let mut score_error: f64 = 0.0;
    for (query, expected) in &recorded {
        let found = shop.search(query);
        let asins: Vec<String> = products(shop, found.iter().map(|(number, _)| *number))
            .iter()
            .map(|product| product.asin.clone())
            .collect();
        let expected_asins: Vec<&String> = expected.iter().map(|(asin, _)| asin).collect();
        let is_equal = |depth: usize| {
            asins
                .iter()
                .take(depth)
                .eq(expected_asins.iter().copied().take(depth))
        };
        top_10 += usize::from(is_equal(10));
        top_50 += usize::from(is_equal(50));
        for ((_, found), (_, expected)) in found.iter().zip(expected) {
            score_error = score_error.max((f64::from(*found) - expected).abs());
        }
        if !is_equal(50) {
            let place = (0..50)
                .find(|place| asins.get(*place) != expected_asins.get(*place).copied())
                .unwrap();
            let around = place.saturating_sub(1)..(place + 3).min(expected.len());
            differences.push(format!(
                "{query:?} at {place}:\n  expected {:?}\n  found    {:?} {:?}",
                &expected[around.clone()],
                &asins[around.clone()],
                &found[around]
            ));
        }
    }
    println!(
        "ordered top 10 equal: {top_10} of 502; ordered top 50: {top_50}; largest error of a score: {score_error:.6}"
    );
    assert_none(&differences, recorded.len());
    // Recorded scores are rounded to four decimals, and ties are told apart by a millionth each.
    assert!(score_error < 1e-4, "{score_error}");
}

#[derive(Deserialize)]
struct RecordedReward {
    goal_idx: usize,
    asin: String,
    options: BTreeMap<String, String>,
    reward: f64,
    info: Map<String, Value>,
}

fn recorded_rewards(folder: &Path) -> Vec<RecordedReward> {
    lines(folder, "rewards.jsonl.gz")
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_recorded_reward_is_equal() {
    let (Some(folder), Some(shop)) = (&*FOLDER, &*SHOP) else {
        return;
    };
    let recorded = recorded_rewards(folder);
    assert_eq!(recorded.len(), 1000);
    let mut differences = Vec::new();
    for expected in &recorded {
        let goal = &shop.goals()[expected.goal_idx];
        let found = shop
            .reward(goal, shop.number(&expected.asin).unwrap(), &expected.options)
            .unwrap();
        let info = |name: &str| expected.info.get(name).and_then(Value::as_f64);
        let is_equal = (found.total - expected.reward).abs() < 1e-12
            && info("r_type") == Some(found.type_factor)
            && info("r_att") == Some(found.attributes_matched as f64 / goal.attributes.len() as f64)
            && info("r_option").is_none_or(|r| r == found.options_matched as f64 / goal.options.len() as f64)
            && expected.info["r_price"] == found.is_within_price;
        if !is_equal {
            let (reward, info) = (expected.reward, &expected.info);
            differences.push(format!(
                "goal {} bought {} {:?}\n  expected {reward} {info:?}\n  found    {found:?}",
                expected.goal_idx, expected.asin, expected.options
            ));
        }
    }
    assert_none(&differences, recorded.len());
}

/// The official files of the catalogue, made back from the converted ones, which keep the official fields.
fn write_official(folder: &Path, to: &Path) {
    let products: Vec<Value> = lines(folder, "products.jsonl.gz")
        .iter()
        .map(|line| {
            let mut product: Value = serde_json::from_str(line).unwrap();
            let mut product = product["product"].take();
            let prices: Vec<f64> = serde_json::from_value(product["pricing"].take()).unwrap();
            let was_given = product["Price"] != "$100.0";
            let text: String = prices.iter().map(|price| format!("${price:?}")).collect();
            product["pricing"] = json!(if was_given { text } else { String::new() });
            product
        })
        .collect();
    // Written by hand: a value's map would lose the order of the options.
    let mut file = File::create(to.join("items_shuffle.json")).unwrap();
    write!(file, "[").unwrap();
    for (number, (product, line)) in products
        .iter()
        .zip(lines(folder, "products.jsonl.gz"))
        .enumerate()
    {
        let comma = if number > 0 { "," } else { "" };
        let start = line.find("\"customization_options\": ").unwrap() + "\"customization_options\": ".len();
        let mut stream = serde_json::Deserializer::from_str(&line[start..]).into_iter::<Value>();
        stream.next().unwrap().unwrap();
        let options = &line[start..start + stream.byte_offset()];
        let text = |name: &str| product[name].to_string();
        write!(
            file,
            "{comma}{{\"asin\":{},\"name\":{},\"full_description\":{},\"small_description\":{},\"pricing\":{},\
             \"customization_options\":{options},\"query\":{},\"product_category\":{}}}",
            text("asin"),
            text("name"),
            text("full_description"),
            text("small_description"),
            text("pricing"),
            text("query"),
            text("product_category")
        )
        .unwrap();
    }
    write!(file, "]").unwrap();
    let attributes = lines(folder, "attributes.json.gz").concat();
    fs::write(to.join("items_ins_v2.json"), attributes).unwrap();
    let nouns = lines(folder, "title_nouns.json.gz").concat();
    fs::write(to.join("title_nouns.json"), nouns).unwrap();
}

/// Products, search and goals made of the official files, against what the official code made of them.
#[test]
fn official_files_give_the_same_shop() {
    let (Some(folder), Some(shop)) = (&*FOLDER, &*SHOP) else {
        return;
    };
    let to = tempfile::tempdir().unwrap();
    write_official(folder, to.path());
    let official = Shop::load(to.path()).unwrap();
    assert_eq!(official.products(), 1000);
    for number in 0..1000 {
        let (expected, found) = (shop.product(number).unwrap(), official.product(number).unwrap());
        // The price at the till is drawn within a range, without a seed officially.
        let found = Product {
            price: expected.price,
            ..(*found).clone()
        };
        assert_eq!(found, *expected);
    }
    for (query, _) in recorded_searches(folder) {
        assert_eq!(official.search(&query), shop.search(&query), "{query}");
    }
    // The order of goals is drawn with a seed; their price limits are not.
    assert_eq!(official.goals().len(), 6910);
    for (expected, found) in shop.goals().iter().zip(official.goals()) {
        let before = |instruction: &str| instruction.split(", and price lower").next().unwrap().to_owned();
        assert_eq!(before(&found.instruction), before(&expected.instruction));
        assert_eq!(
            (&found.asin, &found.attributes),
            (&expected.asin, &expected.attributes)
        );
        assert_eq!(found.options, expected.options);
    }
    // Without a tagger's nouns most purchases are still judged the same.
    fs::remove_file(to.path().join("title_nouns.json")).unwrap();
    let untagged = Shop::load(to.path()).unwrap();
    let recorded = recorded_rewards(folder);
    let is_equal = |expected: &&RecordedReward| {
        let goal = &shop.goals()[expected.goal_idx];
        let bought = untagged.number(&expected.asin).unwrap();
        let found = untagged.reward(goal, bought, &expected.options).unwrap();
        expected.info["r_type"] == found.type_factor
    };
    let equal = recorded.iter().filter(is_equal).count();
    println!(
        "type factors equal without tagged nouns: {equal} of {}",
        recorded.len()
    );
    assert!(equal >= 900, "{equal}");
}

/// A purchase of the very product with the very options that a goal asks for earns the whole reward, unless the official way to
/// compare options does not even find an option equal to itself.
#[test]
fn every_goal_can_be_reached_by_shopping() {
    let Some(shop) = &*SHOP else { return };
    let mut missed = Vec::new();
    for number in 0..500 {
        let goal = &shop.goals()[number];
        let mut session = Session::new(shop.clone(), number).unwrap();
        let title = shop
            .product(shop.number(&goal.asin).unwrap())
            .unwrap()
            .title
            .clone();
        let wanted = format!("click[{}]", goal.asin.to_lowercase());
        session
            .act(&format!("search[{}]", title.replace(['[', ']'], " ")))
            .unwrap();
        while !session.page().clickables.contains(&goal.asin.to_lowercase()) {
            assert!(
                session.page().clickables.iter().any(|text| text == "next >"),
                "{title:?} is not found"
            );
            session.act("click[next >]").unwrap();
        }
        session.act(&wanted).unwrap();
        for option in &goal.options {
            session.act(&format!("click[{}]", option.value)).unwrap();
        }
        session.act("click[buy now]").unwrap();
        let reward = session.reward().unwrap().total;
        if reward < 1.0 {
            missed.push(format!("goal {number} {:?}: {reward}", goal.instruction));
        }
    }
    println!(
        "test goals whose own product with their own options earns less than 1: {} of 500",
        missed.len()
    );
    assert!(missed.len() < 100, "{missed:#?}");
}
