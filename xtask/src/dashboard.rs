//! The dashboard: what is committed is what its source builds, and every page works in a browser.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::steps::output;

/// Browsers that the tests look for.
const BROWSERS: &[&str] = &[
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// Builds the dashboard again, compares, and runs its tests.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let web = root.join("web");
    let fresh = root.join("target/dashboard");
    run(&web, "npm", &["ci"])?;
    let place = fresh.display().to_string();
    run(
        &web,
        "npm",
        &["run", "build", "--", "--outDir", &place, "--emptyOutDir"],
    )?;
    compare(&files(&web.join("dist"))?, &files(&fresh)?)?;
    browser(root)?;
    run(root, "cargo", &["build", "-p", "upliftmem"])?;
    run(&web, "npm", &["test"])
}

/// The browser of the tests; where packages can be installed, it is.
fn browser(root: &Path) -> Result<(), String> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    if named.is_some_and(|path| path.exists()) || BROWSERS.iter().any(|path| Path::new(path).exists()) {
        return Ok(());
    }
    output(root, "apt-get", &["install", "-y", "chromium"])
        .map(|_| ())
        .map_err(|problem| {
            format!(
                "no Chromium, and it can not be installed ({problem}); install it, or name it in CHROMIUM"
            )
        })
}

fn run(place: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| crate::steps::workspace_root().join("target"));
    let status = Command::new(program)
        .args(arguments)
        .env("UPLIFTMEM_BINARY", target.join("debug/upliftmem"))
        .current_dir(place)
        .status()
        .map_err(|error| {
            format!("{program} can not be started: {error}; the dashboard needs Node.js 20 and npm")
        })?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} {}: {status}", arguments.join(" ")))
    }
}

type Files = BTreeMap<String, Vec<u8>>;

fn files(folder: &Path) -> Result<Files, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut found = Files::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let content = fs::read(entry.path()).map_err(failed)?;
        found.insert(entry.file_name().to_string_lossy().into_owned(), content);
    }
    Ok(found)
}

/// Refuses files that differ from what the source builds.
fn compare(committed: &Files, fresh: &Files) -> Result<(), String> {
    let names = committed.keys().chain(fresh.keys());
    let other: BTreeSet<&String> = names
        .filter(|&name| committed.get(name) != fresh.get(name))
        .collect();
    if other.is_empty() {
        return Ok(());
    }
    Err(format!(
        "web/dist is not what web/src builds: {other:?}; run `npm ci && npm run build` in web/ and commit the result"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_is_missing_or_too_many_is_named() {
        let of = |list: &[(&str, &str)]| -> Files {
            list.iter()
                .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
                .collect()
        };
        let one = of(&[("app.js", "1"), ("index.html", "x")]);
        assert!(compare(&one, &one).is_ok());
        for other in [
            of(&[("app.js", "2"), ("index.html", "x")]),
            of(&[("index.html", "x")]),
        ] {
            for (committed, fresh) in [(&one, &other), (&other, &one)] {
                let problem = compare(committed, fresh).unwrap_err();
                assert!(
                    problem.contains("app.js") && !problem.contains("index"),
                    "{problem}"
                );
            }
        }
    }
}
