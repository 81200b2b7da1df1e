//! No tracked file names the machine it was written on.

use std::{fs, path::Path};

use crate::steps::output;

/// What must not be in a tracked file. Split, so that this file may be tracked.
const FORBIDDEN: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
];

/// Searches every file that git tracks.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let listed = output(root, "git", &["ls-files", "-z"])?;
    let listed = String::from_utf8(listed).map_err(|_| "a tracked file has a name that is not UTF-8")?;
    let mut problems = Vec::new();
    for name in listed.split_terminator('\0') {
        // A file that is deleted but not yet committed, or a link, has no content of its own.
        let Ok(content) = fs::read(root.join(name)) else {
            continue;
        };
        problems.extend(find(name, &content));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n   "))
    }
}

/// Lines with something forbidden. Files that are not text are searched all the same.
fn find(name: &str, content: &[u8]) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in content.split(|&byte| byte == b'\n').enumerate() {
        for word in FORBIDDEN {
            if names(line, word.as_bytes()) {
                problems.push(format!("{name}:{} names {word}; use a relative path", number + 1));
            }
        }
    }
    problems
}

/// Whether the line holds the path as an absolute one; the same letters within a relative path are fine.
fn names(line: &[u8], path: &[u8]) -> bool {
    line.windows(path.len()).enumerate().any(|(start, window)| {
        let before = start.checked_sub(1).map(|position| line[position]);
        window == path && !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"._-})".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_machine_is_found_with_its_line() {
        let line = format!("fine\nsee {}x\n", FORBIDDEN[0]);
        assert_eq!(
            find("notes.md", line.as_bytes()),
            [format!("notes.md:2 names {}; use a relative path", FORBIDDEN[0])]
        );
        let path = FORBIDDEN[0];
        let relative = format!(".{path}x and a{path}x are relative");
        assert!(find("notes.md", relative.as_bytes()).is_empty());
    }
}
