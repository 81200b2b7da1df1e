//! Files on their way into the library.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{KnownModel, ModelFile, ModelsError, Result, error::disk};
use crate::embedder::hexadecimal;

/// Whether a file that is here is the published one.
pub(super) fn verified(path: &Path, file: &ModelFile) -> Result<bool> {
    let Some(expected) = file.sha256 else {
        return Ok(true);
    };
    let mut hasher = Sha256::new();
    hash_file(path, &mut hasher).map_err(disk(path))?;
    Ok(hexadecimal(&hasher.finalize()) == expected)
}

/// A file on its way: kept under another name until it is whole and right.
pub(super) struct Arrival {
    path: PathBuf,
    partial: PathBuf,
    sink: File,
    hasher: Sha256,
    done: u64,
}

impl Arrival {
    /// Begins anew.
    pub(super) fn start(path: &Path) -> Result<Self> {
        let partial = partial(path);
        let sink = File::create(&partial).map_err(disk(&partial))?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            sink,
            hasher: Sha256::new(),
            done: 0,
        })
    }

    /// Goes on after what an earlier attempt left.
    pub(super) fn resume(path: &Path) -> Result<Self> {
        let partial = partial(path);
        let mut hasher = Sha256::new();
        let done = match hash_file(&partial, &mut hasher) {
            Ok(done) => done,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::start(path),
            Err(error) => return Err(disk(&partial)(error)),
        };
        let sink = File::options()
            .append(true)
            .open(&partial)
            .map_err(disk(&partial))?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            sink,
            hasher,
            done,
        })
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Writes what comes. The outer error is the disk's, the inner one the source's.
    pub(super) fn receive(
        &mut self,
        source: &mut dyn Read,
        progress: &mut dyn FnMut(u64),
    ) -> Result<io::Result<()>> {
        let mut block = vec![0; 1 << 16];
        loop {
            let count = match source.read(&mut block) {
                Ok(0) => return Ok(Ok(())),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            };
            self.sink
                .write_all(&block[..count])
                .map_err(disk(&self.partial))?;
            self.hasher.update(&block[..count]);
            self.done += count as u64;
            progress(self.done);
        }
    }

    /// Gives the file its name if it is the published one, and removes it if it is not.
    pub(super) fn finish(self, model: &KnownModel, file: &ModelFile, origin: &str) -> Result<()> {
        let found = hexadecimal(&self.hasher.finalize());
        if let Some(expected) = file.sha256.filter(|&expected| expected != found) {
            fs::remove_file(&self.partial).map_err(disk(&self.partial))?;
            return Err(ModelsError::WrongHash {
                model: model.name.to_owned(),
                file: file.path.to_owned(),
                origin: origin.to_owned(),
                found,
                expected: expected.to_owned(),
            });
        }
        self.sink.sync_all().map_err(disk(&self.partial))?;
        fs::rename(&self.partial, &self.path).map_err(disk(&self.path))
    }
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Adds a file's content to a hash and returns its length.
fn hash_file(path: &Path, hasher: &mut Sha256) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        match file.read(&mut block)? {
            0 => return Ok(length),
            count => {
                hasher.update(&block[..count]);
                length += count as u64;
            }
        }
    }
}
