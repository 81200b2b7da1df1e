//! How fast the native WebShop answers: `cargo bench -p upliftmem-bench --bench webshop`.
//!
//! Shops for the 500 test goals, from the folder `UPLIFTMEM_BENCH_DIR` (see `tests/webshop.rs`). An item is one action: its
//! page as text, what can be clicked, and for a purchase the reward.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_bench::webshop::{Session, Shop};

const GOALS: usize = 500;
const RANDOM_ACTIONS: usize = 15;

static SHOP: LazyLock<Option<Arc<Shop>>> = LazyLock::new(|| {
    let folder = PathBuf::from(std::env::var_os("UPLIFTMEM_BENCH_DIR")?).join("webshop");
    folder.is_dir().then(|| Arc::new(Shop::load(folder).unwrap()))
});

fn main() {
    if SHOP.is_none() {
        eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with the catalogue in `webshop`");
        return;
    }
    divan::main();
}

/// Searches for the whole instruction, opens the first product, reads a sub page, buys: five actions.
#[divan::bench]
fn short_visits(bencher: Bencher<'_, '_>) {
    let shop = SHOP.as_ref().unwrap();
    bencher.counter(ItemsCount::new(GOALS * 5)).bench_local(|| {
        for goal in 0..GOALS {
            let mut session = Session::new(shop.clone(), goal).unwrap();
            session
                .act(&format!("search[{}]", shop.goals()[goal].instruction))
                .unwrap();
            let first = session
                .page()
                .clickables
                .iter()
                .find(|text| text.starts_with('b') && text.len() == 10);
            let first = format!("click[{}]", first.unwrap());
            for action in [
                first.as_str(),
                "click[features]",
                "click[< prev]",
                "click[buy now]",
            ] {
                session.act(action).unwrap();
            }
            black_box(session.reward().unwrap());
        }
    });
}

/// Random clicks, and a search for the instruction wherever there is a search bar; a purchase begins anew.
#[divan::bench]
fn random_visits(bencher: Bencher<'_, '_>) {
    let shop = SHOP.as_ref().unwrap();
    bencher
        .counter(ItemsCount::new(GOALS * RANDOM_ACTIONS))
        .bench_local(|| {
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            for goal in 0..GOALS {
                let mut session = Session::new(shop.clone(), goal).unwrap();
                for _ in 0..RANDOM_ACTIONS {
                    if session.reward().is_some() {
                        session = Session::new(shop.clone(), goal).unwrap();
                    }
                    let page = session.page();
                    let action = if page.has_search_bar {
                        format!("search[{}]", shop.goals()[goal].instruction)
                    } else {
                        format!(
                            "click[{}]",
                            page.clickables[rng.random_range(0..page.clickables.len())]
                        )
                    };
                    session.act(&action).unwrap();
                    black_box(session.page());
                }
            }
        });
}

/// Searches alone.
#[divan::bench]
fn searches(bencher: Bencher<'_, '_>) {
    let shop = SHOP.as_ref().unwrap();
    bencher.counter(ItemsCount::new(GOALS)).bench_local(|| {
        for goal in &shop.goals()[..GOALS] {
            black_box(shop.search(&goal.instruction));
        }
    });
}
