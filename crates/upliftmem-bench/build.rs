//! Says which code this is: a hash of the sources that results depend on, for the manifests of evaluations.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// What decides a result; the server and the program around it do not.
const CRATES: [&str; 7] = [
    "upliftmem-core",
    "upliftmem-lm",
    "upliftmem-scorer",
    "upliftmem-store",
    "upliftmem-agent",
    "upliftmem-engine",
    "upliftmem-bench",
];

fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let all = own.parent().unwrap_or(&own);
    let mut hash = Sha256::new();
    for name in CRATES {
        // Outside of its workspace a crate has no neighbours, and is hashed alone.
        let sources = all.join(name).join("src");
        if !sources.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", sources.display());
        let mut files = Vec::new();
        collect(&sources, &mut files)?;
        files.sort();
        for file in files {
            let place = file.strip_prefix(all).unwrap_or(&file);
            hash.update(place.to_string_lossy().replace('\\', "/"));
            hash.update([0]);
            hash.update(fs::read(&file)?);
            hash.update([0]);
        }
    }
    let digest: String = hash
        .finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=UPLIFTMEM_CODE_DIGEST={digest}");
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
