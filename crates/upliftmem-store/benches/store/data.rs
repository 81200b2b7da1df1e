//! Clustered vectors with sentences, made from a seed.

use std::{
    io::{BufWriter, Write},
    path::Path,
};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::MemoryId;
use upliftmem_store::*;

const DIMENSION: usize = 384;
const CLUSTERS: usize = 500;
/// How far members are from their centre, against a centre of length one: cosines of about 0.6 within a cluster.
const SPREAD: f32 = 0.8;
/// Queries whose true neighbours are computed.
const CHECKED: usize = 100;

/// Memories and queries.
pub(crate) struct Data {
    vectors: Vec<Vec<f32>>,
    queries: Vec<Vec<f32>>,
    texts: Vec<String>,
    truth: Vec<Vec<u32>>,
}

pub(crate) fn scope() -> Scope {
    Scope::user("bench").unwrap()
}

fn generation() -> EmbedderGeneration {
    EmbedderGeneration {
        name: "bench".into(),
        dimension: u32::try_from(DIMENSION).unwrap(),
        digest: "0".into(),
    }
}

/// A direction, from sums of uniform numbers.
fn direction(rng: &mut impl Rng) -> Vec<f32> {
    let mut normal = || (0..4).map(|_| rng.random_range(-1.0..1.0_f32)).sum::<f32>();
    unit((0..DIMENSION).map(|_| normal()).collect())
}

fn unit(vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / length).collect()
}

fn member(centre: &[f32], rng: &mut impl Rng) -> Vec<f32> {
    let noise = direction(rng);
    unit(centre.iter().zip(noise).map(|(c, n)| c + SPREAD * n).collect())
}

impl Data {
    pub(crate) fn new(size: usize, queries: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(42);
        let centres: Vec<Vec<f32>> = (0..CLUSTERS).map(|_| direction(&mut rng)).collect();
        let vectors: Vec<Vec<f32>> = (0..size)
            .map(|_| member(&centres[rng.random_range(0..CLUSTERS)], &mut rng))
            .collect();
        let queries: Vec<Vec<f32>> = (0..queries)
            .map(|_| member(&centres[rng.random_range(0..CLUSTERS)], &mut rng))
            .collect();
        let truth = queries
            .iter()
            .take(CHECKED)
            .map(|query| nearest(&vectors, query))
            .collect();
        Self {
            vectors,
            queries,
            texts: sentences(size, &mut rng),
            truth,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.vectors.len()
    }

    pub(crate) fn memory(&self, number: usize) -> NewMemory {
        let embedding = Embedding::new(generation(), self.vectors[number].clone()).unwrap();
        NewMemory::note(id(number), &self.texts[number]).with_embedding(embedding)
    }

    /// The query of a number: a vector, and the text of some memory without its last words.
    pub(crate) fn query(&self, number: usize, candidates: usize, mode: RecallMode) -> RecallQuery {
        let text = &self.texts[number * 7_919 % self.texts.len()];
        let words: Vec<&str> = text.split(' ').take(12).collect();
        RecallQuery {
            text: words.join(" "),
            embedding: Some(Embedding::new(generation(), self.queries[number].clone()).unwrap()),
            candidates,
            mode,
        }
    }

    /// How many of the true neighbours were found.
    pub(crate) fn count_true(&self, number: usize, recall: &Recall) -> usize {
        let Some(truth) = self.truth.get(number) else {
            return 0;
        };
        let wanted = |hit: &&Hit| truth.iter().any(|&slot| id(slot as usize) == hit.id);
        recall.hits.iter().filter(wanted).count()
    }

    pub(crate) fn count_wanted(&self) -> usize {
        self.truth.iter().map(Vec::len).sum()
    }

    /// Little-endian numbers for other programs: vectors, queries and true neighbours.
    pub(crate) fn dump(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        let floats = |name: &str, rows: &[Vec<f32>]| {
            let mut file = BufWriter::new(std::fs::File::create(folder.join(name)).unwrap());
            for x in rows.iter().flatten() {
                file.write_all(&x.to_le_bytes()).unwrap();
            }
        };
        floats(&format!("vectors-{}.f32", self.len()), &self.vectors);
        floats(&format!("queries-{}.f32", self.len()), &self.queries);
        let truth: Vec<u8> = self
            .truth
            .iter()
            .flatten()
            .flat_map(|slot| slot.to_le_bytes())
            .collect();
        std::fs::write(folder.join(format!("truth-{}.u32", self.len())), truth).unwrap();
    }
}

/// The fifty nearest, by looking at all.
fn nearest(vectors: &[Vec<f32>], query: &[f32]) -> Vec<u32> {
    let dot = |vector: &[f32]| {
        vector
            .iter()
            .zip(query)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    let mut all: Vec<(f64, u32)> = (0..)
        .zip(vectors)
        .map(|(slot, vector)| (dot(vector), slot))
        .collect();
    all.select_nth_unstable_by(50, |a, b| b.0.total_cmp(&a.0));
    all.truncate(50);
    all.into_iter().map(|(_, slot)| slot).collect()
}

fn id(number: usize) -> MemoryId {
    MemoryId::from_u128(number as u128 + 1)
}

/// A memory without a vector.
pub(crate) fn plain(number: usize) -> NewMemory {
    NewMemory::note(
        id(number),
        format!("a single write of step {number} with a few words around it"),
    )
}

/// A memory with some vector.
pub(crate) fn embedded(number: usize) -> NewMemory {
    let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
    plain(number).with_embedding(Embedding::new(generation(), direction(&mut rng)).unwrap())
}

/// Texts of a file, two joined to one so that each is new; or made from templates.
fn sentences(size: usize, rng: &mut impl Rng) -> Vec<String> {
    let lines: Vec<String> = match std::env::var("UPLIFTMEM_BENCH_SENTENCES") {
        Ok(file) => std::fs::read_to_string(file)
            .unwrap()
            .lines()
            .map(ToOwned::to_owned)
            .collect(),
        Err(_) => templates(),
    };
    (0..size)
        .map(|number| {
            let mut pick = || &lines[rng.random_range(0..lines.len())];
            format!("{} {} case {number}", pick(), pick())
        })
        .collect()
}

fn templates() -> Vec<String> {
    let places = [
        "drawer",
        "fridge",
        "shelf",
        "cabinet",
        "sink",
        "table",
        "microwave",
        "garbage can",
        "sofa",
        "desk",
    ];
    let things = [
        "mug", "potato", "knife", "apple", "book", "lamp", "plate", "tomato", "soap", "pillow", "watch",
    ];
    let doings = [
        "heat", "cool", "clean", "slice", "find", "move", "examine", "open", "close", "toggle",
    ];
    let mut lines = Vec::new();
    for doing in doings {
        for thing in things {
            for place in places {
                lines.push(format!(
                    "To {doing} the {thing}, first go to the {place} and look at what is there."
                ));
                lines.push(format!(
                    "When the {thing} is not in the {place}, do not {doing} it again; try elsewhere."
                ));
            }
        }
    }
    lines
}
