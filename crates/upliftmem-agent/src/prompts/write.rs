//! Writing and revising memories. Paper: W1 to W5, tab. memory_schemas.

use serde::{Deserialize, Serialize};
use upliftmem_core::TrajectoryStep;

use super::{PublicTask, fence::quoted, template::Template};
use crate::{
    chat::ChatMessage,
    writer::{Diagnosis, transcript},
};

const W1_SYSTEM: Template = Template(include_str!("../../prompts/w1_system.txt"));
const W1_USER: Template = Template(include_str!("../../prompts/w1_user.txt"));
const W2_SYSTEM: Template = Template(include_str!("../../prompts/w2_system.txt"));
const W2_USER: Template = Template(include_str!("../../prompts/w2_user.txt"));
const W2_CONTRACT: Template = Template(include_str!("../../prompts/w2_contract.txt"));
const W3_SYSTEM: Template = Template(include_str!("../../prompts/w3_system.txt"));
const W3_SUCCESS: Template = Template(include_str!("../../prompts/w3_success.txt"));
const W3_FAILURE: Template = Template(include_str!("../../prompts/w3_failure.txt"));
const W4_SYSTEM: Template = Template(include_str!("../../prompts/w4_system.txt"));
const W4_SUCCESS: Template = Template(include_str!("../../prompts/w4_success.txt"));
const W4_SUCCESS_CONTRACT: Template = Template(include_str!("../../prompts/w4_success_contract.txt"));
const W4_FAILURE: Template = Template(include_str!("../../prompts/w4_failure.txt"));
const W4_FAILURE_CONTRACT: Template = Template(include_str!("../../prompts/w4_failure_contract.txt"));
const GENERIC_SYSTEM: Template = Template(include_str!("../../prompts/generic_system.txt"));
const GENERIC_SUCCESS: Template = Template(include_str!("../../prompts/generic_success.txt"));
const GENERIC_FAILURE: Template = Template(include_str!("../../prompts/generic_failure.txt"));
const W5_USER: Template = Template(include_str!("../../prompts/w5_user.txt"));
const W5_ALFWORLD: Template = Template(include_str!("../../prompts/w5_contract_alfworld.txt"));
const W5_WEBSHOP: Template = Template(include_str!("../../prompts/w5_contract_webshop.txt"));
const W5_CODE_SUCCESS: Template = Template(include_str!("../../prompts/w5_contract_code_success.txt"));
const W5_CODE_FAILURE: Template = Template(include_str!("../../prompts/w5_contract_code_failure.txt"));
const W5_GENERIC: Template = Template(include_str!("../../prompts/w5_contract_generic.txt"));

/// Characters of a trajectory that a writer reads.
const TRAJECTORY_CHARS: usize = 6_000;
/// Characters of a task.
const TASK_CHARS: usize = 6_000;
/// Characters of the name of a kind of task.
const KIND_CHARS: usize = 100;
/// Characters of a memory of another task.
const REFERENCE_CHARS: usize = 1_200;
/// Characters of the memory that is revised.
const MEMORY_CHARS: usize = 4_000;

/// What kind of memory is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// Procedures for a household. Paper: W1, W2.
    Alfworld,
    /// Rules for a shop. Paper: W3.
    Webshop,
    /// Records of code. Paper: W4.
    Code,
    /// Short texts about anything.
    Generic,
}

impl Domain {
    /// What a revision calls the environment.
    const fn title(self) -> &'static str {
        match self {
            Self::Alfworld => "ALFWorld",
            Self::Webshop => "WebShop",
            Self::Code => "BigCodeBench",
            Self::Generic => "generic",
        }
    }
}

/// The form that a written memory must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contract {
    /// One paragraph.
    Workflow,
    /// Three to seven numbered steps.
    Steps,
    /// Type, trigger, action.
    Rule,
    /// A record of code that passed.
    CodeSuccess,
    /// A record of code that failed.
    CodeFailure,
    /// A few sentences.
    Short,
}

/// How an execution went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Whether the task was done.
    pub success: bool,
    /// How well it went.
    pub performance: f64,
}

/// An episode that a memory may be distilled from.
#[derive(Debug, Clone, Copy)]
pub struct Episode<'a> {
    /// What was to be done.
    pub task: &'a PublicTask,
    /// What happened, as far as the agent could see.
    pub trajectory: &'a [TrajectoryStep],
    /// How it went.
    pub outcome: Outcome,
    /// Most steps that an episode may have, where there is such a cap.
    pub steps_max: Option<usize>,
    /// Memories of similar tasks.
    pub references: &'a [String],
}

/// A memory that was validated and did not help enough.
#[derive(Debug, Clone, Copy)]
pub struct ValidatedMemory<'a> {
    /// What it says.
    pub text: &'a str,
    /// Utility with it.
    pub utility: f64,
    /// Utility without memory.
    pub baseline: f64,
    /// What it must exceed.
    pub accept_above: f64,
}

/// The conversation whose next message is a memory of the episode, and the form that it must have.
pub fn construction(domain: Domain, episode: Episode<'_>) -> (Vec<ChatMessage>, Contract) {
    let trajectory = transcript(episode.trajectory, TRAJECTORY_CHARS);
    let diagnosis = Diagnosis::of(episode.trajectory, episode.outcome.success);
    // Behind words of ours, and on lines of its own.
    let (task, task_lines) = (task(episode, false), task(episode, true));
    let (task, task_lines) = (task.as_str(), task_lines.as_str());
    let kind = episode.task.kind().map(|kind| quoted(kind, KIND_CHARS, false));
    let references = references(episode.references);
    let reference = (episode.references.first())
        .map_or_else(|| "none".to_owned(), |text| quoted(text, REFERENCE_CHARS, true));
    let reward = number(episode.outcome.performance);
    let signals = diagnosis.rendered();
    let (system, user, contract) = match (domain, episode.outcome.success) {
        (Domain::Alfworld, true) => {
            let fields = [
                ("query", Some(task_lines)),
                ("trajectory", Some(trajectory.as_str())),
            ];
            (W1_SYSTEM, W1_USER.fill(&fields), Contract::Workflow)
        }
        (Domain::Alfworld, false) => {
            let fields = [
                ("task", Some(task)),
                ("task_type", Some(kind.as_deref().unwrap_or("unknown"))),
                ("trajectory", Some(trajectory.as_str())),
                ("failure_category", Some(diagnosis.category())),
                ("repetition_rate", Some(&*number(diagnosis.repetition_rate))),
                ("action_mismatch", Some(&*number(diagnosis.mismatch_rate))),
                ("target_confusion", Some(diagnosis.confusion())),
                ("last_action", Some(diagnosis.last_action.as_str())),
                ("reference_memory", Some(reference.as_str())),
            ]
            .map(|(name, value)| (name, value.map(str::to_owned)));
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (*name, value.as_deref()))
                .collect();
            let user = format!("{}\n{}", W2_USER.fill(&fields), W2_CONTRACT.fill(&[]));
            (W2_SYSTEM, user, Contract::Steps)
        }
        (Domain::Webshop, true) => {
            let fields = [
                ("instruction", Some(task)),
                ("trajectory_text", Some(trajectory.as_str())),
                ("reward", Some(reward.as_str())),
            ];
            (W3_SYSTEM, W3_SUCCESS.fill(&fields), Contract::Rule)
        }
        (Domain::Webshop, false) => {
            let fields = [
                ("instruction", Some(task)),
                ("trajectory_text", Some(trajectory.as_str())),
                ("public_failure_signals", Some(signals.as_str())),
                ("public_failure_diff", Some(diagnosis.last_action.as_str())),
                ("references_or_empty", Some(references.as_str())),
            ];
            (W3_SYSTEM, W3_FAILURE.fill(&fields), Contract::Rule)
        }
        (Domain::Code, true) => {
            let fields = [
                ("task", Some(task_lines)),
                ("trajectory", Some(trajectory.as_str())),
            ];
            let user = format!("{}\n{}", W4_SUCCESS.fill(&fields), W4_SUCCESS_CONTRACT.fill(&[]));
            (W4_SYSTEM, user, Contract::CodeSuccess)
        }
        (Domain::Code, false) => {
            let fields = [
                ("task", Some(task_lines)),
                ("trajectory", Some(trajectory.as_str())),
                ("diagnosis", Some(signals.as_str())),
                ("references_or_empty", Some(references.as_str())),
            ];
            let user = format!("{}\n{}", W4_FAILURE.fill(&fields), W4_FAILURE_CONTRACT.fill(&[]));
            (W4_SYSTEM, user, Contract::CodeFailure)
        }
        (Domain::Generic, true) => {
            let fields = [
                ("task", Some(task_lines)),
                ("trajectory", Some(trajectory.as_str())),
            ];
            (GENERIC_SYSTEM, GENERIC_SUCCESS.fill(&fields), Contract::Short)
        }
        (Domain::Generic, false) => {
            let fields = [
                ("task", Some(task_lines)),
                ("trajectory", Some(trajectory.as_str())),
                ("diagnosis", Some(signals.as_str())),
                ("references_or_empty", Some(references.as_str())),
            ];
            (GENERIC_SYSTEM, GENERIC_FAILURE.fill(&fields), Contract::Short)
        }
    };
    (
        vec![ChatMessage::system(system.fill(&[])), ChatMessage::user(user)],
        contract,
    )
}

/// The conversation whose next message is a better version of a memory, from the episode that it was tried in.
pub fn revision(
    domain: Domain,
    episode: Episode<'_>,
    memory: ValidatedMemory<'_>,
) -> (Vec<ChatMessage>, Contract) {
    let success = episode.outcome.success;
    let trajectory = transcript(episode.trajectory, TRAJECTORY_CHARS);
    let diagnosis = Diagnosis::of(episode.trajectory, success).rendered();
    let references = references(episode.references);
    let kind = episode
        .task
        .kind()
        .map(|kind| format!("Task type: {}", quoted(kind, KIND_CHARS, false)));
    let current = quoted(memory.text, MEMORY_CHARS, true);
    let fields = [
        ("env_name", Some(domain.title().to_owned())),
        ("task_description", Some(task(episode, false))),
        ("optional_metadata", kind),
        ("current_memory", Some(current)),
        ("trajectory_text", Some(trajectory)),
        ("success", Some(if success { "yes" } else { "no" }.to_owned())),
        ("total_reward", Some(number(episode.outcome.performance))),
        ("total_steps", Some(episode.trajectory.len().to_string())),
        (
            "max_steps",
            Some(
                episode
                    .steps_max
                    .map_or_else(String::new, |most| most.to_string()),
            ),
        ),
        ("current_utility", Some(number(memory.utility))),
        ("baseline_utility", Some(number(memory.baseline))),
        ("current_uplift", Some(number(memory.utility - memory.baseline))),
        ("tau_accept", Some(number(memory.accept_above))),
        ("failure_signals_rendered", Some(diagnosis)),
        ("reference_memories_or_empty", Some(references)),
    ];
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_deref()))
        .collect();
    let (end, contract) = match (domain, success) {
        (Domain::Alfworld, _) => (W5_ALFWORLD, Contract::Steps),
        (Domain::Webshop, _) => (W5_WEBSHOP, Contract::Rule),
        (Domain::Code, true) => (W5_CODE_SUCCESS, Contract::CodeSuccess),
        (Domain::Code, false) => (W5_CODE_FAILURE, Contract::CodeFailure),
        (Domain::Generic, _) => (W5_GENERIC, Contract::Short),
    };
    let mut wrapper = W5_USER.fill(&fields);
    if episode.steps_max.is_none() {
        // Nothing that is quoted can hold this line: quotations stand off the margin.
        let steps = format!("\n- Steps: {}", episode.trajectory.len());
        wrapper = wrapper.replacen(&format!("{steps}/\n"), &format!("{steps}\n"), 1);
    }
    let user = format!("{wrapper}\n\n{}", end.fill(&[]));
    (vec![ChatMessage::user(user)], contract)
}

fn task(episode: Episode<'_>, first_too: bool) -> String {
    quoted(episode.task.context(), TASK_CHARS, first_too)
}

fn references(memories: &[String]) -> String {
    if memories.is_empty() {
        return "none".to_owned();
    }
    let lines: Vec<String> = memories
        .iter()
        .map(|text| format!("- {}", quoted(text, REFERENCE_CHARS, false)))
        .collect();
    lines.join("\n")
}

fn number(value: f64) -> String {
    format!("{value:.2}")
}
