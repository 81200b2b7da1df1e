//! Every scorer by name: trained, searched with, probed with and scored with from the command line.
#![allow(clippy::unwrap_used)]

#[path = "../../upliftmem-scorer/tests/embedders/server.rs"]
#[allow(dead_code)] // The embedders use all of it.
mod server;
mod support;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use server::{Reply, Request, Server};
use support::{WORLD, fails, succeeds, with_world};
use upliftmem_core::{MemoryId, MemorySet, ReferenceId, TaskId, Uplift, objectives::ValueLabel};
use upliftmem_scorer::{
    CompactLearner, CompactSettings, Corpus, Label, NetworkModel, NetworkSettings, Trainer, TrainerSettings,
    ValueExample,
    checkpoint::Provenance,
    embedder::{Embedder, HashEmbedder},
};

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap()
}

/// The tiny model with room for the texts of a world: its tokens are hardly more than letters.
fn model(place: &Path) -> String {
    let tiny = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../upliftmem-scorer/fixtures/lm/qwen3");
    let roomy = place.join("model");
    fs::create_dir_all(&roomy).unwrap();
    for file in ["model.safetensors", "tokenizer.json"] {
        fs::copy(tiny.join(file), roomy.join(file)).unwrap();
    }
    let mut config: Value = json(&fs::read_to_string(tiny.join("config.json")).unwrap());
    config["max_position_embeddings"] = json!(8192);
    fs::write(roomy.join("config.json"), config.to_string()).unwrap();
    roomy.display().to_string()
}

/// Appends sections to the configuration of a world, so that the file alone says which scorer it is.
fn configured(tasks: usize, sections: &str) -> tempfile::TempDir {
    let directory = with_world(tasks);
    model(directory.path());
    let small = "[retrieval]\ncandidates = 4\nmemories_max = 2\n[acquisition]\nbelief_dimension = 16\n\
                 challengers_max = 2\n[embedder]\nkind = \"hash\"\n";
    fs::write(
        directory.path().join("upliftmem.toml"),
        format!("{sections}{small}"),
    )
    .unwrap();
    directory
}

fn lm_sections(kind: &str) -> String {
    format!(
        "[scorer]\nkind = \"{kind}\"\n[lm]\nmodel = \"model\"\nrank = 2\nepochs = 1\npaths_max = 1\nbelief_labels = 20\n\
         [cascade]\nbudget_ms = 60000\ndistilled = 10\n"
    )
}

fn trained(place: &Path) -> Value {
    let train = [
        "--json",
        "train",
        "--tasks",
        "tasks.jsonl",
        "--seed-tasks",
        "8",
        "--max-executions",
        "36",
    ];
    json(&succeeds(place, &[&train[..], &WORLD[..]].concat()))
}

fn searched(place: &Path, more: &[&str]) -> Value {
    let tasks = fs::read_to_string(place.join("tasks.jsonl")).unwrap();
    let task = json(tasks.lines().next().unwrap());
    let query = task["context"].as_str().unwrap();
    json(&succeeds(
        place,
        &[&["--json", "search", query][..], more, &WORLD[..]].concat(),
    ))
}

#[test]
fn a_language_model_is_trained_searched_probed_and_compared_with() {
    let directory = configured(20, &lm_sections("lm"));
    let place = directory.path();
    let report = trained(place);
    assert!(report["scorer"].as_str().unwrap().starts_with("lm@"), "{report}");
    let found = searched(place, &[]);
    assert!(found["scorer"].as_str().unwrap().starts_with("lm@"), "{found}");
    let hurried = searched(place, &["--budget-ms", "0"]);
    assert_eq!(
        (&hurried["interrupted"], &hurried["abstained"]),
        (&json!(true), &json!(true))
    );
    let run = |arguments: &[&str]| succeeds(place, &[arguments, &WORLD[..]].concat());
    run(&["--json", "probe", "--tasks", "tasks.jsonl", "--budget", "2"]);
    // What training wrote is one adapter a version, in the layout of PEFT.
    let runs: Vec<PathBuf> = fs::read_dir(place.join("adapters"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let mut versions: Vec<PathBuf> = fs::read_dir(&runs[0])
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    versions.sort();
    let newest = versions.pop().unwrap();
    for file in [
        "adapter_config.json",
        "adapter_model.safetensors",
        "calibration.json",
        "manifest.json",
    ] {
        assert!(newest.join(file).is_file(), "{file}");
    }
    // The configured scorer and the same adapter by flags agree.
    let line =
        json!({"task": {"context": "open the chest"}, "memories": [{"id": "a", "text": "take the key"}]});
    fs::write(place.join("sets.jsonl"), line.to_string()).unwrap();
    let configured = json(&run(&["score", "-q", "--scorer", "configured", "sets.jsonl"]));
    let (model, adapter) = (model(place), newest.display().to_string());
    let flags = [
        "score",
        "-q",
        "--model",
        &model,
        "--adapter",
        &adapter,
        "sets.jsonl",
    ];
    let by_flags = json(&succeeds(place, &flags));
    let value = |row: &Value| row["value"].as_f64().unwrap();
    assert!(
        (value(&configured) - value(&by_flags)).abs() < 1e-6,
        "{configured} {by_flags}"
    );
    // Labels alone make a further adapter, which search takes over.
    let adapted = json(&run(&["--json", "train", "--labels-only"]));
    assert_eq!(adapted["version"], 1);
    let again = json(&run(&["--json", "train", "--labels-only"]));
    assert_eq!(again["version"], 2);
    assert!(
        Path::new(again["location"].as_str().unwrap())
            .join("adapter_config.json")
            .is_file()
    );
    let moved = json(&run(&["score", "-q", "--scorer", "configured", "sets.jsonl"]));
    assert_ne!(moved["value"], configured["value"]);
    // The same run with another rank is refused.
    let error = fails(
        place,
        1,
        &[
            &[
                "-q",
                "train",
                "--tasks",
                "tasks.jsonl",
                "--seed-tasks",
                "8",
                "--set",
                "lm.rank=3",
            ][..],
            &WORLD[..],
        ]
        .concat(),
    );
    assert!(error.contains("scorer"), "{error}");
}

#[test]
fn a_cascade_is_trained_and_searched_with() {
    let directory = configured(20, &lm_sections("cascade"));
    let report = trained(directory.path());
    assert!(
        report["scorer"].as_str().unwrap().starts_with("cascade@"),
        "{report}"
    );
    let found = searched(directory.path(), &[]);
    assert!(
        found["scorer"].as_str().unwrap().starts_with("cascade@"),
        "{found}"
    );
    let error = fails(
        directory.path(),
        1,
        &[&["search", "x", "--set", "scorer.labels=paired"][..], &WORLD[..]].concat(),
    );
    assert!(error.contains("cascade.distilled"), "{error}");
}

#[test]
fn a_remote_scorer_is_searched_with_as_the_file_says() {
    let server = Server::start(|_, request: &Request| {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(body["model"], "reranker");
        let rows: Vec<Value> = (0..body["text_2"].as_array().unwrap().len())
            .map(|index| json!({"index": index, "score": 0.75}))
            .collect();
        Reply::new(200, json!({"data": rows}).to_string())
    });
    let sections = format!(
        "[scorer]\nkind = \"remote\"\n[remote]\nurl = \"{}/score\"\nmodel = \"reranker\"\nretries = 0\n",
        server.url()
    );
    let directory = configured(8, &sections);
    let found = searched(directory.path(), &[]);
    assert!(
        found["scorer"].as_str().unwrap().starts_with("remote@"),
        "{found}"
    );
    // Every set is worth the same: one memory is the smallest of the best.
    assert_eq!(found["memories"].as_array().unwrap().len(), 1);
    assert!((found["predicted_uplift"].as_f64().unwrap() - 3.0_f64.ln()).abs() < 1e-9);
    let line = json!({"task": {"context": "c"}, "memories": [{"id": "a", "text": "t"}]});
    fs::write(directory.path().join("sets.jsonl"), line.to_string()).unwrap();
    let url = format!("{}/score", server.url());
    let flags = [
        "score",
        "--scorer",
        "remote",
        "--model",
        "reranker",
        "--url",
        &url,
        "sets.jsonl",
    ];
    let row = json(&succeeds(directory.path(), &flags));
    assert!(
        (row["logit_margin"].as_f64().unwrap() - 3.0_f64.ln()).abs() < 1e-9,
        "{row}"
    );
}

#[test]
fn what_a_scorer_lacks_is_named() {
    let directory = with_world(4);
    let place = directory.path();
    let error = fails(place, 1, &["search", "x", "--set", "scorer.kind=lm"]);
    assert!(error.contains("lm.model is empty"), "{error}");
    let error = fails(place, 1, &["search", "x", "--set", "scorer.kind=remote"]);
    assert!(error.contains("remote.url"), "{error}");
    let error = fails(
        place,
        1,
        &[
            "search",
            "x",
            "--set",
            "scorer.kind=cascade",
            "--set",
            "lm.model=nowhere",
        ],
    );
    assert!(error.contains("lm.model") && error.contains("nowhere"), "{error}");
    let error = fails(place, 1, &["search", "x", "--set", "scorer.kind=oracle"]);
    assert!(error.contains("oracle") && error.contains("cascade"), "{error}");
}

/// A line whose ids are those that the checkpoints below learned from.
fn known_line(helps: bool) -> String {
    let id = MemoryId::from_u128(u128::from(!helps));
    let text = if helps {
        "the brass key opens it"
    } else {
        "kick it"
    };
    json!({"task": {"id": "t", "context": "open the chest"}, "memories": [{"id": id, "text": text}]})
        .to_string()
}

#[test]
fn the_compact_scorer_and_the_network_score_given_sets() {
    let directory = with_world(20);
    let place = directory.path();
    fs::write(
        place.join("sets.jsonl"),
        known_line(true) + "\n" + &known_line(false),
    )
    .unwrap();
    let embedder = HashEmbedder::default();
    let vectors = embedder
        .embed(&["open the chest", "the brass key opens it", "kick it"])
        .unwrap();
    let task = TaskId::from_name("t");
    let ids = [MemoryId::from_u128(0), MemoryId::from_u128(1)];
    let provenance = Provenance {
        embedder: Some(embedder.generation().clone()),
        ..Provenance::default()
    };

    let mut compact = CompactLearner::new(CompactSettings::default()).unwrap();
    compact.add_task(task, &vectors[0]).unwrap();
    let mut corpus = Corpus::default();
    corpus.add_task(task, "open the chest", vectors[0].clone());
    let mut examples = Vec::new();
    for (at, (id, vector)) in ids.iter().zip(&vectors[1..]).enumerate() {
        compact.add_memory(*id, vector).unwrap();
        corpus.add_memory(*id, "text", vector.clone());
        for repeat in 0..6_u128 {
            let (set, sign): (MemorySet, f64) =
                (std::iter::once(*id).collect(), if at == 0 { 1.0 } else { -1.0 });
            let label = Label {
                task,
                set: set.clone(),
                value: 0.5 + 0.5 * sign,
                reference: None,
                time: 0.0,
            };
            compact.hold(&label).unwrap();
            examples.push(ValueExample {
                set,
                label: ValueLabel {
                    task,
                    reference: ReferenceId::from_u128(repeat),
                    uplift: Uplift::new(0.5 * sign).unwrap(),
                },
            });
        }
    }
    compact.refit().unwrap();
    compact.publish();
    compact.save(&place.join("compact"), &provenance).unwrap();
    let models = vec![NetworkModel::new(NetworkSettings::default(), 1).unwrap()];
    let plan = TrainerSettings {
        folds: 97,
        ..TrainerSettings::default()
    };
    let mut network = Trainer::new(plan, models).unwrap();
    network.warm_up(&corpus, &examples, &|_| {}).unwrap();
    network.save(&place.join("network"), &provenance).unwrap();

    for scorer in ["compact", "network"] {
        let flags = [
            "score",
            "--scorer",
            scorer,
            "--model",
            scorer,
            "--set",
            "embedder.kind=hash",
            "sets.jsonl",
        ];
        let rows: Vec<Value> = succeeds(place, &flags).lines().map(json).collect();
        let value = |row: &Value| row["value"].as_f64().unwrap();
        assert!(value(&rows[0]) > value(&rows[1]), "{scorer}: {rows:?}");
        assert_eq!(rows[0]["scorer"], format!("{scorer} {scorer}"));
        assert!(rows[0].get("logit_margin").is_none());
    }
    // Without a checkpoint the compact scorer is what the store's labels make.
    let row = json(
        succeeds(place, &["score", "--scorer", "compact", "sets.jsonl"])
            .lines()
            .next()
            .unwrap(),
    );
    assert_eq!(
        (&row["value"], &row["scorer"]),
        (&json!(0.0), &json!("compact@0"))
    );
    let error = fails(place, 1, &["score", "--scorer", "network", "sets.jsonl"]);
    assert!(
        error.contains("--model") && error.contains("checkpoint"),
        "{error}"
    );
    let error = fails(
        place,
        1,
        &["score", "--scorer", "compact", "--model", "nowhere", "sets.jsonl"],
    );
    assert!(error.contains("nowhere"), "{error}");
}

#[test]
fn an_exported_scorer_scores_as_the_store_does() {
    let directory = with_world(20);
    let place = directory.path();
    let hash = ["--set", "embedder.kind=hash"];
    trained(place);
    let memories = succeeds(place, &["--json", "list", "memories", "--limit", "2"]);
    let memories: Vec<Value> = memories.lines().map(json).collect();
    let tasks = fs::read_to_string(place.join("tasks.jsonl")).unwrap();
    let task = json(tasks.lines().next().unwrap());
    let memories: Vec<Value> = (memories[0]["items"].as_array().cloned())
        .unwrap_or(memories)
        .iter()
        .map(|memory| json!({"id": memory["id"], "text": memory["text"]}))
        .collect();
    let line = json!({"task": task, "memories": memories}).to_string();
    fs::write(place.join("sets.jsonl"), line).unwrap();
    let value = |more: &[&str]| {
        let flags = [&["score", "--scorer", "compact", "sets.jsonl"], &hash[..], more].concat();
        json(&succeeds(place, &flags))["value"].as_f64().unwrap()
    };
    let export = ["--json", "export", "scorer", "--out", "scorer"];
    let written = json(&succeeds(place, &[&export[..], &hash[..]].concat()));
    assert!(written["scorer_version"].as_u64().unwrap() > 0);
    assert!(place.join("scorer/manifest.json").exists());
    assert_eq!(
        value(&[]).to_bits(),
        value(&["--model", "scorer"]).to_bits(),
        "the checkpoint is another scorer than the store's"
    );
    // What is there is never overwritten, and a place must be named.
    let error = fails(place, 1, &[&export[..], &hash[..]].concat());
    assert!(error.contains("scorer"), "{error}");
    let error = fails(place, 1, &["export", "scorer"]);
    assert!(error.contains("--out"), "{error}");
}
