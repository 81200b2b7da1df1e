//! The prompt that the scorer reads. Paper: prompt V1.

use super::LmTokenizer;
use crate::error::Result;

const BEFORE_INSTRUCTION: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the \
    Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n\
    <|im_start|>user\n<Instruct>: ";
const BEFORE_QUERY: &str = "\n<Query>: ";
const AFTER_DOCUMENT: &str = "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/// The instruction for agents of any kind.
pub const INSTRUCTION: &str =
    "Predict whether the memory will causally improve the agent for the query context.";
/// The paper's instruction for ALFWorld.
pub const INSTRUCTION_ALFWORLD: &str =
    "Predict whether the memory will causally improve the ALFWorld agent for the query context.";
/// The paper's instruction for WebShop.
pub const INSTRUCTION_WEBSHOP: &str =
    "Predict whether the memory will causally improve the WebShop agent for the query context.";
/// The paper's instruction for BigCodeBench.
pub const INSTRUCTION_BIGCODEBENCH: &str =
    "Predict whether this memory will causally improve correctness for the current BigCodeBench coding task.";

/// The members of a set, in canonical order, as one document.
pub fn document<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let blocks = texts.into_iter().zip(1..);
    let blocks: Vec<String> = blocks
        .map(|(text, number)| format!("[{number}] {text}"))
        .collect();
    blocks.join("\n")
}

/// The prompt up to the document.
pub fn query_half(instruction: &str, context: &str) -> String {
    [BEFORE_INSTRUCTION, instruction, BEFORE_QUERY, context, "\n"].concat()
}

/// The prompt from the document on.
pub fn document_half(document: &str) -> String {
    ["<Document>: ", document, AFTER_DOCUMENT].concat()
}

/// The whole prompt.
pub fn prompt(instruction: &str, context: &str, document: &str) -> String {
    query_half(instruction, context) + &document_half(document)
}

/// The text with the marks of the chat format broken by a space, for models whose tokenizer is elsewhere.
pub fn without_chat_marks(text: &str) -> String {
    ["im_start|>", "im_end|>", "endoftext|>"]
        .iter()
        .fold(text.to_owned(), |text, end| {
            text.replace(&format!("<|{end}"), &format!("< |{end}"))
        })
        .replace("<think>", "< think>")
        .replace("</think>", "< /think>")
}

/// The tokens of a prompt. Task and memories are data: marks in them are broken.
pub(crate) fn tokens<'a>(
    tokenizer: &LmTokenizer,
    instruction: &str,
    context: &str,
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<u32>> {
    let document = tokenizer.without_marks(&document(texts));
    let prompt = prompt(instruction, &tokenizer.without_marks(context), &document);
    Ok(tokenizer.encode(&prompt)?)
}

/// Tokens after the document: no other set continues them.
pub(crate) fn tail(tokenizer: &LmTokenizer) -> Result<usize> {
    Ok(tokenizer.encode(AFTER_DOCUMENT)?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_papers_template_to_the_byte() {
        let whole = prompt(
            INSTRUCTION_ALFWORLD,
            "put a mug in the sink",
            &document(["use tongs", "rinse"]),
        );
        assert_eq!(
            whole,
            r#"<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: Predict whether the memory will causally improve the ALFWorld agent for the query context.
<Query>: put a mug in the sink
<Document>: [1] use tongs
[2] rinse
<|im_end|>
<|im_start|>assistant
<think>

</think>

"#
        );
    }
}
