//! The model against PyTorch (`fixtures/lm/reference.py`), against finite differences and against itself.

use std::{collections::BTreeMap, path::PathBuf, sync::Mutex};

use candle_core::{Device, Tensor};
use proptest::prelude::*;
use serde::Deserialize;
use upliftmem_lm::{Dropout, PrefixCache, Trie};

use super::{
    Adapter, Base, Module, Sharing, load_adapter,
    reader::{Reader, Reading},
    save_adapter,
    tape::{Learnable, Tape},
};
use crate::lm::Calibration;

#[derive(Deserialize)]
struct Reference {
    yes: u32,
    no: u32,
    texts: Vec<Vec<u32>>,
    weights: Vec<f32>,
    models: BTreeMap<String, ModelReference>,
}

#[derive(Deserialize)]
struct ModelReference {
    margins: Vec<f64>,
    hidden: Vec<Vec<f32>>,
    logits: Vec<f32>,
    adapted: Adapted,
}

#[derive(Deserialize)]
struct Adapted {
    margins: Vec<f64>,
    hidden: Vec<Vec<f32>>,
    slopes: BTreeMap<String, Vec<f32>>,
}

const MODELS: [&str; 3] = ["qwen3", "qwen2", "llama"];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/lm")
        .join(name)
}

fn reference() -> Reference {
    serde_json::from_slice(&std::fs::read(fixture("reference.json")).unwrap()).unwrap()
}

struct Model {
    base: Base,
    adapter: Adapter,
    direction: Tensor,
}

fn model(name: &str, reference: &Reference) -> Model {
    let base = Base::load_weights(&fixture(name), &Device::Cpu).unwrap();
    let directory = fixture(name).join("adapter");
    let (adapter, calibration) = load_adapter(&directory, base.config(), &Device::Cpu).unwrap();
    assert_eq!(calibration, Calibration::NONE);
    Model {
        direction: base.margin_direction(reference.yes, reference.no).unwrap(),
        base,
        adapter,
    }
}

impl Model {
    fn read(&self, adapted: bool, texts: &[Vec<u32>], sharing: Sharing, pass_tokens: usize) -> Vec<Reading> {
        let reader = Reader {
            base: &self.base,
            adapter: adapted.then_some(&self.adapter),
            direction: &self.direction,
            pass_tokens,
            cache: None,
        };
        let found = reader.read(texts, 1, sharing, None).unwrap();
        found.into_iter().map(Option::unwrap).collect()
    }

    /// Margins, and the gradient of their weighted sum, with at most this memory for the way back.
    fn slopes(
        &self,
        texts: &[Vec<u32>],
        weights: &[f32],
        dropout: Option<Dropout>,
        memory: usize,
    ) -> (Vec<f64>, Vec<Vec<f32>>) {
        let learnable = Learnable::new(&self.adapter).unwrap();
        let trie = Trie::new(texts, 512);
        let pass = self.base.pass(&trie.segments(texts), false).unwrap();
        let mut memory = memory;
        let tape = Tape::forward(
            &self.base,
            &learnable,
            pass,
            dropout,
            &self.direction,
            &mut memory,
        )
        .unwrap();
        let ends: Vec<usize> = trie.nodes.iter().flat_map(|node| node.ends.clone()).collect();
        let mut margins = vec![0.0; texts.len()];
        for (&text, &margin) in ends.iter().zip(&tape.margins) {
            margins[text] = margin;
        }
        let by_row: Vec<f32> = ends.iter().map(|&text| weights[text]).collect();
        let mut gradient = gradient_of(&self.adapter);
        tape.backward(&by_row, &mut gradient).unwrap();
        (margins, gradient)
    }
}

fn gradient_of(adapter: &Adapter) -> Vec<Vec<f32>> {
    let pairs = adapter.layers.iter().flatten();
    pairs
        .flat_map(|pair| [vec![0.0; pair.down.elem_count()], vec![0.0; pair.up.elem_count()]])
        .collect()
}

fn names() -> Vec<String> {
    let mut names = Vec::new();
    for layer in 0..2 {
        for module in Module::ALL {
            for which in ["A", "B"] {
                names.push(format!(
                    "base_model.model.model.layers.{layer}.{}.lora_{which}.weight",
                    module.path()
                ));
            }
        }
    }
    names
}

fn assert_near(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what} entry {at}: {a} for {b}");
    }
}

#[test]
fn margins_hidden_states_and_logits_are_those_of_pytorch() {
    let reference = reference();
    for name in MODELS {
        let model = model(name, &reference);
        let expected = &reference.models[name];
        for (adapted, margins, hidden) in [
            (false, &expected.margins, &expected.hidden),
            (true, &expected.adapted.margins, &expected.adapted.hidden),
        ] {
            for sharing in [Sharing::None, Sharing::Prefix, Sharing::Tree] {
                let found = model.read(adapted, &reference.texts, sharing, 512);
                for ((found, &margin), hidden) in found.iter().zip(margins).zip(hidden) {
                    assert!(
                        (found.margin - margin).abs() < 1e-4,
                        "{name}: {} for {margin}",
                        found.margin
                    );
                    assert_near(&found.hidden, hidden, 1e-4, name);
                }
            }
        }
        let mut cache = super::KvCache::default();
        // In two steps, as a text is continued.
        let (start, rest) = reference.texts[0].split_at(4);
        model.base.forward(start, &mut cache, None).unwrap();
        let hidden = model.base.forward(rest, &mut cache, None).unwrap();
        let last = hidden.narrow(0, rest.len() - 1, 1).unwrap();
        let logits = model
            .base
            .logits(&last)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1::<f32>()
            .unwrap();
        assert_near(&logits, &expected.logits, 1e-4, name);
        cache.truncate(4);
        let again = model.base.forward(rest, &mut cache, None).unwrap();
        assert_near(
            &again.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
            &hidden.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
            0.0,
            name,
        );
    }
}

#[test]
fn slopes_of_every_adapter_are_those_of_pytorch_however_little_memory_there_is() {
    let reference = reference();
    for name in MODELS {
        let model = model(name, &reference);
        let expected = &reference.models[name].adapted;
        for memory in [usize::MAX, 0, 200_000] {
            let (margins, gradient) = model.slopes(&reference.texts, &reference.weights, None, memory);
            for (found, expected) in margins.iter().zip(&expected.margins) {
                assert!((found - expected).abs() < 1e-4, "{name}: {found} for {expected}");
            }
            for (key, found) in names().iter().zip(&gradient) {
                let expected = &expected.slopes[key];
                let size = expected.iter().fold(0.0_f32, |size, slope| size.max(slope.abs()));
                assert!(size > 0.0, "{name} {key}: the reference has no slope");
                assert_near(found, expected, 1e-3 * size, &format!("{name} {key}"));
            }
        }
    }
}

#[test]
fn slopes_under_dropout_are_finite_differences() {
    let reference = reference();
    let dropout = Some(Dropout { rate: 0.3, seed: 5 });
    for name in MODELS {
        let mut model = model(name, &reference);
        let weighted = |margins: &[f64]| -> f64 {
            margins
                .iter()
                .zip(&reference.weights)
                .map(|(margin, weight)| margin * f64::from(*weight))
                .sum()
        };
        let (_, gradient) = model.slopes(&reference.texts, &reference.weights, dropout, 0);
        for (at, slopes) in gradient.iter().enumerate() {
            let entry = (at * 13) % slopes.len();
            let original = model.adapter.clone();
            let mut moved = |by: f32| {
                model.adapter = original.clone();
                let pair = &mut model.adapter.layers[at / 14][(at / 2) % 7];
                let matrix = if at % 2 == 0 { &mut pair.down } else { &mut pair.up };
                let mut values = matrix.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                values[entry] += by;
                *matrix = Tensor::from_vec(values, matrix.shape(), &Device::Cpu).unwrap();
                weighted(
                    &model
                        .slopes(&reference.texts, &reference.weights, dropout, usize::MAX)
                        .0,
                )
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            model.adapter = original;
            let size = slopes.iter().fold(0.0_f32, |size, slope| size.max(slope.abs()));
            assert!(size > 0.0, "{name} {}", names()[at]);
            let gap = (f64::from(slopes[entry]) - expected).abs();
            assert!(
                gap < 0.02 * f64::from(size) + 1e-3,
                "{name} {}: {} for {expected}",
                names()[at],
                slopes[entry]
            );
        }
    }
}

#[test]
fn an_adapter_comes_back_from_disk_as_it_was() {
    let reference = reference();
    let model = model("qwen3", &reference);
    let place = tempfile::tempdir().unwrap();
    let calibration = Calibration {
        scale: 0.25,
        offset: -0.125,
    };
    save_adapter(place.path(), &model.adapter, calibration, "tiny").unwrap();
    let (back, also) = load_adapter(place.path(), model.base.config(), &Device::Cpu).unwrap();
    assert_eq!(also, calibration);
    assert_eq!(back.settings, model.adapter.settings);
    let flat = |adapter: &Adapter| -> Vec<f32> {
        let pairs = adapter.layers.iter().flatten();
        pairs
            .flat_map(|pair| [&pair.down, &pair.up])
            .flat_map(|matrix| matrix.flatten_all().unwrap().to_vec1::<f32>().unwrap())
            .collect()
    };
    assert_eq!(flat(&back), flat(&model.adapter));
}

#[test]
fn a_drawn_adapter_is_one_function() {
    let reference = reference();
    let mut model = model("qwen3", &reference);
    let plain: Vec<f64> = model
        .read(true, &reference.texts, Sharing::Tree, 512)
        .iter()
        .map(|r| r.margin)
        .collect();
    model.adapter = model.adapter.drawn(3).unwrap();
    let drawn: Vec<f64> = model
        .read(true, &reference.texts, Sharing::Tree, 512)
        .iter()
        .map(|r| r.margin)
        .collect();
    assert_ne!(plain, drawn);
    let alone = model.read(true, &reference.texts[1..2], Sharing::None, 512)[0].margin;
    assert!((alone - drawn[1]).abs() < 1e-4);
}

/// Texts that share starts, in random shapes.
fn texts() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let tokens = |count| prop::collection::vec(0_u32..300, count);
    (
        tokens(1..30),
        prop::collection::vec((0_usize..30, tokens(1..20)), 1..12),
    )
        .prop_map(|(common, ends)| {
            let mut texts: Vec<Vec<u32>> = Vec::new();
            for (cut, end) in ends {
                // Continues what came before, or the common start.
                let start = texts.last().filter(|_| cut % 2 == 0).unwrap_or(&common);
                let mut text = start[..cut.min(start.len())].to_vec();
                text.extend(end);
                texts.push(text);
            }
            texts
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_tree_gives_what_every_text_gives_alone(texts in texts(), pass_tokens in 1_usize..40, room in 0_usize..60, at in 0_usize..3) {
        let reference = reference();
        let model = model(MODELS[at], &reference);
        let alone = model.read(true, &texts, Sharing::None, 512);
        let cache = Mutex::new(PrefixCache::new(room));
        let reader = Reader {
            base: &model.base,
            adapter: Some(&model.adapter),
            direction: &model.direction,
            pass_tokens,
            cache: Some(&cache),
        };
        let weights: Vec<f32> = (0..texts.len()).map(|at| ((at * 7 + 3) % 11) as f32 / 5.5 - 1.0).collect();
        let (trained, _) = model.slopes(&texts, &weights, None, 0);
        // Twice: the second time with what the first left in the cache.
        for round in 0..2 {
            let found = reader.read(&texts, 1, Sharing::Tree, None).unwrap();
            for ((found, alone), trained) in found.iter().zip(&alone).zip(&trained) {
                let found = found.as_ref().unwrap();
                prop_assert!((found.margin - alone.margin).abs() < 1e-4, "round {round}: {} for {}", found.margin, alone.margin);
                prop_assert!((trained - alone.margin).abs() < 1e-4);
                for (a, b) in found.hidden.iter().zip(&alone.hidden) {
                    prop_assert!((a - b).abs() < 1e-4);
                }
            }
        }
    }
}

#[test]
fn without_time_nothing_is_read_and_nothing_is_wrong() {
    let reference = reference();
    let model = model("llama", &reference);
    let reader = Reader {
        base: &model.base,
        adapter: None,
        direction: &model.direction,
        pass_tokens: 8,
        cache: None,
    };
    let now = std::time::Instant::now();
    let found = reader
        .read(&reference.texts, 0, Sharing::Tree, Some(now))
        .unwrap();
    assert!(found.iter().all(Option::is_none));
}
