//! One question, one answer, and a judge who alone knows what is right.

use std::sync::Arc;

use serde_json::json;
use upliftmem_agent::{
    AnswerScoring, Executor, ExecutorError, QuestionExecutor, QuestionSettings, chat::ChatError,
};
use upliftmem_core::Task;

use crate::scripted::{Scripted, request};

fn task() -> Task {
    let mut task = Task::new("q", "Who keeps the key of the vault?");
    task.metadata.insert("answer".into(), json!("Mara Quillon"));
    task.metadata
        .insert("choices".into(), json!(["Oskar", "Mara Quillon", "Runa"]));
    task
}

fn executor(model: Scripted, scoring: AnswerScoring) -> (QuestionExecutor, Arc<Scripted>) {
    let model = Arc::new(model);
    let settings = QuestionSettings {
        scoring,
        ..QuestionSettings::default()
    };
    let asked: Arc<Scripted> = Arc::clone(&model);
    (QuestionExecutor::new(model, None, settings), asked)
}

async fn performance(says: &'static str, scoring: AnswerScoring) -> f64 {
    let (executor, _) = executor(Scripted::lines(&[says]), scoring);
    let execution = executor.execute(&request(task(), &[])).await.unwrap();
    execution.performance.get()
}

#[tokio::test]
async fn answers_are_scored_as_asked() {
    assert_eq!(performance("mara quillon.", AnswerScoring::Exact).await, 1.0);
    assert_eq!(
        performance("It is Mara Quillon.", AnswerScoring::Exact).await,
        0.0
    );
    assert_eq!(
        performance("It is Mara Quillon.", AnswerScoring::Contains).await,
        1.0
    );
    assert_eq!(
        performance("<think>Mara Quillon?</think>Oskar", AnswerScoring::Contains).await,
        0.0
    );
    assert_eq!(performance("0.25", AnswerScoring::Judge).await, 0.25);
}

#[tokio::test]
async fn the_likeliest_choice_counts_and_nothing_is_said() {
    let (executor, model) = executor(Scripted::lines(&["unused"]), AnswerScoring::Choice);
    let with = executor
        .execute(&request(task(), &["Mara Quillon keeps the key."]))
        .await
        .unwrap();
    assert_eq!(with.performance.get(), 1.0);
    assert_eq!(with.trajectory[0].action, "Mara Quillon");
    let wrong = executor
        .execute(&request(task(), &["Oskar keeps the key."]))
        .await
        .unwrap();
    assert_eq!(wrong.performance.get(), 0.0);
    assert!(model.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_expected_is_never_shown_to_the_agent() {
    let (executor, model) = executor(Scripted::lines(&["Oskar"]), AnswerScoring::Contains);
    let mut asked = task();
    asked.metadata.insert("rubric".into(), json!("hidden rubric"));
    executor.execute(&request(asked, &["A note."])).await.unwrap();
    let read = model.read();
    assert!(read.contains("Who keeps the key"), "{read}");
    for hidden in ["Mara", "hidden rubric", "Runa"] {
        assert!(!read.contains(hidden), "{hidden} in {read}");
    }
}

#[tokio::test]
async fn what_the_world_says_to_an_answer_comes_after_it() {
    let (executor, model) = executor(Scripted::lines(&["Oskar"]), AnswerScoring::Contains);
    let mut asked = task();
    asked.metadata.insert("feedback".into(), json!("Ask Mara."));
    let execution = executor.execute(&request(asked, &[])).await.unwrap();
    assert_eq!(
        execution.trajectory[0].observation,
        "The answer is wrong. Ask Mara."
    );
    assert!(!model.read().contains("Ask Mara"));
}

#[tokio::test]
async fn with_and_without_memories_everything_else_is_the_same() {
    let (executor, model) = executor(Scripted::lines(&["x"]), AnswerScoring::Contains);
    executor.execute(&request(task(), &[])).await.unwrap();
    executor
        .execute(&request(task(), &["One.", "Two."]))
        .await
        .unwrap();
    let asked = model.asked.lock().unwrap();
    assert_eq!(asked[0].messages[0], asked[1].messages[0]);
    let without = asked[1].messages[1]
        .content
        .replace("Relevant memories:\n[1] One.\n[2] Two.\n\n", "");
    assert_eq!(asked[0].messages[1].content, without);
    assert_eq!(asked[0].sampling, asked[1].sampling);
}

#[tokio::test]
async fn a_judge_who_says_nothing_makes_no_label() {
    let (executor, _) = executor(Scripted::lines(&["Oskar", "well, hm"]), AnswerScoring::Judge);
    let error = executor.execute(&request(task(), &[])).await.unwrap_err();
    assert!(
        matches!(&error, ExecutorError::Failed(problem) if problem.contains("well, hm")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_judges_thoughts_are_no_verdict() {
    let thinks = "<think>\n1. The answer names somebody.</think>\n0.25";
    assert_eq!(judged(&["Oskar", thinks]).await.unwrap(), 0.25);
    // Asked again, and told apart where no answer comes to an end.
    let endless = "<think>\n1. The answer";
    assert_eq!(judged(&["Oskar", endless, endless, "0"]).await.unwrap(), 0.0);
    let error = judged(&["Oskar", endless]).await.unwrap_err();
    assert!(matches!(error, ExecutorError::Failed(_)), "{error:?}");
    assert_eq!(judged(&["Oskar", "1/10"]).await.unwrap(), 0.1);
}

async fn judged(says: &[&str]) -> Result<f64, ExecutorError> {
    let (executor, _) = executor(Scripted::lines(says), AnswerScoring::Judge);
    let execution = executor.execute(&request(task(), &[])).await;
    execution.map(|execution| execution.performance.get())
}

#[tokio::test]
async fn an_answer_that_never_came_is_not_scored() {
    for scoring in [
        AnswerScoring::Exact,
        AnswerScoring::Contains,
        AnswerScoring::Judge,
    ] {
        let model = Scripted::lines(&["<think>Is it Mara Quillon?"]).cut();
        let (executor, _) = executor(model, scoring);
        let error = executor.execute(&request(task(), &[])).await.unwrap_err();
        assert!(
            matches!(&error, ExecutorError::Failed(problem) if problem.contains("cut off")),
            "{error:?}"
        );
    }
}

#[test]
fn a_version_changes_with_what_decides_answers() {
    let version = |change: &dyn Fn(&mut QuestionSettings)| {
        let mut settings = QuestionSettings::default();
        change(&mut settings);
        QuestionExecutor::new(Arc::new(Scripted::lines(&["x"])), None, settings).version()
    };
    let usual = version(&|_| ());
    assert_eq!(usual, version(&|_| ()));
    assert_ne!(usual, version(&|settings| settings.sampling.max_tokens += 1));
    assert_ne!(usual, version(&|settings| settings.budget.total_chars += 1));
    assert_ne!(
        usual,
        version(&|settings| settings.scoring = AnswerScoring::Exact)
    );
}

#[tokio::test]
async fn a_model_that_can_not_go_on_stops_the_run() {
    let gone = Scripted::new(|_| Err(ChatError::Unavailable("no such key".into())));
    let (executor, _) = executor(gone, AnswerScoring::Contains);
    let error = executor.execute(&request(task(), &[])).await.unwrap_err();
    assert_eq!(error, ExecutorError::Unavailable("no such key".into()));
}
