//! Texts with places to fill in.

/// A template: `{name}` is a place. What is filled in is never read as a template itself.
#[derive(Debug, Clone, Copy)]
pub struct Template(pub &'static str);

/// A place and what goes there; without a value the place takes its line along, and a heading that has nothing under it.
pub type Field<'a> = (&'static str, Option<&'a str>);

impl Template {
    /// The text with all places filled in, without the file's last line break.
    pub fn fill(self, fields: &[Field<'_>]) -> String {
        let source = self.0.strip_suffix('\n').unwrap_or(self.0);
        let mut lines: Vec<String> = Vec::new();
        // What the last line is in the template: a value that looks like a heading is none.
        let mut last = "{}";
        for line in source.split('\n') {
            match fill_line(line, fields) {
                Some(filled) => {
                    lines.push(filled);
                    last = line;
                }
                None => {
                    if last.ends_with(':') && !last.contains('{') {
                        lines.pop();
                        // Nothing is left of the paragraph: its blank line goes too.
                        if lines.last().is_some_and(String::is_empty) {
                            lines.pop();
                        }
                    }
                    last = "{}";
                }
            }
        }
        let text = lines.join("\n");
        text.trim_start_matches('\n').to_owned()
    }
}

/// `None` if a place of the line has no value.
fn fill_line(line: &str, fields: &[Field<'_>]) -> Option<String> {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        let name = after.split('}').next().unwrap_or_default();
        match fields.iter().find(|(own, _)| *own == name) {
            Some((_, value)) => {
                out.push_str((*value)?);
                rest = &after[name.len() + 1..];
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Template = Template("Head\n\nNotes:\n{notes}\n\nDo {what}.\nNow: {now}\n>\n");

    #[test]
    fn places_are_filled_once() {
        assert_eq!(
            TEXT.fill(&[
                ("notes", Some("a {what}")),
                ("what", Some("it")),
                ("now", Some("x"))
            ]),
            "Head\n\nNotes:\na {what}\n\nDo it.\nNow: x\n>"
        );
    }

    #[test]
    fn what_has_no_value_leaves_nothing_behind() {
        assert_eq!(
            TEXT.fill(&[("notes", None), ("what", Some("it")), ("now", None)]),
            "Head\n\nDo it.\n>"
        );
    }

    #[test]
    fn a_value_is_never_taken_for_a_heading() {
        let text = Template("Task: {task}\n{more}\nEnd\n");
        assert_eq!(
            text.fill(&[("task", Some("do this:")), ("more", None)]),
            "Task: do this:\nEnd"
        );
    }

    #[test]
    fn other_braces_stay() {
        assert_eq!(Template("a {b c} {d}\n").fill(&[("d", Some("{}"))]), "a {b c} {}");
        assert_eq!(Template("open {").fill(&[]), "open {");
    }
}
