//! What a model is told, and what is taken from its answer.

use super::data::CodeTask;

const PREFIX: &str = "Please provide a self-contained Python script that solves the following problem in a markdown code block:";

/// The official instruction for a task, split `instruct`.
#[must_use]
pub fn instruct_prompt(task: &CodeTask) -> String {
    format!("{PREFIX}\n{}\n", task.instruct_prompt.trim())
}

/// The program in an answer: the first code block that defines the function asked for, else the longest block, else the whole
/// answer.
#[must_use]
pub fn solution_of<'a>(answer: &'a str, entry_point: &str) -> &'a str {
    let defines = |block: &&str| block.contains(&format!("def {entry_point}"));
    let blocks = code_blocks(answer);
    let chosen = blocks
        .iter()
        .copied()
        .find(defines)
        .or_else(|| blocks.iter().copied().max_by_key(|block| block.len()));
    chosen.unwrap_or(answer.trim())
}

/// What stands between lines that begin with three backquotes; a block that nobody closed reaches to the end.
fn code_blocks(answer: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut start = None;
    let mut at = 0;
    for line in answer.split_inclusive('\n') {
        let next = at + line.len();
        if line.trim_start().starts_with("```") {
            match start.take() {
                None => start = Some(next),
                Some(start) => blocks.push(&answer[start..at]),
            }
        }
        at = next;
    }
    if let Some(start) = start {
        blocks.push(&answer[start..]);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_with_the_function_is_taken() {
        let check = |answer: &str, expected: &str| {
            assert_eq!(solution_of(answer, "task_func"), expected, "{answer:?}")
        };
        check(
            "```python\ndef task_func():\n    pass\n```\n",
            "def task_func():\n    pass\n",
        );
        check(
            "pip:\n```bash\npip install numpy pandas scipy\n```\n```\ndef task_func(): 1\n```",
            "def task_func(): 1\n",
        );
        check("```python\ndef task_func(): 2", "def task_func(): 2");
        check("```\nx\n```\n```\nlonger\n```", "longer\n");
        check(" def task_func(): 3 \n", "def task_func(): 3");
        check("", "");
        check("```", "");
    }
}
