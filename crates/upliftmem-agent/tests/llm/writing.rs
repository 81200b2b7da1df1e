//! A writer whose model says right and wrong things.

use std::sync::Arc;

use upliftmem_agent::{
    LlmWriter, Writer, WriterError,
    chat::{Finish, Sampling},
    prompts::{Domain, Episode, Outcome, PublicTask, ValidatedMemory},
};
use upliftmem_core::{Task, TrajectoryStep};

use crate::scripted::Scripted;

fn writer(says: &[&str], domain: Domain) -> LlmWriter {
    LlmWriter::new(Arc::new(Scripted::lines(says)), domain, Sampling::default())
}

async fn write(writer: &LlmWriter) -> Result<String, WriterError> {
    let task = PublicTask::of(&Task::new("t", "Find the key."));
    let trajectory = [TrajectoryStep {
        action: "look".into(),
        observation: "A key.".into(),
    }];
    let episode = Episode {
        task: &task,
        trajectory: &trajectory,
        outcome: Outcome {
            success: false,
            performance: 0.0,
        },
        steps_max: Some(10),
        references: &[],
    };
    let draft = writer.write(episode, 1).await?;
    let memory = ValidatedMemory {
        text: &draft.text,
        utility: 0.0,
        baseline: 0.0,
        accept_above: 0.0,
    };
    let revised = writer.revise(episode, memory, 2).await?;
    Ok(format!("{} -> {}", draft.text, revised.text))
}

#[tokio::test]
async fn a_memory_is_written_and_revised() {
    let writer = writer(
        &[
            "<think>hm</think>Look under the mat first.",
            "WHY IT FAILED: vague\nMEMORY: Look under the red mat first.",
        ],
        Domain::Generic,
    );
    assert_eq!(
        write(&writer).await.unwrap(),
        "Look under the mat first. -> Look under the red mat first."
    );
}

#[tokio::test]
async fn what_is_no_memory_is_refused_with_what_was_said() {
    let writer = writer(&["I am sorry, I can not."], Domain::Alfworld);
    let error = write(&writer).await.unwrap_err();
    let WriterError::Malformed { problem, said, usage } = error else {
        panic!("{error:?}");
    };
    assert!(problem.contains("numbered steps"), "{problem}");
    assert!(said.contains("I am sorry"), "{said}");
    // What it took is told all the same.
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (10, 2));
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_no_memory() {
    let check = async |domain, says: &str, kept: Option<&str>| {
        let mut model = Scripted::lines(&[says]);
        model.finish = Finish::Length;
        let writer = LlmWriter::new(Arc::new(model), domain, Sampling::default());
        match (write(&writer).await, kept) {
            (Ok(written), Some(kept)) => assert_eq!(written, format!("{kept} -> {kept}")),
            (Err(WriterError::Malformed { problem, .. }), None) => {
                assert!(problem.contains("cut off"), "{problem}");
            }
            (written, _) => panic!("{says}: {written:?}"),
        }
    };
    check(Domain::Generic, "The release of version 2.1 is on", None).await;
    check(
        Domain::Generic,
        "Look under the mat first. Then take",
        Some("Look under the mat first."),
    )
    .await;
    check(Domain::Alfworld, "1. Look.\n2. Take it.\n3. Put it on the", None).await;
}
