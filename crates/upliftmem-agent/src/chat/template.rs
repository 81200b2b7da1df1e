//! Chat templates: how a model wants a conversation written down.

use std::collections::BTreeMap;

use minijinja::{Environment, Error, ErrorKind, Value, context, syntax::SyntaxConfig};

use super::{ChatMessage, Role};

/// What most small models were trained with, for files that bring no template.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + \
    '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
const NAME: &str = "chat";

/// A model's own way of writing a conversation.
pub(super) struct ChatTemplate {
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// Compiles a template; without one it is ChatML.
    pub(super) fn new(source: Option<&str>) -> Result<Self, String> {
        let mut environment = Environment::new();
        // As the models' own library has it.
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |problem: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, problem))
        });
        environment
            .add_template_owned(NAME, source.unwrap_or(CHATML).to_owned())
            .map_err(|error| error.to_string())?;
        Ok(Self { environment })
    }

    /// The conversation as the model reads it, up to where its answer begins.
    pub(super) fn render(&self, messages: &[ChatMessage]) -> Result<String, String> {
        let write = |messages: &[ChatMessage]| {
            let messages: Vec<Value> = messages.iter().map(value).collect();
            self.environment.get_template(NAME)?.render(context! {
                messages => messages,
                add_generation_prompt => true,
                enable_thinking => false,
                bos_token => "",
                eos_token => "",
            })
        };
        match write(messages) {
            Ok(text) => Ok(text),
            // Some templates refuse a system message: then the instructions stand before the first message.
            Err(first) => match without_system(messages) {
                Some(joined) => write(&joined).map_err(|_| first.to_string()),
                None => Err(first.to_string()),
            },
        }
    }
}

/// A message as templates see it.
fn value(message: &ChatMessage) -> Value {
    Value::from(BTreeMap::from([
        ("role", message.role.name().to_owned()),
        ("content", message.content.clone()),
    ]))
}

/// The same conversation with the instructions at the head of the first message.
fn without_system(messages: &[ChatMessage]) -> Option<Vec<ChatMessage>> {
    let (system, others) = messages.split_first()?;
    if system.role != Role::System {
        return None;
    }
    let mut others = others.to_vec();
    let first = others.first_mut()?;
    first.content = format!("{}\n\n{}", system.content, first.content);
    Some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Vec<ChatMessage> {
        vec![ChatMessage::system("Be brief."), ChatMessage::user("Who?")]
    }

    #[test]
    fn a_file_without_a_template_is_read_as_chatml() {
        assert_eq!(
            ChatTemplate::new(None).unwrap().render(&conversation()).unwrap(),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn methods_of_python_and_blocks_on_their_own_lines_are_understood() {
        let template = "{%- for message in messages %}\n    {% if message['role'].startswith('us') %}\n\
            U:{{ message['content'].strip() }}\n    {% endif %}\n{%- endfor %}";
        let text = ChatTemplate::new(Some(template)).unwrap();
        assert_eq!(
            text.render(&[ChatMessage::user("  Who? ")]).unwrap().trim(),
            "U:Who?"
        );
    }

    #[test]
    fn instructions_move_where_a_template_has_no_place_for_them() {
        let template = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}\
            [{{ m.role }}]{{ m.content }}{% endfor %}";
        let text = ChatTemplate::new(Some(template)).unwrap();
        assert_eq!(text.render(&conversation()).unwrap(), "[user]Be brief.\n\nWho?");
        assert!(
            text.render(&[ChatMessage::system("alone")])
                .unwrap_err()
                .contains("no system")
        );
    }

    #[test]
    fn what_is_said_is_not_a_template() {
        let odd = ChatMessage::user("{{ messages }} {% raw %} \u{1f600}");
        let text = ChatTemplate::new(None).unwrap().render(&[odd]).unwrap();
        assert!(text.contains("{{ messages }} {% raw %} \u{1f600}"));
    }

    #[test]
    fn a_template_that_is_none_is_refused() {
        assert!(ChatTemplate::new(Some("{% for %}")).is_err());
    }
}
