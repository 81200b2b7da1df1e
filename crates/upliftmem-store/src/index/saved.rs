//! A graph in a file beside the database, so that a large scope need not be built again at every start.
//!
//! The file holds edges and which rows they are between, never vectors: those come from the database, and each must
//! be the one that the edges were made for. A file that is missing, damaged, of another format or of another
//! generation is no file, and the graph is built from nothing; recall is right either way.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::PoisonError,
};

use sha2::{Digest, Sha256};

use super::{
    graph::{Graph, Links, NEIGHBOURS, ROOM},
    place::slot_number,
    scope::ScopeIndex,
    scopes::Shared,
};

/// Names the format; the last figure is its version.
const MAGIC: &[u8; 8] = b"UPLIFTG1";
/// Graphs of fewer nodes are built in a few seconds and not saved.
const NODES_MIN: usize = 50_000;
/// A graph is saved again when it grew by this share.
const GROWTH: usize = 8;
/// Nodes that are written under one lock.
const CHUNK: usize = 4_096;
const HASH_BYTES: usize = 32;

/// A graph that was read from a file, and the rows and vectors its nodes stand for.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) graph: Graph,
    /// The row of each node and a fingerprint of its vector; row 0 for one that was gone.
    pub(super) rows: Vec<(i64, u32)>,
}

/// The file of a scope.
pub(super) fn file(database: &Path, scope: i64) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(format!("-graph-{scope}"));
    PathBuf::from(name)
}

/// Writes the graph of a scope if it is large and has grown. Called by its builder, who alone changes it.
pub(super) fn save(shared: &Shared, saved_nodes: &mut usize) {
    let Some(path) = &shared.file else { return };
    let nodes = {
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        index.as_ref().map_or(0, |index| index.graph.len())
    };
    if nodes < NODES_MIN || nodes < *saved_nodes + *saved_nodes / GROWTH {
        return;
    }
    let mut half = path.as_os_str().to_owned();
    half.push(format!("-{}", std::process::id()));
    let half = PathBuf::from(half);
    // What can not be saved is built again at the next start: slower, and nothing else.
    match write(shared, nodes, &half).and_then(|whole| if whole { fs::rename(&half, path) } else { Ok(()) }) {
        Ok(()) => *saved_nodes = nodes,
        Err(_) => drop(fs::remove_file(&half)),
    }
}

/// Writes `nodes` nodes; false if the index was started over meanwhile.
fn write(shared: &Shared, nodes: usize, path: &Path) -> io::Result<bool> {
    let mut out = Hashed {
        inner: BufWriter::with_capacity(1 << 20, File::create(path)?),
        hash: Sha256::new(),
    };
    let mut header = None;
    for first in (0..nodes).step_by(CHUNK) {
        let index = shared.index.read().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = index.as_ref().filter(|index| index.graph.len() == nodes) else {
            drop(fs::remove_file(path));
            return Ok(false);
        };
        if *header.get_or_insert(index.generation) != index.generation {
            drop(fs::remove_file(path));
            return Ok(false);
        }
        if first == 0 {
            out.write_all(MAGIC)?;
            out.write_all(&index.generation.to_le_bytes())?;
            out.number(index.vectors.dimension())?;
            out.number(nodes)?;
            out.number(index.graph.entry.map_or(0, |slot| slot as usize))?;
        }
        for slot in (first..nodes.min(first + CHUNK)).map(slot_number) {
            write_node(&mut out, index, slot)?;
        }
    }
    let hash = out.hash.clone().finalize();
    out.inner.write_all(&hash)?;
    out.inner.into_inner()?.sync_data()?;
    Ok(true)
}

fn write_node(out: &mut Hashed, index: &ScopeIndex, slot: u32) -> io::Result<()> {
    let gone = index.gone(slot as usize);
    let number = if gone {
        0
    } else {
        index.slots[slot as usize].number
    };
    out.write_all(&number.to_le_bytes())?;
    out.write_all(&index.vectors.fingerprint(slot).to_le_bytes())?;
    let upper = index.graph.upper.get(&slot).map_or(0, Vec::len);
    out.number(upper)?;
    for depth in 0..=upper {
        let neighbours = index.graph.neighbours(slot, depth);
        out.number(neighbours.len())?;
        for neighbour in neighbours {
            out.write_all(&neighbour.to_le_bytes())?;
        }
    }
    Ok(())
}

/// Reads a file that fits, if there is one.
pub(super) fn load(path: &Path, generation: i64, dimension: usize) -> Option<Saved> {
    let bytes = fs::read(path).ok()?;
    let (content, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
    if Sha256::digest(content).as_slice() != hash {
        return None;
    }
    let mut input = content;
    if take::<8>(&mut input)? != *MAGIC
        || i64::from_le_bytes(take(&mut input)?) != generation
        || number(&mut input)? != dimension
    {
        return None;
    }
    let nodes = number(&mut input)?;
    let entry = number(&mut input)?;
    let mut graph = Graph {
        lowest: Vec::with_capacity(nodes),
        upper: HashMap::new(),
        entry: Some(slot_number(entry)).filter(|_| entry < nodes),
    };
    let mut rows = Vec::with_capacity(nodes);
    for slot in (0..nodes).map(slot_number) {
        let row = i64::from_le_bytes(take(&mut input)?);
        rows.push((row, u32::from_le_bytes(take(&mut input)?)));
        let levels = number(&mut input)?;
        graph.lowest.push(Links::new(&neighbours(&mut input, nodes)?));
        if levels > 0 {
            let upper: Option<Vec<Vec<u32>>> = (0..levels).map(|_| neighbours(&mut input, nodes)).collect();
            graph.upper.insert(slot, upper?);
        }
    }
    (graph.entry.is_some() && input.is_empty()).then_some(Saved { graph, rows })
}

fn neighbours(input: &mut &[u8], nodes: usize) -> Option<Vec<u32>> {
    let count = number(input)?;
    if count > 2 * NEIGHBOURS + ROOM {
        return None;
    }
    (0..count)
        .map(|_| {
            take(input)
                .map(u32::from_le_bytes)
                .filter(|&slot| (slot as usize) < nodes)
        })
        .collect()
}

fn number(input: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(take(input)?) as usize)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// A file and the hash of what was written to it.
struct Hashed {
    inner: BufWriter<File>,
    hash: Sha256,
}

impl Hashed {
    fn number(&mut self, number: usize) -> io::Result<()> {
        self.write_all(&slot_number(number).to_le_bytes())
    }
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
