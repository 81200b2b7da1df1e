//! A small shop made of official files, and a customer who tries everything in it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use upliftmem_agent::{Environment, EnvironmentError};
use upliftmem_core::Task;

use super::{LoadError, Session, Shop, WebShop};

fn product(asin: &str, name: &str, pricing: &Value, options: &Value) -> Value {
    json!({
        "asin": asin, "name": name, "full_description": "", "small_description": ["Easy to wash. ", ""],
        "pricing": pricing, "customization_options": options, "query": " Mugs ", "category": "kitchen",
        "product_category": "Home › Kitchen › Mugs", "images": ["x"],
    })
}

fn catalogue() -> Vec<Value> {
    let sizes = json!({"Size": [{"value": " Small/S "}, {"value": "large"}], "Color": [{"value": "Red"}], "Style": null});
    let mut products = vec![
        product("B000000001", "Red Mug", &json!("$5.00$7.00"), &sizes),
        product("B000000002", "Blue Bowl", &json!("$1,299.00"), &json!("")),
        product("B000000001", "Second entry", &json!(""), &json!("")),
        product("nan", "No number", &json!(""), &json!("")),
    ];
    for number in 10..35 {
        products.push(product(
            &format!("B0000000{number}"),
            &format!("Plain mug {number}"),
            &json!(""),
            &json!(""),
        ));
    }
    products
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), value.to_string()).unwrap();
}

fn official_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "items_shuffle.json", &json!(catalogue()));
    let said = json!({
        "B000000001": {
            "attributes": ["easy wash"], "instruction": "Find me mugs", "instruction_attributes": ["easy wash"],
        },
        "B000000002": {"attributes": []},
    });
    write(folder.path(), "items_ins_v2.json", &said);
    folder
}

fn shop() -> Arc<Shop> {
    Arc::new(Shop::load(official_folder().path()).unwrap())
}

fn act(session: &mut Session, action: &str) -> String {
    session.act(action).unwrap();
    session.page().text.clone()
}

#[test]
fn official_files_become_a_shop() {
    let shop = shop();
    assert_eq!(shop.products(), 27);
    let mug = shop.product(shop.number("B000000001").unwrap()).unwrap();
    let options = [("color", vec!["red"]), ("size", vec!["small | s", "large"])];
    let options =
        options.map(|(name, values)| (name.to_owned(), values.into_iter().map(str::to_owned).collect()));
    assert_eq!(mug.options, options);
    assert_eq!(
        (mug.price_tag.as_str(), mug.query.as_str()),
        ("$5.0 to $7.0", "mugs")
    );
    assert!((5.0..7.0).contains(&mug.price), "{}", mug.price);
    let bowl = shop.product(shop.number("B000000002").unwrap()).unwrap();
    assert_eq!((bowl.price_tag.as_str(), bowl.price), ("$1299.0", 1299.0));
    let plain = shop.product(shop.number("B000000010").unwrap()).unwrap();
    assert_eq!(
        (plain.price_tag.as_str(), plain.attributes.as_slice()),
        ("$100.0", &["DUMMY_ATTR".to_owned()][..])
    );
    assert_eq!(plain.title_nouns, ["plain", "mug"]);
    // One goal for every combination of options.
    let mut asked: Vec<_> = shop.goals().iter().map(|goal| goal.instruction.clone()).collect();
    asked.sort();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[0].starts_with("Find me mugs with color: red, and size: large, and price lower than "),
        "{asked:?}"
    );
}

#[test]
fn people_s_goals_go_before_made_ones_and_tagged_nouns_before_likely_ones() {
    let folder = official_folder();
    let human = json!({"B000000002": [
        {"instruction": "i want a bowl.", "instruction_attributes": ["blue"], "instruction_options": []},
        {"instruction": "no attributes", "instruction_attributes": [], "instruction_options": []},
    ]});
    write(folder.path(), "items_human_ins.json", &human);
    write(
        folder.path(),
        "title_nouns.json",
        &json!({"B000000002": ["bowl"]}),
    );
    let shop = Shop::load(folder.path()).unwrap();
    let [goal] = shop.goals() else {
        panic!("{:?}", shop.goals())
    };
    assert_eq!(
        (goal.instruction.as_str(), goal.price_upper),
        ("i want a bowl", 1_000_000.0)
    );
    let bowl = shop.product(shop.number("B000000002").unwrap()).unwrap();
    assert_eq!(bowl.title_nouns, ["bowl"]);
    assert_eq!(Shop::load_first(folder.path(), 2).unwrap().products(), 2);
}

#[test]
fn missing_and_broken_files_are_named() {
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(
        Shop::load(empty.path()),
        Err(LoadError::NoCatalogue { .. })
    ));
    let folder = official_folder();
    fs::write(folder.path().join("items_shuffle.json"), "[{\"asin\": 7}]").unwrap();
    let message = Shop::load(folder.path()).unwrap_err().to_string();
    assert!(
        message.contains("items_shuffle.json: invalid type: integer `7`"),
        "{message}"
    );
    fs::write(folder.path().join("items_ins_v2.json"), "{\"B0").unwrap();
    let message = Shop::load(folder.path()).unwrap_err().to_string();
    assert!(message.contains("items_ins_v2.json: EOF"), "{message}");
}

#[test]
fn a_customer_tries_everything() {
    let mut session = Session::new(shop(), 0).unwrap();
    let index = session.page().text.clone();
    for nothing in [
        "",
        "search[]",
        "click[search]",
        "click[buy now]",
        "buy",
        "[x]",
        "click[x",
        "search",
        "Search[mug]",
    ] {
        assert_eq!(act(&mut session, nothing), index, "{nothing}");
    }
    let first = act(&mut session, "search[MUGS]");
    assert!(
        first.contains("Page 1 (Total results: 26) [SEP] Next > [SEP] B0"),
        "{first}"
    );
    let second = act(&mut session, "click[Next >]");
    assert!(
        second.contains("Page 2 (Total results: 26) [SEP] < Prev [SEP] Next > [SEP] B0"),
        "{second}"
    );
    let third = act(&mut session, "click[next >]");
    assert!(
        third.contains("Page 3 (Total results: 26) [SEP] < Prev [SEP] B0"),
        "{third}"
    );
    assert_eq!(act(&mut session, "click[next >]"), third);
    assert_eq!(act(&mut session, "click[< prev]"), second);
    assert_eq!(act(&mut session, "click[back to search]"), index);
    act(&mut session, "search[red mug]");
    let item = act(&mut session, "click[b000000001]");
    assert!(item.contains(
        "color [SEP] red [SEP] size [SEP] small | s [SEP] large [SEP] Red Mug [SEP] Price: $5.0 to $7.0"
    ));
    assert_eq!(act(&mut session, "click[large]"), item);
    let features = act(&mut session, "click[features]");
    assert!(
        features.ends_with("< Prev [SEP] Easy to wash. [SEP] "),
        "{features:?}"
    );
    assert_eq!(act(&mut session, "click[large]"), features);
    assert!(act(&mut session, "click[description]").ends_with("< Prev [SEP] Easy to wash. [SEP] "));
    assert_eq!(act(&mut session, "click[< prev]"), item);
    act(&mut session, "click[red]");
    act(&mut session, "click[buy now]");
    let bought = session.reward().unwrap().clone();
    assert!(act(&mut session, "search[mug]").starts_with("Thank you"));
    // The options survived the visit to the sub page: at most the size is another goal's.
    assert!(
        bought.options_matched >= 1 && bought.attributes_matched == 1 && bought.is_within_price,
        "{bought:?}"
    );
}

#[test]
fn results_forget_what_was_chosen() {
    let shop = shop();
    let rewards: Vec<_> = (0..2)
        .map(|goal| {
            let mut session = Session::new(shop.clone(), goal).unwrap();
            for action in [
                "search[red mug]",
                "click[b000000001]",
                "click[large]",
                "click[red]",
                "click[< prev]",
            ] {
                act(&mut session, action);
            }
            act(&mut session, "click[b000000001]");
            act(&mut session, "click[buy now]");
            session.reward().unwrap().options_matched
        })
        .collect();
    assert_eq!(rewards, [0, 0]);
}

#[test]
fn an_environment_of_the_shop_ends_with_a_purchase_or_the_last_action() {
    let mut environment = WebShop::new(shop()).with_actions_max(3);
    let task = environment.task(1).unwrap();
    assert_eq!(task.context, environment.shop().goals()[1].instruction);
    assert_eq!(environment.step("search[mug]"), Err(EnvironmentError::NotRunning));
    let opening = environment.reset(&task).unwrap();
    assert_eq!(opening.actions.unwrap(), ["search[keywords]"]);
    let results = environment.step("search[red mug]").unwrap();
    assert_eq!(
        results.actions.unwrap()[..3],
        ["click[back to search]", "click[next >]", "click[b000000001]"]
    );
    environment.step("click[b000000001]").unwrap();
    let end = environment.step("click[buy now]").unwrap();
    assert!(
        end.done && end.performance.get() > 0.0 && end.performance.get() < 1.0,
        "{end:?}"
    );
    assert_eq!(environment.step("search[mug]"), Err(EnvironmentError::NotRunning));
    environment.reset(&task).unwrap();
    for done in [false, false, true] {
        let turn = environment.step("wait").unwrap();
        assert_eq!((turn.done, turn.performance.get()), (done, 0.0));
    }
    for name in ["webshop/2", "webshop/-1", "2", ""] {
        assert!(
            matches!(
                environment.reset(&Task::new(name, "")),
                Err(EnvironmentError::UnknownTask { .. })
            ),
            "{name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn no_action_breaks_the_shop(actions in prop::collection::vec("(search|click)?\\[?(\\PC{0,12}|mug|b000000001|large|< prev)\\]?", 0..12)) {
        static SHOP: std::sync::LazyLock<Arc<Shop>> = std::sync::LazyLock::new(shop);
        let mut session = Session::new(SHOP.clone(), 0).unwrap();
        for action in actions {
            session.act(&action).unwrap();
            prop_assert!(!session.page().text.is_empty());
        }
    }
}
