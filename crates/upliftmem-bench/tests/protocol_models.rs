//! Suites that a language model executes, and memory systems whose steps one does, with models that are scripts.
//!
//! Needs the data: a folder `UPLIFTMEM_BENCH_DIR` (see `docs/environments.md`). Without it every test says so and passes.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use upliftmem_agent::chat::{
    ChatError, ChatMessage, ChatModel, ChatReply, ChatRequest, ChoiceLikelihood, Finish, Sampling, Usage,
};
use upliftmem_bench::{
    bigcodebench::{Benchmark, PythonSandbox},
    memsyco::{LikelihoodPair, load},
    protocol::{
        Bench, Method, Sizes, Work, ablations, budget_k, estimate, evaluate_methods, probe_curves,
        write_ablations, write_budget_k, write_main, write_probes,
    },
    suite::{Acting, AlfworldSuite, BigCodeBenchSuite, MemsycoSuite, ModelAgent, Suite, WebshopSuite},
    systems::{Steps, SystemName},
};
use upliftmem_engine::Strategy;
use upliftmem_scorer::embedder::HashEmbedder;

/// The folder of a benchmark, or none with a line that says why.
fn data(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("UPLIFTMEM_BENCH_DIR").map(|data| PathBuf::from(data).join(name));
    let folder = folder.filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with `{name}` in it");
    }
    folder
}

type Answer = Box<dyn Fn(&str) -> String + Send + Sync>;
type Likelihood = Box<dyn Fn(&str, &str) -> f64 + Send + Sync>;

/// A model that is a script: it answers what it reads, and finds answers likely by what it reads.
struct Script {
    answer: Answer,
    likelihood: Likelihood,
    asked: AtomicUsize,
}

impl Script {
    fn new(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self {
            answer: Box::new(answer),
            likelihood: Box::new(|_, _| -1.0),
            asked: AtomicUsize::new(0),
        }
    }

    fn finding(mut self, likelihood: impl Fn(&str, &str) -> f64 + Send + Sync + 'static) -> Self {
        self.likelihood = Box::new(likelihood);
        self
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn read(messages: &[ChatMessage]) -> String {
    let contents: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
    contents.join("\n")
}

#[async_trait]
impl ChatModel for Script {
    fn name(&self) -> &str {
        "script"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(ChatReply {
            text: (self.answer)(&read(&request.messages)),
            finish: Finish::Stop,
            usage: Usage::default(),
        })
    }

    async fn choices(
        &self,
        messages: &[ChatMessage],
        answers: &[String],
    ) -> Result<(Vec<ChoiceLikelihood>, Usage), ChatError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let read = read(messages);
        let likelihoods = answers.iter().map(|answer| ChoiceLikelihood {
            log_likelihood: (self.likelihood)(&read, answer),
            tokens: 1,
        });
        Ok((likelihoods.collect(), Usage::default()))
    }
}

fn agent(model: &Arc<Script>, kept: Option<&Path>) -> ModelAgent {
    ModelAgent {
        model: Arc::clone(model) as Arc<dyn ChatModel>,
        sampling: Sampling::default(),
        concurrency: 2,
        kept: kept.map(Path::to_owned),
    }
}

fn bench(suite: impl Suite + 'static, sizes: Sizes, folder: &Path) -> Bench {
    let embedder = Arc::new(HashEmbedder::default());
    let mut bench = Bench::new(Arc::new(suite), embedder, sizes, folder.to_owned());
    bench.runs = 2;
    bench.engine.acquisition.acquisition_interval = 20;
    bench.engine.acquisition.probe_budget = 10;
    bench
}

const DIALOGUES: Sizes = Sizes {
    seed: 0,
    runtime: 40,
    warm_up: 20,
    evaluation: Some(4),
};

/// Finds the good answer likelier unless it reads what the user likes: memory misleads it.
fn misled(folder: &Path) -> Arc<Script> {
    let instances = load(folder).unwrap();
    let good: Vec<(String, Vec<String>)> = (0..instances.len())
        .filter_map(|position| {
            let pair = LikelihoodPair::of(&instances, position)?;
            Some((instances[position].question.clone(), pair.good))
        })
        .collect();
    Arc::new(Script::new(|_| "Yes.".into()).finding(move |read, answer| {
        let asked = good.iter().filter(|(question, _)| read.contains(question.trim()));
        let is_good = asked.flat_map(|(_, good)| good).any(|good| good == answer);
        let remembers = read.contains("What you remember:");
        if is_good == remembers { -2.0 } else { -1.0 }
    }))
}

#[tokio::test]
async fn dialogues_are_stores_of_their_own_and_every_command_goes_through() {
    let Some(folder) = data("memsyco") else { return };
    let place = tempfile::tempdir().unwrap();
    let model = misled(&folder);
    let suite = || MemsycoSuite::load(&folder, &DIALOGUES, &agent(&model, Some(place.path())), None).unwrap();
    let here = bench(suite(), DIALOGUES, place.path());
    let parts: Vec<usize> = here
        .suite
        .evaluation()
        .iter()
        .map(|part| part.tasks.len())
        .collect();
    assert_eq!(parts, [4; 5]);
    let methods = Method::all(here.suite.as_ref());
    assert!(!methods.contains(&Method::System(SystemName::MemRl)));
    let cost = estimate(&here, &Work::Main(methods.clone()));
    assert_eq!(cost.evaluation, methods.len() * 20 * 2);
    let scores = evaluate_methods(&here, &methods).await.unwrap();
    let success = |title: &str, part: &str| {
        let found = scores.iter().find(|scores| scores.method == title).unwrap();
        (
            found.parts[part].success().unwrap().mean,
            found.parts[part].sizes.clone(),
        )
    };
    // Dialogues share turns; a text is stored once, and every task that has it is offered it.
    let stored = |title: &str| {
        scores
            .iter()
            .find(|scores| scores.method == title)
            .map(|scores| scores.store)
    };
    assert_eq!(stored("UpliftMem"), stored("Dense-RAG"));
    for part in here.suite.evaluation() {
        // Instances can share a question.
        assert!(success("ReAct", &part.name).0 >= 75.0, "{}", part.name);
        let (naive, sizes) = success("NaiveRAG", &part.name);
        assert!(naive <= 25.0, "{}: {naive}", part.name);
        assert_eq!(sizes, [5; 4]);
        // It has found out that memories do harm here.
        let (ours, _) = success("UpliftMem", &part.name);
        assert!(ours >= 75.0, "{}: {ours}", part.name);
    }
    let table = std::fs::read_to_string(write_main(&here, &scores).unwrap()).unwrap();
    assert!(table.contains("objective_fact_judgment memory tokens"), "{table}");
    let summary = std::fs::read_to_string(place.path().join("main-summary.md")).unwrap();
    assert!(
        summary.contains("Decision, %") && !summary.contains("Syco"),
        "{summary}"
    );

    // What was answered is in the folder: another run of the same asks nothing.
    let asked = model.asked();
    std::fs::remove_dir_all(place.path().join("results")).unwrap();
    let again = bench(suite(), DIALOGUES, place.path());
    assert_eq!(evaluate_methods(&again, &methods).await.unwrap(), scores);
    assert_eq!(model.asked(), asked);

    // What is given comes from the task's own dialogue.
    let traces = std::fs::read_to_string(
        place
            .path()
            .join("traces/naiverag-k5-valid_memory_selection.jsonl"),
    )
    .unwrap();
    let instances = load(&folder).unwrap();
    for line in traces.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let instance = instances
            .iter()
            .find(|instance| line["task"] == instance.id)
            .unwrap();
        let turns = instance.turn_memories();
        for memory in line["memories"].as_array().unwrap() {
            assert!(turns.iter().any(|turn| memory == turn), "{memory}");
        }
    }

    let rows = budget_k(&here, &[3]).await.unwrap();
    assert_eq!(rows.len(), 5);
    write_budget_k(&here, &rows).unwrap();
    let parts = ablations(&here).await.unwrap();
    write_ablations(&here, &parts).unwrap();
    assert!(place.path().join("ablations-summary.csv").is_file());
    let curves = probe_curves(&here, &[Strategy::Evsi, Strategy::Random], &[4, 8], 1)
        .await
        .unwrap();
    write_probes(&here, &curves, 1).unwrap();
    let learning = [Method::System(SystemName::MemP)];
    let refused = evaluate_methods(&here, &learning).await.unwrap_err().to_string();
    assert!(refused.contains("MemP learns"), "{refused}");
}

#[tokio::test]
async fn a_judge_gives_two_labels() {
    let Some(folder) = data("memsyco") else { return };
    let place = tempfile::tempdir().unwrap();
    let model = Arc::new(Script::new(|read| {
        let remembers = read.contains("What you remember:");
        if remembers { "As you like it." } else { "As it is." }.into()
    }));
    let judge: Arc<dyn ChatModel> = Arc::new(Script::new(|read| {
        let gave_in = read.contains("As you like it.");
        format!(
            "{{\"accuracy\": {}, \"behaviour\": {}}}",
            u8::from(!gave_in),
            u8::from(gave_in)
        )
    }));
    let suite = MemsycoSuite::load(&folder, &DIALOGUES, &agent(&model, None), Some(judge)).unwrap();
    let here = bench(suite, DIALOGUES, place.path());
    let methods = [SystemName::React, SystemName::NaiveRag].map(Method::System);
    let scores = evaluate_methods(&here, &methods).await.unwrap();
    write_main(&here, &scores).unwrap();
    let summary = std::fs::read_to_string(place.path().join("main-summary.csv")).unwrap();
    let lines: Vec<&str> = summary.lines().collect();
    assert!(
        lines[0].contains("Decision") && lines[0].contains("Old"),
        "{summary}"
    );
    assert!(
        lines[1].starts_with("ReAct,100") && lines[2].starts_with("NaiveRAG,0"),
        "{summary}"
    );
    let table = std::fs::read_to_string(place.path().join("main.md")).unwrap();
    assert!(
        table.contains("valid_memory_selection outdated use, %"),
        "{table}"
    );
    let silent: Arc<dyn ChatModel> = Arc::new(Script::new(|_| "Fine.".into()));
    let suite = MemsycoSuite::load(&folder, &DIALOGUES, &agent(&model, None), Some(silent)).unwrap();
    let there = tempfile::tempdir().unwrap();
    let error = evaluate_methods(&bench(suite, DIALOGUES, there.path()), &methods)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("gave no verdict"), "{error}");
}

const QUICK: [&str; 7] = [
    "collections",
    "itertools",
    "json",
    "math",
    "random",
    "re",
    "string",
];

#[tokio::test]
async fn programs_are_written_tested_and_learned_from() {
    let Some(folder) = data("bigcodebench") else {
        return;
    };
    let Ok(sandbox) = PythonSandbox::new("python3") else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let sizes = Sizes {
        seed: 6,
        runtime: 4,
        warm_up: 2,
        evaluation: Some(4),
    };
    // It knows every second solution by heart, and the others once it is shown how something was done.
    let benchmark = Benchmark::load(&folder).unwrap();
    let known: Vec<(String, String)> = benchmark
        .tasks()
        .iter()
        .map(|task| (task.task().context, task.reference_solution()))
        .collect();
    let model = Arc::new(Script::new(move |read| {
        let found = known
            .iter()
            .position(|(context, _)| read.contains(context.trim()));
        match found {
            Some(place) if place % 2 == 0 || read.contains("Reusable implementation evidence") => {
                format!("```python\n{}\n```", known[place].1)
            }
            _ => "I do not know.".into(),
        }
    }));
    let place = tempfile::tempdir().unwrap();
    let suite = BigCodeBenchSuite::load(
        &folder,
        &sizes,
        &agent(&model, Some(place.path())),
        sandbox,
        // Whose tests take no time: nothing is waited for, no process started.
        |task| task.libs.iter().all(|name| QUICK.contains(&name.as_str())),
    );
    let mut here = bench(suite.unwrap(), sizes, place.path());
    here.runs = 1;
    let systems = [
        SystemName::React,
        SystemName::DenseRag,
        SystemName::NaiveRag,
        SystemName::MemRl,
    ];
    let methods: Vec<Method> = systems
        .into_iter()
        .map(Method::System)
        .chain([Method::Uplift])
        .collect();
    let scores = evaluate_methods(&here, &methods).await.unwrap();
    let success = |at: usize| scores[at].parts["all"].success().unwrap().mean;
    assert!(
        success(0) < success(1),
        "{} alone, {} with evidence",
        success(0),
        success(1)
    );
    assert!(scores[1].store > 0 && scores[1].parts["all"].steps().unwrap().mean > 0.0);
    let table = std::fs::read_to_string(write_main(&here, &scores).unwrap()).unwrap();
    assert!(
        table.contains("all evidence tokens") && table.contains("language model script"),
        "{table}"
    );
    // Nothing of a test or of a task's contract is in a trace's memories.
    let traces = std::fs::read_to_string(place.path().join("traces/dense-rag-k3-all.jsonl")).unwrap();
    assert!(
        !traces.contains("unittest") && !traces.contains("The function should output"),
        "{traces}"
    );
}

#[tokio::test]
async fn a_model_acts_in_the_native_worlds() {
    let Some(folder) = data("alfworld") else { return };
    let sizes = Sizes {
        seed: 2,
        runtime: 2,
        warm_up: 1,
        evaluation: Some(2),
    };
    let archive = folder.join("games.tar.xz");
    let games = if archive.is_file() { archive } else { folder };
    let place = tempfile::tempdir().unwrap();
    let look = Arc::new(Script::new(|read| {
        assert!(
            read.contains("You are an ALFWorld household robot agent"),
            "{read}"
        );
        // Two worked examples, in the words of these games.
        assert!(
            read.matches("You are in the middle of a room").count() >= 2,
            "{read}"
        );
        assert!(!read.contains(" in/on "), "{read}");
        "look".into()
    }));
    let acting = |model: &Arc<Script>| Acting {
        model: Some(agent(model, Some(place.path()))),
        attached: None,
    };
    let suite = AlfworldSuite::load(&games, &sizes)
        .unwrap()
        .acted_by(acting(&look))
        .unwrap();
    assert_eq!(suite.executor().name(), "llm:script@native");
    let here = bench(suite, sizes, place.path());
    let methods = [Method::System(SystemName::React)];
    let scores = evaluate_methods(&here, &methods).await.unwrap();
    assert_eq!(scores[0].parts["seen"].outcomes[0], [(0.0, 30.0), (0.0, 30.0)]);

    let Some(folder) = data("webshop") else { return };
    let place = tempfile::tempdir().unwrap();
    // Searches, opens the first product, and buys it.
    let buys = Arc::new(Script::new(|read| {
        let listed = read.split("Available actions:").last().unwrap_or_default();
        let click = |what: &str| {
            listed
                .split(['\n', ';'])
                .map(str::trim)
                .find(|line| line.contains(what))
                .map(str::to_owned)
        };
        let action = click("click[buy now]")
            .or_else(|| click("click[b0"))
            .unwrap_or_else(|| "search[pillow]".into());
        format!("Thought: on.\nAction: {}", action.trim_start_matches("- "))
    }));
    let acting = Acting {
        model: Some(agent(&buys, Some(place.path()))),
        attached: None,
    };
    let suite = WebshopSuite::load(&folder, &sizes)
        .unwrap()
        .acted_by(acting)
        .unwrap();
    let here = bench(suite, sizes, place.path());
    let scores = evaluate_methods(&here, &methods).await.unwrap();
    assert_eq!(
        scores[0].parts["test"].outcomes[0]
            .iter()
            .map(|(_, cost)| *cost)
            .collect::<Vec<_>>(),
        [3.0, 3.0]
    );
}

/// Answers every step of memory systems in its form; counts by kind.
fn keeper(malformed: bool) -> Arc<Script> {
    Arc::new(Script::new(move |read| {
        if malformed {
            return String::new();
        }
        let user = read.split_once("/no_think").map_or(read, |(_, user)| user);
        if user.contains("\"facts\"") {
            r#"Here: {"facts": ["Mugs are in the cupboard.", "Mugs are in the sink."]}"#.into()
        } else if user.contains("\"operation\"") {
            r#"{"operation": "UPDATE", "memory": 1, "text": "Mugs are somewhere."}"#.into()
        } else if user.contains("\"keywords\"") {
            r#"{"keywords": ["mug"], "context": "About mugs.", "tags": ["kitchen"]}"#.into()
        } else if user.contains("\"links\"") {
            r#"{"links": [1], "changes": []}"#.into()
        } else if user.contains("What leaves your view now") {
            "The core of it.".into()
        } else if user.contains("noticed about one topic") {
            format!("An entry of {} characters.", user.len())
        } else if user.contains("The older entry:") {
            "Both entries.".into()
        } else if user.contains("whoever gets a similar task") {
            "Know this.".into()
        } else {
            assert!(user.contains("A task that was solved:"), "{user}");
            "First look, then take.".into()
        }
    }))
}

#[tokio::test]
async fn steps_of_memory_systems_are_done_by_a_model_or_by_rule() {
    let Some(folder) = data("alfworld") else { return };
    let archive = folder.join("games.tar.xz");
    let games = if archive.is_file() { archive } else { folder };
    let sizes = Sizes {
        seed: 12,
        runtime: 12,
        warm_up: 4,
        evaluation: Some(2),
    };
    let suite = Arc::new(AlfworldSuite::load(&games, &sizes).unwrap());
    let systems = [
        SystemName::MemP,
        SystemName::MemRl,
        SystemName::Mem0,
        SystemName::MemGpt,
        SystemName::AMem,
        SystemName::LightMem,
    ];
    let run = async |model: Option<Arc<Script>>, place: &Path| {
        let mut here = Bench::new(
            Arc::clone(&suite) as Arc<dyn Suite>,
            Arc::new(HashEmbedder::default()),
            sizes,
            place.to_owned(),
        );
        here.runs = 1;
        here.steps =
            model.map(|model| Arc::new(Steps::new(model, Some(&place.join("steps.jsonl"))).unwrap()));
        let scores = evaluate_methods(&here, &systems.map(Method::System))
            .await
            .unwrap();
        let counts = here.steps.as_ref().map(|steps| steps.counts());
        (
            scores.iter().map(|scores| scores.store).collect::<Vec<_>>(),
            counts,
            scores,
        )
    };
    let ruled = tempfile::tempdir().unwrap();
    let (by_rule, _, rule_scores) = run(None, ruled.path()).await;

    let place = tempfile::tempdir().unwrap();
    let model = keeper(false);
    let (by_model, counts, _) = run(Some(Arc::clone(&model)), place.path()).await;
    let counts = counts.unwrap();
    assert!(counts.used > 0 && counts.unused == 0, "{counts:?}");
    // One procedure for all, one summary for all, one memory that is updated again and again.
    assert_eq!(by_model[..3], [1, 1, 1], "{by_rule:?}");
    let lines = std::fs::read_to_string(place.path().join("steps.jsonl")).unwrap();
    for step in [
        "mem0-extract",
        "mem0-update",
        "amem-note",
        "amem-links",
        "memgpt-core",
        "lightmem-entry",
        "memp-script",
        "memrl-experience",
    ] {
        assert!(lines.contains(step), "{step} was not asked for");
    }
    // Nothing is asked twice.
    let asked = model.asked();
    std::fs::remove_dir_all(place.path().join("results")).unwrap();
    run(Some(Arc::clone(&model)), place.path()).await;
    assert_eq!(model.asked(), asked);

    // A model that says nothing leaves everything to the rules, and the file says so.
    let silent = tempfile::tempdir().unwrap();
    let (by_silent, counts, silent_scores) = run(Some(keeper(true)), silent.path()).await;
    let counts = counts.unwrap();
    assert!(counts.used == 0 && counts.unused > 0, "{counts:?}");
    for (place, system) in systems.iter().enumerate() {
        // Mem0's rule without subjects adds what is not known; the others do as they do without a model.
        if *system != SystemName::Mem0 {
            assert_eq!(by_silent[place], by_rule[place], "{system:?}");
            assert_eq!(silent_scores[place].parts, rule_scores[place].parts, "{system:?}");
        }
    }
    let lines = std::fs::read_to_string(silent.path().join("steps.jsonl")).unwrap();
    assert!(lines.lines().all(|line| line.contains("\"used\":false")));
}
