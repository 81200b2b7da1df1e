//! What every scorer promises, and what this one promises beside.

use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use upliftmem_core::{MemoryId, MemorySet};
use upliftmem_scorer::{
    Ask, ScorerVersion, SetScorer,
    lm::{LmScorer, Sharing, prompt},
};

use crate::world::{CALIBRATION, Texts, adapter, base, parts, scorer, settings};

const EVERYTHING: Ask = Ask {
    draws: 3,
    seed: 11,
    deviations: true,
};

fn assert_near(left: &[f64], right: &[f64]) {
    assert_eq!(left.len(), right.len());
    for (at, (a, b)) in left.iter().zip(right).enumerate() {
        assert!((a - b).abs() < 1e-4, "entry {at}: {a} for {b}");
    }
}

#[test]
fn a_batch_is_its_sets_alone_in_any_order_and_the_empty_set_is_zero() {
    let (scorer, texts) = (scorer(settings()), Texts::new());
    let sets = texts.sets();
    let memories = texts.memories();
    let bound = scorer.bind(texts.task(), &memories).unwrap();
    let all = bound.score(&sets, EVERYTHING).unwrap();
    assert_eq!(all.version, ScorerVersion(1));
    let mut backward = sets.clone();
    backward.reverse();
    let mut turned = bound.score(&backward, Ask::VALUES).unwrap().values;
    turned.reverse();
    assert_near(&all.values, &turned);
    for (at, set) in sets.iter().enumerate() {
        let fresh = crate::world::scorer(settings());
        let alone = fresh
            .bind(texts.task(), &memories)
            .unwrap()
            .score(std::slice::from_ref(set), EVERYTHING)
            .unwrap();
        assert_near(&alone.values, &all.values[at..=at]);
        assert_near(&alone.deviations, &all.deviations[at..=at]);
        for (alone, all) in alone.draws.iter().zip(&all.draws) {
            assert_near(alone, &all[at..=at]);
        }
        if set.is_empty() {
            assert_eq!(
                (alone.values[0], alone.deviations[0], alone.draws[2][0]),
                (0.0, 0.0, 0.0)
            );
        } else {
            assert!(alone.deviations[0] > 0.0);
        }
    }
    assert_ne!(all.draws[0], all.draws[1]);
}

#[test]
fn every_way_of_sharing_reads_the_same_with_features_from_the_same_pass() {
    let (scorer, texts) = (scorer(settings()), Texts::new());
    let (sets, memories) = (texts.sets(), texts.memories());
    let bound = scorer.bind_task(texts.task(), &memories);
    let tree = bound.read(&sets, None).unwrap();
    for sharing in [Sharing::None, Sharing::Prefix] {
        let other = bound.read_shared(&sets, sharing, None).unwrap();
        for (a, b) in tree.iter().zip(&other) {
            let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
            assert!((a.logit_margin - b.logit_margin).abs() < 1e-4);
            assert!(
                a.features
                    .iter()
                    .zip(&b.features)
                    .all(|(a, b)| (a - b).abs() < 1e-4)
            );
        }
    }
    for (set, reading) in sets.iter().zip(&tree) {
        let reading = reading.as_ref().unwrap();
        if set.is_empty() {
            assert_eq!(
                (reading.value, reading.logit_margin, reading.features.len()),
                (0.0, 0.0, 0)
            );
        } else {
            assert_eq!(reading.value, CALIBRATION.value(reading.logit_margin));
            assert_eq!(reading.features.len(), 32);
        }
    }
}

/// The prompt as a string through the plain model: no trie, no cache, no packing.
#[test]
fn the_margin_is_that_of_the_whole_prompt() {
    let texts = Texts::new();
    let plain = LmScorer::new(ScorerVersion(1), base(settings()), None, CALIBRATION);
    let memories = texts.memories();
    let set: MemorySet = memories[..3].iter().map(|memory| memory.id).collect();
    let reading = plain
        .bind_task(texts.task(), &memories)
        .read(&[set], None)
        .unwrap()
        .pop()
        .unwrap()
        .unwrap();
    let (base, tokenizer) = parts();
    let document = prompt::document(memories[..3].iter().map(|memory| memory.text));
    let tokens = tokenizer
        .encode(&prompt::prompt(prompt::INSTRUCTION, "open the chest", &document))
        .unwrap();
    let hidden = base
        .forward(&tokens, &mut upliftmem_scorer::lm::KvCache::default(), None)
        .unwrap();
    let logits = base
        .logits(&hidden.narrow(0, tokens.len() - 1, 1).unwrap())
        .unwrap()
        .to_vec2::<f32>()
        .unwrap();
    let logit = |word: &str| f64::from(logits[0][tokenizer.single(word).unwrap() as usize]);
    assert!((reading.logit_margin - (logit("yes") - logit("no"))).abs() < 1e-4);
}

#[test]
fn marks_in_memories_are_data() {
    let (_, tokenizer) = parts();
    let mark = tokenizer.mark("<|im_end|>").unwrap();
    let safe = tokenizer.without_marks("a<|im_end|>b</think>");
    assert!(!tokenizer.encode(&safe).unwrap().contains(&mark));
    assert!(!safe.contains("</think>"));
    assert_eq!(tokenizer.without_marks("nothing to do <|"), "nothing to do <|");
}

#[test]
fn a_memory_that_was_not_bound_is_refused() {
    let (scorer, texts) = (scorer(settings()), Texts::new());
    let stranger: MemorySet = std::iter::once(MemoryId::from_u128(99)).collect();
    let bound = scorer
        .bind(texts.task(), &texts.memories()[..2])
        .map(|bound| bound.score(&[stranger], Ask::VALUES));
    let error = bound.unwrap().unwrap_err().to_string();
    assert!(error.contains("was not bound"), "{error}");
}

#[test]
fn a_text_that_is_too_long_is_refused_by_its_length() {
    let texts = Texts::new();
    let long = "word ".repeat(600);
    let mut memories = texts.memories();
    memories[0].text = &long;
    let scorer = scorer(settings());
    let set: MemorySet = std::iter::once(memories[0].id).collect();
    let error = scorer
        .bind(texts.task(), &memories)
        .unwrap()
        .score(&[set], Ask::VALUES)
        .unwrap_err()
        .to_string();
    assert!(error.contains("512 tokens"), "{error}");
}

#[test]
fn time_that_is_over_leaves_sets_unread() {
    let (scorer, texts) = (scorer(settings()), Texts::new());
    let (sets, memories) = (texts.sets(), texts.memories());
    let bound = scorer.bind_task(texts.task(), &memories);
    let past = Instant::now();
    let none = bound.read(&sets, Some(past)).unwrap();
    assert!(
        sets.iter()
            .zip(&none)
            .all(|(set, reading)| reading.is_some() == set.is_empty())
    );
    let far = bound.read(&sets, Some(past + Duration::from_secs(600))).unwrap();
    assert!(far.iter().all(Option::is_some));
}

#[test]
fn adapters_are_swapped_under_requests_without_mixing() {
    let texts = Texts::new();
    let shared = base(settings());
    let version = |number: u64, adapted: bool| {
        let adapter = adapted.then(|| adapter(&shared));
        Arc::new(LmScorer::new(
            ScorerVersion(number),
            Arc::clone(&shared),
            adapter,
            CALIBRATION,
        ))
    };
    let (first, second) = (version(1, true), version(2, false));
    let (sets, memories) = (texts.sets()[..6].to_vec(), texts.memories());
    let values = |scorer: &LmScorer| {
        scorer
            .bind(texts.task(), &memories)
            .unwrap()
            .score(&sets, Ask::VALUES)
            .unwrap()
    };
    let expected = [values(&first), values(&second)];
    assert_ne!(expected[0].values, expected[1].values);
    let slot = RwLock::new(Arc::clone(&first));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = [0, 0];
                    while !done.load(Ordering::Relaxed) || seen[0] + seen[1] < 4 {
                        let scores = values(&Arc::clone(&slot.read().unwrap()));
                        let which = usize::from(scores.version == ScorerVersion(2));
                        assert_near(&scores.values, &expected[which].values);
                        seen[which] += 1;
                    }
                })
            })
            .collect();
        for turn in 0..40 {
            let next = if turn % 2 == 0 { &second } else { &first };
            *slot.write().unwrap() = Arc::clone(next);
            thread::sleep(Duration::from_millis(2));
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn what_there_is_no_time_for_has_no_value() {
    let texts = Texts::new();
    let (sets, memories) = (texts.sets(), texts.memories());
    let scorer = scorer(settings());
    let bound = scorer.bind(texts.task(), &memories).unwrap();
    let now = Instant::now();
    let hurried = bound.score_until(&sets, now).unwrap();
    for (set, value) in sets.iter().zip(hurried) {
        assert_eq!(value, set.is_empty().then_some(0.0));
    }
    let values = bound.score(&sets, Ask::VALUES).unwrap().values;
    let patient = bound
        .score_until(&sets, now + Duration::from_secs(3_600))
        .unwrap();
    for (value, expected) in patient.into_iter().zip(values) {
        assert!((value.unwrap() - expected).abs() < 1e-4);
    }
}
