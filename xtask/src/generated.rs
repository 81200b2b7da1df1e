//! Text that is written by a program: `cargo xtask generate` writes it, the gate checks that it is up to date.

use std::{fs, path::Path};

use crate::layers;

/// A part of a file between two marks, and what belongs there.
struct Part {
    file: &'static str,
    name: &'static str,
    text: fn() -> String,
}

const PARTS: &[Part] = &[Part {
    file: "ARCHITECTURE.md",
    name: "layers",
    text: layers::diagram,
}];

/// Refuses a part that differs from what would be written now.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    for part in PARTS {
        let (written, fresh) = both(root, part)?;
        if written != fresh {
            return Err(format!(
                "{}: part {:?} is out of date; run `cargo xtask generate`",
                part.file, part.name
            ));
        }
    }
    Ok(())
}

/// Writes every part.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for part in PARTS {
        let (_, fresh) = both(root, part)?;
        fs::write(root.join(part.file), fresh).map_err(|error| format!("{}: {error}", part.file))?;
    }
    Ok(())
}

/// The file as it is, and as it should be.
fn both(root: &Path, part: &Part) -> Result<(String, String), String> {
    let written =
        fs::read_to_string(root.join(part.file)).map_err(|error| format!("{}: {error}", part.file))?;
    let fresh = replaced(&written, part.name, &(part.text)())
        .ok_or_else(|| format!("{}: the marks of part {:?} are missing", part.file, part.name))?;
    Ok((written, fresh))
}

fn replaced(file: &str, name: &str, text: &str) -> Option<String> {
    let [open, close] = [
        format!("<!-- generated: {name} -->\n"),
        format!("<!-- end: {name} -->"),
    ];
    let start = file.find(&open)? + open.len();
    let end = start + file[start..].find(&close)?;
    Some(format!("{}{text}{}", &file[..start], &file[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_nothing_else() {
        let file = "before\n<!-- generated: x -->\nold\n<!-- end: x -->\nafter\n";
        let fresh = replaced(file, "x", "new\n").unwrap();
        assert_eq!(
            fresh,
            "before\n<!-- generated: x -->\nnew\n<!-- end: x -->\nafter\n"
        );
        assert_eq!(replaced(&fresh, "x", "new\n").unwrap(), fresh);
        assert_eq!(replaced(file, "y", "new\n"), None);
    }
}
