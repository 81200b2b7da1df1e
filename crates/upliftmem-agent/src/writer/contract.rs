//! From what a model said to a memory: repaired where that is safe, refused where it is not.
//!
//! An answer that was cut off is no memory, but for prose: its whole sentences stay.

use crate::{
    chat::Finish,
    prompts::{Contract, is_section, plain, shown_chars},
};

/// Characters of the longest memory, as prompts show it.
const LONGEST: usize = 4_000;
/// Steps of a procedure. Paper: tab. memory_schemas.
const STEPS: std::ops::RangeInclusive<usize> = 3..=7;
/// Lines of a code fragment. A longer one, which a record may do without, is left out.
const IDIOM_LINES: usize = 16;
/// The types that a shop's rule may have.
const RULE_TYPES: [&str; 5] = [
    "option_selection",
    "premature_buy_prevention",
    "search_query",
    "result_selection",
    "loop_recovery",
];
/// The names that begin a part of a rule.
const RULE_KEYS: [&str; 4] = ["WHY IT FAILED", "Type:", "Trigger:", "Action:"];
/// The names that begin a part of a record of code.
const CODE_KEYS: [&str; 4] = ["Contract:", "Implementation:", "Boundary:", "Verified idiom:"];
/// Abbreviations whose period ends no sentence.
const ABBREVIATIONS: [&str; 15] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "etc", "e.g", "i.e", "cf", "approx", "fig", "ca",
];

/// Reads a memory of this form, from an answer that ended so. The error says what is missing.
pub fn read_memory(contract: Contract, said: &str, finish: Finish) -> Result<String, String> {
    let spoken = without_thought(said)?;
    let text = plain(spoken);
    let text = unfenced(&text);
    let is_cut = finish == Finish::Length;
    let memory = match contract {
        Contract::Workflow | Contract::Short => prose(text, is_cut),
        // What is left of a form that was cut off looks whole and is not.
        _ if is_cut => Err("it was cut off".into()),
        Contract::Steps => steps(text),
        Contract::Rule => rule(text),
        Contract::CodeSuccess => code_success(text),
        Contract::CodeFailure => code_failure(text),
    }?;
    if shown_chars(&memory) > LONGEST {
        return Err(format!("it has more than {LONGEST} characters"));
    }
    Ok(memory)
}

/// What is said outside of thoughts. A thought that was never closed is no memory.
fn without_thought(said: &str) -> Result<&str, String> {
    let spoken = said.rsplit_once("</think>").map_or(said, |(_, spoken)| spoken);
    if spoken.contains("<think>") {
        return Err("the thought was never ended".into());
    }
    Ok(spoken)
}

/// What stands in a fence of code, where all of the text does.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```") else {
        return quoted_by(text, '`').unwrap_or(text);
    };
    // The first line of a fence may name a language.
    let inside = match inside.split_once('\n') {
        Some((language, below)) if !language.trim().contains(' ') => below,
        _ => inside,
    };
    inside.trim_end().trim_end_matches("```").trim()
}

/// The text between two quotes, if it is all in quotes.
fn quoted_by(text: &str, quote: char) -> Option<&str> {
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inside.contains(quote)).then(|| inside.trim())
}

/// The text after the reason why the last version failed, and without a heading.
fn prose(text: &str, is_cut: bool) -> Result<String, String> {
    let text = match text.find("MEMORY:") {
        Some(at) => &text[at + "MEMORY:".len()..],
        None => after_reason(text),
    };
    let text = text.trim();
    let mut text = quoted_by(text, '"').unwrap_or(text);
    if is_cut {
        let whole = &text[..whole_sentences(text)];
        if whole.is_empty() {
            return Err("it was cut off in its first sentence".into());
        }
        text = whole;
        // The quote that was to close the whole text is missing.
        if let Some(open) = text.strip_prefix('"')
            && !open.contains('"')
        {
            text = open;
        }
    }
    let words = text.split_whitespace().count();
    if words < 3 {
        return Err("it has fewer than three words".into());
    }
    Ok(text.to_owned())
}

/// Where the last whole sentence of a text that was cut off ends; 0 if none does.
fn whole_sentences(text: &str) -> usize {
    let mut end = 0;
    for (at, mark) in text.char_indices() {
        if !matches!(mark, '.' | '!' | '?' | '\u{3002}' | '\u{ff01}' | '\u{ff1f}') {
            continue;
        }
        let after = &text[at + mark.len_utf8()..];
        let closing = after.trim_start_matches(['"', '\'', ')', ']', '`', '\u{201d}', '\u{2019}']);
        let is_ascii = mark.is_ascii();
        if is_ascii && !closing.is_empty() && !closing.starts_with(char::is_whitespace) {
            continue;
        }
        if mark == '.' && is_within_sentence(&text[..at], closing) {
            continue;
        }
        end = text.len() - closing.len();
    }
    end
}

/// Whether a period between these two ends an abbreviation or a half-said number, and no sentence.
fn is_within_sentence(before: &str, after: &str) -> bool {
    let word = before
        .rsplit(|character: char| character.is_whitespace() || matches!(character, '(' | '"' | '['))
        .next()
        .unwrap_or_default();
    let is_abbreviation = ABBREVIATIONS
        .iter()
        .any(|abbreviation| word.eq_ignore_ascii_case(abbreviation));
    // The answer may have been cut within "2.1".
    let is_half_number = after.is_empty() && word.ends_with(|last: char| last.is_ascii_digit());
    let goes_on = after.trim_start().starts_with(char::is_lowercase);
    is_abbreviation || is_half_number || goes_on
}

/// Everything below the line that begins with `WHY IT FAILED`, if there is one.
fn after_reason(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("WHY IT FAILED") else {
        return text;
    };
    rest.split_once('\n').map_or("", |(_, below)| below.trim())
}

/// Numbered steps, each with the lines below it. What comes before the first, and the paragraphs after the last, are words
/// around the procedure.
fn steps(text: &str) -> Result<String, String> {
    let mut found: Vec<String> = Vec::new();
    // Lines below a blank one belong to the step only if another one follows.
    let mut pending: Vec<&str> = Vec::new();
    let mut below_blank = false;
    for line in after_reason(text).lines() {
        let is_indented = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() {
            below_blank = true;
        } else if let Some(step) = numbered(line) {
            join(&mut found, &mut pending);
            found.push(step.to_owned());
            below_blank = false;
        } else {
            pending.push(line);
            if !below_blank || is_indented {
                join(&mut found, &mut pending);
            }
        }
    }
    found.retain(|step| !step.is_empty());
    if !STEPS.contains(&found.len()) {
        return Err(format!(
            "it has {} numbered steps, and {} to {} are asked for",
            found.len(),
            STEPS.start(),
            STEPS.end()
        ));
    }
    let lines: Vec<String> = (1..)
        .zip(found)
        .map(|(number, step)| format!("{number}. {step}"))
        .collect();
    Ok(lines.join("\n"))
}

/// What stands behind a number and its `.`, `)` or `:`. "10:30" and "3 mugs" number nothing.
fn numbered(line: &str) -> Option<&str> {
    let line = line.trim_start_matches('*');
    let rest = line.trim_start_matches(|character: char| character.is_ascii_digit());
    if rest.len() == line.len() {
        return None;
    }
    let step = rest.strip_prefix(['.', ')', ':'])?;
    let is_number = step.starts_with(|character: char| character.is_ascii_digit());
    (!is_number).then(|| step.trim_start_matches(['.', ')', ':', '*']).trim())
}

/// Puts lines behind the last step; before the first step they are nobody's.
fn join(found: &mut [String], pending: &mut Vec<&str>) {
    let lines = std::mem::take(pending);
    if let Some(step) = found.last_mut() {
        for line in lines {
            if !step.is_empty() {
                step.push(' ');
            }
            step.push_str(line);
        }
    }
}

/// What stands behind this key at the beginning of a line, up to the next of the keys or heading; the first place where
/// anything does.
fn field(text: &str, keys: &[&str], key: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = (0..lines.len()).filter_map(|at| Some((at, behind(lines[at], key)?)));
    let mut values = starts.map(|(at, first)| {
        let below = lines[at + 1..]
            .iter()
            .take_while(|line| !is_section(line) && !keys.iter().any(|other| behind(line, other).is_some()));
        let rest: Vec<&str> = std::iter::once(first)
            .chain(below.map(|line| line.trim_end()))
            .collect();
        let value = rest.join("\n");
        let value = value.trim().trim_end_matches("```").trim_end();
        quoted_by(value, '`').unwrap_or(value).to_owned()
    });
    values.find(|value| !value.is_empty())
}

/// What of a line stands behind a key that it begins with.
fn behind<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let line = line.trim_start_matches(['*', ' ', '-']);
    let head = line.get(..key.len())?;
    head.eq_ignore_ascii_case(key).then(|| {
        line[key.len()..]
            .trim_start_matches("**")
            .trim_end_matches("**")
            .trim()
    })
}

/// A part of a rule: one paragraph, on one line.
fn paragraph(text: &str, key: &str) -> Option<String> {
    let value = field(text, &RULE_KEYS, key)?;
    let lines: Vec<&str> = value
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    Some(lines.join(" "))
}

fn rule(text: &str) -> Result<String, String> {
    let missing = |key: &str| format!("{key:?} is missing");
    let kind = paragraph(text, "Type:")
        .ok_or_else(|| missing("Type"))?
        .to_lowercase();
    let trigger = paragraph(text, "Trigger:").ok_or_else(|| missing("Trigger"))?;
    let action = paragraph(text, "Action:").ok_or_else(|| missing("Action"))?;
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
    let own = |key: &str| field(text, &CODE_KEYS, key);
    let contract = own("Contract:").ok_or_else(|| missing("Contract"))?;
    let implementation = own("Implementation:").ok_or_else(|| missing("Implementation"))?;
    let boundary =
        own("Boundary:").unwrap_or_else(|| "No additional boundary condition established".to_owned());
    let mut record = format!(
        "[MEMORY TYPE] SUCCESS_PROCEDURE\n[TASK]\n{task}\n\n[EXECUTION TRAJECTORY]\nContract: {contract}\n\
         Implementation: {implementation}\nBoundary: {boundary}"
    );
    if let Some((_, idiom)) = text.split_once("Verified idiom:") {
        let idiom = unfenced(idiom);
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
fn section(text: &str, heading: &str) -> Option<String> {
    let (_, below) = text.split_once(heading)?;
    let mut lines = below.lines();
    let first = lines.next()?;
    let own: Vec<&str> = std::iter::once(first)
        .chain(lines.take_while(|line| !is_section(line)))
        .collect();
    let own = own.join("\n").trim().to_owned();
    (!own.is_empty()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(contract: Contract, said: &str, memory: &str) {
        let read = read_memory(contract, said, Finish::Stop);
        assert_eq!(read.as_deref(), Ok(memory), "{said:?}");
    }

    fn refused(contract: Contract, said: &str, problem: &str) {
        let error = read_memory(contract, said, Finish::Stop).unwrap_err();
        assert!(error.contains(problem), "{said:?}: {error}");
    }

    /// What is kept of an answer that was cut off.
    fn kept(contract: Contract, said: &str, memory: Option<&str>) {
        let read = read_memory(contract, said, Finish::Length);
        assert_eq!(read.as_deref().ok(), memory, "{said:?}: {read:?}");
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
        kept(
            Contract::Workflow,
            "The vault code is kept by Mara. Then go and",
            Some(memory),
        );
        refused(Contract::Short, "<think>hm", "thought");
        refused(Contract::Short, "", "three words");
        refused(Contract::Short, "Yes.", "three words");
        refused(Contract::Short, "<think>hm</think>Well. <think>But no", "thought");
        refused(Contract::Short, &"word ".repeat(2_000), "4000 characters");
        kept(Contract::Short, &"word ".repeat(2_000), None);
    }

    #[test]
    fn a_whole_answer_keeps_its_last_words() {
        for memory in [
            "The release of version 2.1 is on Friday",
            "Ask Mara. She keeps the code",
            "See https://example.org/a.b for the list",
            "Mara said \"go.\"",
            "`ls -l` lists files and `rm` removes them",
        ] {
            repaired(Contract::Short, memory, memory);
        }
    }

    #[test]
    fn of_prose_that_was_cut_off_whole_sentences_stay() {
        let check = |said, memory| kept(Contract::Short, said, memory);
        check("The release of version 2.1 is on Friday", None);
        check("The release of version 2.", None);
        check(
            "The release is on Friday. It is version 2.",
            Some("The release is on Friday."),
        );
        check("Ask Dr. Mara for the code", None);
        check(
            "Take a tool, e.g. a spoon. Then",
            Some("Take a tool, e.g. a spoon."),
        );
        check("Mara said \"go now.\" Then she", Some("Mara said \"go now.\""));
        check("\"Mara keeps the code. She is", Some("Mara keeps the code."));
        check("WHY IT FAILED: it was too vague. And then. It", None);
        check(
            "WHY IT FAILED: vague\nMEMORY: Mara keeps the code! Go",
            Some("Mara keeps the code!"),
        );
        check("Go there now.", Some("Go there now."));
    }

    #[test]
    fn forms_that_were_cut_off_are_refused() {
        kept(
            Contract::Steps,
            "1. Look.\n2. Take it.\n3. Put it.\n4. Then",
            None,
        );
        kept(
            Contract::Rule,
            "Type: search_query\nTrigger: vague results\nAction: add the",
            None,
        );
        kept(
            Contract::CodeFailure,
            "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\nx\n\n[REFLECTION]\nIt returned",
            None,
        );
    }

    #[test]
    fn steps_are_counted_and_numbered_again() {
        repaired(
            Contract::Steps,
            "WHY IT FAILED: it looped\n1) Look.\n\n3. Take it.\n4: Put it.",
            "1. Look.\n2. Take it.\n3. Put it.",
        );
        refused(Contract::Steps, "1. Look.\n2. Take.", "2 numbered steps");
        refused(Contract::Steps, "Look, take, put.", "0 numbered steps");
        let many: String = (1..=8).map(|step| format!("{step}. Look.\n")).collect();
        refused(Contract::Steps, &many, "8 numbered steps");
    }

    #[test]
    fn a_step_keeps_the_lines_below_it() {
        repaired(
            Contract::Steps,
            "Here it is:\n1. Look\n   behind the box,\nat 10:30 or later.\n2. **Take it.**\n\n3 mugs are enough.\n\n\
             3.\nPut it\n\n  down.\n\nGood luck!",
            "1. Look behind the box, at 10:30 or later.\n2. **Take it.** 3 mugs are enough.\n3. Put it down.",
        );
    }

    #[test]
    fn a_rule_has_all_three_parts_and_no_literal_action() {
        let rule = "Type: search_query\nTrigger: vague results\nAction: add the colour";
        repaired(
            Contract::Rule,
            &format!("Sure!\n**{}", rule.replace("Type:", "Type:**")),
            rule,
        );
        repaired(
            Contract::Rule,
            "Type: search_query\nTrigger: vague results\n  or none\nAction:\nadd the colour\nand the size\n\nGood luck!",
            "Type: search_query\nTrigger: vague results or none\nAction: add the colour and the size",
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
        let long = record.replace(
            "strptime in a loop",
            "strptime in a loop,\n  then sort\n[x for x in rows]\n\nand return",
        );
        repaired(Contract::CodeSuccess, &long, &long);
        let marked = record.replace("strptime in a loop", "`strptime` with *args, then `sort`");
        repaired(Contract::CodeSuccess, &marked, &marked);
        let idiom = format!("{record}\nVerified idiom: ");
        repaired(
            Contract::CodeSuccess,
            &format!("```\n{idiom}```python\nreturn x\n```\n```"),
            &format!("{idiom}return x"),
        );
        refused(
            Contract::CodeSuccess,
            &record.replace("Implementation:", "Idea:"),
            "Implementation",
        );
        let failure =
            "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\nParse dates\n\n[REFLECTION]\nReturned strings.";
        repaired(Contract::CodeFailure, failure, failure);
        let with_list = format!("{failure}\n[1, 2] was expected.");
        repaired(Contract::CodeFailure, &with_list, &with_list);
        refused(
            Contract::CodeFailure,
            "[MEMORY TYPE] FAILURE_REFLECTION\n[TASK]\nx",
            "REFLECTION",
        );
    }
}
