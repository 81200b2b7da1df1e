//! Checkpoints of networks: the same bits back, or a clear error.

use std::{fs, path::Path};

use proptest::prelude::*;
use upliftmem_scorer::{
    NetworkModel, SetScorer, Trainer, TrainerSettings, ValueExample,
    checkpoint::{CheckpointError, Provenance, checkpoint_directory, checkpoints},
    embedder::{Embedder, HashEmbedder},
};

use crate::world::{corpus, labels, set, trainer, values};

fn settings() -> TrainerSettings {
    TrainerSettings {
        epochs: 2,
        restart: false,
        ..TrainerSettings::default()
    }
}

fn examples(count: usize) -> Vec<ValueExample> {
    labels(20, count, |set| 0.3 * set.len() as f64)
}

/// A small checkpoint in this directory.
fn saved(directory: &Path) -> Trainer<NetworkModel> {
    let mut trainer = trainer(settings(), 2);
    let update = trainer.warm_up(&corpus(20, 8), &examples(60), &|_| {}).unwrap();
    let provenance = Provenance {
        metrics: serde_json::to_value(&update.report).unwrap(),
        data: Some("hash".into()),
        ..Provenance::default()
    };
    trainer.save(directory, &provenance).unwrap();
    trainer
}

fn load(directory: &Path) -> Result<upliftmem_scorer::checkpoint::LoadedNetwork, CheckpointError> {
    Trainer::<NetworkModel>::load(directory, None)
}

#[test]
fn a_checkpoint_gives_back_every_bit_and_training_goes_on_as_if_never_stopped() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(20, 8);
    let mut trainer = trainer(settings(), 2);
    let update = trainer.warm_up(&corpus, &examples(60), &|_| {}).unwrap();
    let directory = checkpoint_directory(root.path(), update.report.version);
    let provenance = Provenance::default();
    trainer.save(&directory, &provenance).unwrap();
    let mut loaded = load(&directory).unwrap();
    let sets = [set(&[0]), set(&[1, 2]), set(&[0, 3, 7])];
    assert_eq!(
        values(loaded.scorer.as_ref(), &corpus, 1, 8, &sets),
        values(update.scorer.as_ref(), &corpus, 1, 8, &sets)
    );
    assert_eq!(loaded.scorer.version(), update.scorer.version());
    let straight = trainer.update(&corpus, &examples(90), &[], &|_| {}).unwrap();
    let resumed = loaded
        .trainer
        .update(&corpus, &examples(90), &[], &|_| {})
        .unwrap();
    assert_eq!(straight.report, resumed.report);
    assert_eq!(
        values(straight.scorer.as_ref(), &corpus, 1, 8, &sets),
        values(resumed.scorer.as_ref(), &corpus, 1, 8, &sets)
    );
    assert_eq!(
        checkpoints(root.path()).unwrap(),
        [(update.report.version, directory)]
    );
}

#[test]
fn an_untrained_network_can_be_saved() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("new");
    trainer(settings(), 1)
        .save(&directory, &Provenance::default())
        .unwrap();
    let loaded = load(&directory).unwrap();
    assert_eq!(
        values(loaded.scorer.as_ref(), &corpus(4, 8), 0, 8, &[set(&[0])]),
        [0.0]
    );
}

#[test]
fn nothing_is_overwritten_and_nothing_half_written_stays() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a");
    let trainer = saved(&directory);
    let error = trainer.save(&directory, &Provenance::default()).unwrap_err();
    assert!(error.to_string().contains("already there"), "{error}");
    assert!(load(&directory).is_ok());
    let names: Vec<_> = fs::read_dir(root.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["a"]);
    assert!(checkpoints(&root.path().join("nowhere")).unwrap().is_empty());
}

#[test]
fn foreign_newer_and_mismatched_checkpoints_are_named() {
    let root = tempfile::tempdir().unwrap();
    let check = |directory: &Path, word: &str| {
        let error = load(directory).err().unwrap().to_string();
        assert!(error.contains(word), "{error}");
    };
    check(&root.path().join("nothing"), "manifest.json");
    let directory = root.path().join("a");
    saved(&directory);
    let manifest = directory.join("manifest.json");
    let written = fs::read_to_string(&manifest).unwrap();
    for (from, to, word) in [
        (
            "\"format_version\": 1",
            "\"format_version\": 2",
            "use a newer program",
        ),
        ("\"upliftmem-scorer\"", "\"another\"", "not a checkpoint"),
        ("\"kind\": \"network\"", "\"kind\": \"compact\"", "checksum"),
        ("\"hash\"", "\"hush\"", "checksum"),
        ("\"hash\"", " \"hash\"", "checksum"),
    ] {
        assert!(written.contains(from), "{from}");
        fs::write(&manifest, written.replacen(from, to, 1)).unwrap();
        check(&directory, word);
    }
    fs::write(&manifest, &written).unwrap();
    assert!(load(&directory).is_ok());
    fs::remove_file(directory.join("model.safetensors")).unwrap();
    check(&directory, "model.safetensors");
}

#[test]
fn another_embedder_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a");
    let mine = HashEmbedder::new(32).unwrap();
    let provenance = Provenance {
        embedder: Some(mine.generation().clone()),
        ..Provenance::default()
    };
    trainer(settings(), 1).save(&directory, &provenance).unwrap();
    assert!(Trainer::<NetworkModel>::load(&directory, Some(mine.generation())).is_ok());
    let other = HashEmbedder::new(64).unwrap();
    let error = Trainer::<NetworkModel>::load(&directory, Some(other.generation()));
    assert!(error.err().unwrap().to_string().contains("embed all texts again"));
}

/// Damages one file of a good checkpoint; loading must say so.
fn check_damaged(directory: &Path, name: &str, damage: impl FnOnce(&mut Vec<u8>)) {
    let file = directory.join(name);
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    damage(&mut bad);
    assert_ne!(good, bad);
    fs::write(&file, &bad).unwrap();
    let error = load(directory).err().unwrap().to_string();
    assert!(error.contains(name), "{error}");
    fs::write(&file, &good).unwrap();
}

#[test]
fn truncation_anywhere_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a");
    saved(&directory);
    for name in ["manifest.json", "model.safetensors"] {
        let size = fs::metadata(directory.join(name)).unwrap().len() as usize;
        // Nothing, within and after the length of the header, within the header, at its end, in the data, the last byte.
        for keep in [0, 1, 7, 8, 9, 100, 1_000, size / 2, size - 2, size - 1] {
            check_damaged(&directory, name, |bytes| bytes.truncate(keep));
        }
        check_damaged(&directory, name, |bytes| bytes.push(b' '));
    }
    assert!(load(&directory).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_change_is_an_error(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..=255, any::<bool>()), 24),
    ) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a");
        saved(&directory);
        for (at, change, manifest) in changes {
            let name = if manifest { "manifest.json" } else { "model.safetensors" };
            check_damaged(&directory, name, |bytes| {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
            });
        }
        prop_assert!(load(&directory).is_ok());
    }
}
