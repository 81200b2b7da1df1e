//! From what a model said to a memory: repaired where that is safe, refused where it is not.

use crate::prompts::{Contract, plain};

/// Characters of the longest memory.
const LONGEST: usize = 4_000;
/// Lines of a code fragment.
const IDIOM_LINES: usize = 16;
/// The types that a shop's rule may have.
const RULE_TYPES: [&str; 5] = [
    "option_selection",
    "premature_buy_prevention",
    "search_query",
    "result_selection",
    "loop_recovery",
];

/// Reads a memory of this form. The error says what is missing.
pub fn read_memory(contract: Contract, said: &str) -> Result<String, String> {
    let spoken = without_thought(said)?;
    let text = plain(spoken);
    let text = text.trim().trim_start_matches("```text").trim_matches('`').trim();
    let memory = match contract {
        Contract::Workflow | Contract::Short => prose(text),
        Contract::Steps => steps(text),
        Contract::Rule => rule(text),
        Contract::CodeSuccess => code_success(text),
        Contract::CodeFailure => code_failure(text),
    }?;
    if memory.chars().count() > LONGEST {
        return Err(format!("it has more than {LONGEST} characters"));
    }
    Ok(memory)
}

/// What is said outside of thoughts. A thought that was never closed is no memory.
fn without_thought(said: &str) -> Result<&str, String> {
    match said.rsplit_once("</think>") {
        Some((_, spoken)) => Ok(spoken),
        None if said.contains("<think>") => Err("the thought was never ended".into()),
        None => Ok(said),
    }
}

/// The text after the reason why the last version failed, and without a heading.
fn prose(text: &str) -> Result<String, String> {
    let text = match text.find("MEMORY:") {
        Some(at) => &text[at + "MEMORY:".len()..],
        None => after_reason(text),
    };
    let text = text.trim().trim_matches('"').trim();
    let words = text.split_whitespace().count();
    if words < 3 {
        return Err("it has fewer than three words".into());
    }
    let ends = text.ends_with(['.', '!', '?', '"', ')', '`']);
    if ends {
        return Ok(text.to_owned());
    }
    // Cut off in the middle of a sentence: the whole sentences before it are kept.
    match text.rfind(['.', '!', '?']) {
        Some(end) => Ok(text[..=end].to_owned()),
        None if words <= 40 => Ok(text.to_owned()),
        None => Err("it was cut off in its first sentence".into()),
    }
}

/// Everything below the line that begins with `WHY IT FAILED`, if there is one.
fn after_reason(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("WHY IT FAILED") else {
        return text;
    };
    rest.split_once('\n').map_or("", |(_, below)| below.trim())
}

fn steps(text: &str) -> Result<String, String> {
    let mut found: Vec<String> = Vec::new();
    for line in after_reason(text).lines() {
        let line = line.trim();
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        let rest = line[digits..].trim_start_matches(['.', ')', ':']).trim();
        if digits > 0 && !rest.is_empty() {
            found.push(rest.to_owned());
        }
    }
    if found.len() < 3 {
        return Err(format!(
            "it has {} numbered steps, and 3 to 7 are asked for",
            found.len()
        ));
    }
    found.truncate(7);
    let lines: Vec<String> = (1..)
        .zip(found)
        .map(|(number, step)| format!("{number}. {step}"))
        .collect();
    Ok(lines.join("\n"))
}

/// The first line that begins with this key, without it.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let lines = text.lines().map(|line| line.trim_start_matches(['*', ' ', '-']));
    let mut values = lines.filter_map(|line| {
        let head = line.get(..key.len())?;
        head.eq_ignore_ascii_case(key)
            .then(|| line[key.len()..].trim_matches(['*', ' ', '`']))
    });
    values.find(|value| !value.is_empty())
}

fn rule(text: &str) -> Result<String, String> {
    let missing = |key: &str| format!("{key:?} is missing");
    let kind = field(text, "Type:")
        .ok_or_else(|| missing("Type"))?
        .to_lowercase();
    let trigger = field(text, "Trigger:").ok_or_else(|| missing("Trigger"))?;
    let action = field(text, "Action:").ok_or_else(|| missing("Action"))?;
    if !RULE_TYPES.contains(&kind.as_str()) {
        return Err(format!("type {kind:?} is none of {}", RULE_TYPES.join(", ")));
    }
    for literal in ["search[", "click["] {
        if action.contains(literal) || trigger.contains(literal) {
            return Err(format!("it repeats a literal action ({literal}...])"));
        }
    }
    Ok(format!("Type: {kind}\nTrigger: {trigger}\nAction: {action}"))
}

fn code_success(text: &str) -> Result<String, String> {
    let missing = |what: &str| format!("{what} is missing");
    if !text.contains("SUCCESS_PROCEDURE") {
        return Err(missing("[MEMORY TYPE] SUCCESS_PROCEDURE"));
    }
    let task = section(text, "[TASK]").ok_or_else(|| missing("[TASK]"))?;
    let contract = field(text, "Contract:").ok_or_else(|| missing("Contract"))?;
    let implementation = field(text, "Implementation:").ok_or_else(|| missing("Implementation"))?;
    let boundary = field(text, "Boundary:").unwrap_or("No additional boundary condition established");
    let mut record = format!(
        "[MEMORY TYPE] SUCCESS_PROCEDURE\n[TASK]\n{task}\n\n[EXECUTION TRAJECTORY]\nContract: {contract}\n\
         Implementation: {implementation}\nBoundary: {boundary}"
    );
    if let Some((_, idiom)) = text.split_once("Verified idiom:") {
        let idiom = idiom.trim();
        if !idiom.is_empty() && idiom.lines().count() <= IDIOM_LINES {
            record.push_str("\nVerified idiom: ");
            record.push_str(idiom);
        }
    }
    Ok(record)
}

fn code_failure(text: &str) -> Result<String, String> {
    let missing = |what: &str| format!("{what} is missing");
    if !text.contains("FAILURE_REFLECTION") {
        return Err(missing("[MEMORY TYPE] FAILURE_REFLECTION"));
    }
    let task = section(text, "[TASK]").ok_or_else(|| missing("[TASK]"))?;
    let reflection = section(text, "[REFLECTION]").ok_or_else(|| missing("[REFLECTION]"))?;
    Ok(format!(
        "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\n{task}\n\n[REFLECTION]\n{reflection}"
    ))
}

/// The text between a heading in brackets and the next one.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, below) = text.split_once(heading)?;
    let end = below.find("\n[").unwrap_or(below.len());
    let own = below[..end].trim();
    (!own.is_empty()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(contract: Contract, said: &str, memory: &str) {
        assert_eq!(read_memory(contract, said).as_deref(), Ok(memory), "{said:?}");
    }

    fn refused(contract: Contract, said: &str, problem: &str) {
        let error = read_memory(contract, said).unwrap_err();
        assert!(error.contains(problem), "{said:?}: {error}");
    }

    #[test]
    fn prose_is_freed_of_thoughts_headings_and_half_sentences() {
        let memory = "The vault code is kept by Mara.";
        repaired(Contract::Short, memory, memory);
        repaired(
            Contract::Short,
            "<think>hm</think>\n\"The vault code is kept by Mara.\"",
            memory,
        );
        repaired(
            Contract::Short,
            "WHY IT FAILED: too vague\nMEMORY: The vault code is kept by Mara.",
            memory,
        );
        repaired(
            Contract::Workflow,
            "The vault code is kept by Mara. Then go and",
            memory,
        );
        refused(Contract::Short, "<think>hm", "thought");
        refused(Contract::Short, "", "three words");
        refused(Contract::Short, "Yes.", "three words");
        refused(Contract::Short, &"word ".repeat(2_000), "cut off");
    }

    #[test]
    fn steps_are_counted_and_numbered_again() {
        repaired(
            Contract::Steps,
            "WHY IT FAILED: it looped\n1) Look.\n\n3. Take it.\nnoise\n4: Put it.",
            "1. Look.\n2. Take it.\n3. Put it.",
        );
        refused(Contract::Steps, "1. Look.\n2. Take.", "2 numbered steps");
        refused(Contract::Steps, "Look, take, put.", "0 numbered steps");
    }

    #[test]
    fn a_rule_has_all_three_parts_and_no_literal_action() {
        let rule = "Type: search_query\nTrigger: vague results\nAction: add the colour";
        repaired(
            Contract::Rule,
            &format!("Sure!\n**{}", rule.replace("Type:", "Type:**")),
            rule,
        );
        refused(Contract::Rule, "Type: search_query\nAction: add", "Trigger");
        refused(Contract::Rule, &rule.replace("search_query", "magic"), "magic");
        refused(
            Contract::Rule,
            &rule.replace("add the", "click[red] the"),
            "literal",
        );
    }

    #[test]
    fn records_of_code_are_whole_or_refused() {
        let record = "[MEMORY TYPE] SUCCESS_PROCEDURE\n[TASK]\nParse dates\n\n[EXECUTION TRAJECTORY]\n\
            Contract: list in, list out\nImplementation: strptime in a loop\n\
            Boundary: No additional boundary condition established";
        repaired(Contract::CodeSuccess, record, record);
        refused(
            Contract::CodeSuccess,
            &record.replace("Implementation:", "Idea:"),
            "Implementation",
        );
        let failure =
            "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\nParse dates\n\n[REFLECTION]\nReturned strings.";
        repaired(Contract::CodeFailure, failure, failure);
        refused(
            Contract::CodeFailure,
            "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\nx",
            "REFLECTION",
        );
    }
}
