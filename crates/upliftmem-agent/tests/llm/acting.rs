//! Acting in a world: the loop, its caps, and what the agent can not see.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use upliftmem_agent::{
    ActExecutor, ActSettings, AttachedEnvironment, AttachedSettings, Environment, EnvironmentError,
    EnvironmentSource, Executor, Turn,
    chat::{ChatError, ChatRequest, Role},
    prompts::ActStyle,
};
use upliftmem_core::{Performance, Task};

use crate::scripted::{Scripted, request};

/// Behind one of two doors is a goal that the world does not tell.
struct Doors {
    place: usize,
}

fn turn(observation: &str, performance: f64, done: bool) -> Turn {
    Turn {
        observation: observation.to_owned(),
        actions: Some(vec!["open left door".into(), "open right door".into()]),
        performance: Performance::new(performance).unwrap(),
        done,
    }
}

impl Environment for Doors {
    fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError> {
        self.place = 0;
        Ok(turn(&format!("Two doors. {}", task.context), 0.125, false))
    }

    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
        self.place += 1;
        Ok(if action == "open left door" {
            turn("Light.", 1.0, true)
        } else {
            turn("A wall.", 0.125, false)
        })
    }
}

struct Source;

impl EnvironmentSource for Source {
    fn name(&self) -> &str {
        "doors"
    }

    fn environment(&self) -> Result<Box<dyn Environment>, EnvironmentError> {
        Ok(Box::new(Doors { place: 9 }))
    }
}

fn executor(model: Scripted, change: impl FnOnce(&mut ActSettings)) -> (ActExecutor, Arc<Scripted>) {
    let model = Arc::new(model);
    let mut settings = ActSettings {
        style: ActStyle::Alfworld,
        steps_max: 5,
        ..ActSettings::default()
    };
    settings.examples.insert(String::new(), "> open a door".into());
    change(&mut settings);
    let asked: Arc<Scripted> = Arc::clone(&model);
    (ActExecutor::new(model, Arc::new(Source), settings), asked)
}

fn task() -> Task {
    let mut task = Task::new("t", "Find the light.");
    task.metadata.insert("goal".into(), "left, secretly".into());
    task
}

#[tokio::test]
async fn an_episode_is_played_and_told_in_full() {
    let (executor, model) = executor(Scripted::lines(&["open right door", "> Open Left Door."]), |_| ());
    let execution = executor.execute(&request(task(), &["Try left."])).await.unwrap();
    assert_eq!((execution.performance.get(), execution.cost.get()), (1.0, 2.0));
    let actions: Vec<&str> = execution
        .trajectory
        .iter()
        .map(|step| step.action.as_str())
        .collect();
    assert_eq!(actions, ["open right door", "open left door"]);
    assert_eq!(execution.diagnostics["end"], "done");
    assert_eq!(execution.diagnostics["completion_tokens"], 4);
    // The second conversation continues the first: what is kept of it need not be read again.
    let asked = model.asked.lock().unwrap();
    assert_eq!(asked[1].messages[..2], asked[0].messages[..]);
    assert_ne!(asked[0].sampling.seed, asked[1].sampling.seed);
}

#[tokio::test]
async fn neither_the_goal_nor_the_score_is_shown() {
    let (executor, model) = executor(Scripted::lines(&["open right door"]), |_| ());
    executor.execute(&request(task(), &[])).await.unwrap();
    let read = model.read();
    for hidden in ["secretly", "0.125", "performance"] {
        assert!(!read.contains(hidden), "{hidden} in {read}");
    }
}

#[tokio::test]
async fn an_action_that_is_not_on_the_list_is_not_done() {
    let (executor, _) = executor(Scripted::lines(&["open the window", "open left door"]), |_| ());
    let execution = executor.execute(&request(task(), &[])).await.unwrap();
    assert_eq!(execution.diagnostics["refused_actions"], 1);
    assert_eq!(
        execution.trajectory[0].observation,
        "That action is not available."
    );
    assert_eq!(execution.cost.get(), 2.0);
}

#[tokio::test]
async fn what_the_world_showed_last_is_still_seen_after_an_action_that_was_not_done() {
    for style in [ActStyle::Webshop, ActStyle::Alfworld, ActStyle::Generic] {
        let says = [
            "Action: open right door",
            "Action: open the window",
            "Action: open the roof",
        ];
        let (executor, model) = executor(Scripted::lines(&says), |settings| {
            settings.style = style;
            settings.steps_max = 4;
        });
        executor.execute(&request(task(), &[])).await.unwrap();
        let asked = model.asked.lock().unwrap();
        for again in &asked[2..] {
            let shown = &again.messages.last().unwrap().content;
            assert_eq!(
                shown.matches("That action is not available.\nA wall.").count(),
                1,
                "{shown}"
            );
        }
    }
}

/// A world that takes any action, and lists none.
struct Open(Arc<Mutex<Vec<String>>>);

impl Environment for Open {
    fn reset(&mut self, _: &Task) -> Result<Turn, EnvironmentError> {
        Ok(Turn {
            actions: None,
            ..turn("A field.", 0.0, false)
        })
    }

    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
        self.0.lock().unwrap().push(action.to_owned());
        Ok(turn("The end.", 1.0, true))
    }
}

impl EnvironmentSource for Open {
    fn name(&self) -> &str {
        "open"
    }

    fn environment(&self) -> Result<Box<dyn Environment>, EnvironmentError> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }
}

#[tokio::test]
async fn a_thought_is_no_action_and_no_empty_message_is_sent() {
    for style in [ActStyle::Webshop, ActStyle::Alfworld, ActStyle::Generic] {
        let model = Arc::new(Scripted::lines(&["<think>\nsearch[it]", "", "search[it]"]));
        let done: Arc<Mutex<Vec<String>>> = Arc::default();
        let settings = ActSettings {
            style,
            steps_max: 5,
            ..ActSettings::default()
        };
        let asked: Arc<Scripted> = Arc::clone(&model);
        let executor = ActExecutor::new(model, Arc::new(Open(Arc::clone(&done))), settings);
        let execution = executor.execute(&request(task(), &[])).await.unwrap();
        assert_eq!(*done.lock().unwrap(), ["search[it]"]);
        assert_eq!(execution.cost.get(), 3.0);
        assert_eq!(execution.diagnostics["refused_actions"], 2);
        let asked = asked.asked.lock().unwrap();
        for request in asked.iter() {
            assert!(request.messages.iter().all(|message| !message.content.is_empty()));
            let speakers: Vec<_> = request.messages.iter().map(|message| message.role).collect();
            assert_eq!(speakers, [Role::System, Role::User]);
        }
        let last = &asked[2].messages[1].content;
        assert!(
            last.contains("No action was given. Give one action.\nA field."),
            "{last}"
        );
    }
}

#[tokio::test]
async fn thoughts_without_an_end_end_with_the_steps() {
    let (executor, _) = executor(Scripted::lines(&["<think>"]).cut(), |_| ());
    let execution = executor.execute(&request(task(), &[])).await.unwrap();
    assert_eq!(
        (execution.cost.get(), &execution.diagnostics["end"]),
        (5.0, &"step cap".into())
    );
}

#[tokio::test]
async fn steps_and_tokens_have_an_end() {
    let (by_steps, _) = executor(Scripted::lines(&["open right door"]), |_| ());
    let execution = by_steps.execute(&request(task(), &[])).await.unwrap();
    assert_eq!(
        (execution.cost.get(), &execution.diagnostics["end"]),
        (5.0, &"step cap".into())
    );
    assert_eq!(execution.performance.get(), 0.125);
    let (by_tokens, _) = executor(Scripted::lines(&["open right door"]), |settings| {
        settings.tokens_max = 20;
    });
    let execution = by_tokens.execute(&request(task(), &[])).await.unwrap();
    assert_eq!(
        (execution.cost.get(), &execution.diagnostics["end"]),
        (2.0, &"token cap".into())
    );
}

#[tokio::test]
async fn a_conversation_that_became_too_long_ends_the_episode_with_what_it_has() {
    let model = Scripted::new(|request: &ChatRequest| {
        if request.messages.len() > 4 {
            return Err(ChatError::TooLong("full".into()));
        }
        Ok("open right door".into())
    });
    let (executor, _) = executor(model, |_| ());
    let execution = executor.execute(&request(task(), &[])).await.unwrap();
    assert_eq!(
        (execution.cost.get(), &execution.diagnostics["end"]),
        (2.0, &"context full".into())
    );
}

#[test]
fn a_world_may_be_a_program() {
    let script = r#"read a; echo '{"observation":"hall","actions":["go"],"performance":0,"done":false}'
        read b; echo '{"observation":"end","performance":1,"done":true}'
        read c; echo '{"error":"over"}'
        read d; echo 'garbage'; read e"#;
    let settings = AttachedSettings::new("sh", ["-c", script]);
    let mut world = AttachedEnvironment::start(&settings).unwrap();
    let first = world.reset(&Task::new("t", "Go.")).unwrap();
    assert_eq!(
        (first.observation.as_str(), first.actions),
        ("hall", Some(vec!["go".to_owned()]))
    );
    assert!(world.step("go").unwrap().done);
    assert!(world.step("go").unwrap_err().to_string().contains("over"));
    assert!(world.step("go").unwrap_err().to_string().contains("garbage"));
    drop(world);
    let mut silent = AttachedSettings::new("sh", ["-c", "sleep 60"]);
    silent.timeout = Duration::from_millis(100);
    let mut world = AttachedEnvironment::start(&silent).unwrap();
    assert!(
        world
            .reset(&Task::new("t", ""))
            .unwrap_err()
            .to_string()
            .contains("no answer")
    );
    let missing = AttachedSettings::new("/no/such/world", [""; 0]);
    assert!(AttachedEnvironment::start(&missing).is_err());
}

#[test]
fn a_world_that_does_not_read_is_not_waited_for_longer_than_one_that_does_not_answer() {
    let mut deaf = AttachedSettings::new("sleep", ["20"]);
    deaf.timeout = Duration::from_millis(200);
    let mut world = AttachedEnvironment::start(&deaf).unwrap();
    let start = Instant::now();
    // More than any pipe holds.
    let task = Task::new("t", "x".repeat(8 << 20));
    let error = world.reset(&task).unwrap_err().to_string();
    assert!(error.contains("no answer"), "{error}");
    // What it has not read yet is not followed by more and more.
    assert!(world.step("go").is_err());
    let error = world.step("go").unwrap_err().to_string();
    assert!(error.contains("has not read"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_world_that_ended_says_so() {
    let mut world = AttachedEnvironment::start(&AttachedSettings::new("true", [""; 0])).unwrap();
    let start = Instant::now();
    assert!(world.reset(&Task::new("t", "")).is_err());
    assert!(world.step("go").is_err());
    assert!(start.elapsed() < Duration::from_secs(20));
}
