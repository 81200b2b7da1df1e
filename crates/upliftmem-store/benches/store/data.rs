//! Clustered vectors with sentences, made from a seed.

use std::{
    collections::{BTreeMap, HashMap},
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

/// Where vectors and texts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Clusters around random directions.
    Clustered,
    /// Pairs of sentences; the vector of a pair is the mean of its sentences' vectors, from a real embedder.
    Sentences,
}

/// Memories and queries.
pub(crate) struct Data {
    pub(crate) kind: Kind,
    vectors: Vec<Vec<f32>>,
    queries: Vec<Vec<f32>>,
    texts: Vec<String>,
    query_texts: Vec<String>,
    truth: Vec<Truth>,
}

/// The best answers, by looking at everything.
struct Truth {
    dense: Vec<u32>,
    hybrid: Vec<u32>,
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
    /// With the true answers of some queries.
    pub(crate) fn new(kind: Kind, size: usize, queries: usize) -> Self {
        let mut data = Self::unchecked(kind, size, queries);
        let words = Words::new(&data.texts);
        data.truth = (0..CHECKED)
            .map(|number| {
                let dense = nearest(&data.vectors, &data.queries[number], 100);
                let lexical = words.best(&data.query_texts[number], 100);
                Truth {
                    hybrid: fused(&dense, &lexical, 50),
                    dense: dense.into_iter().take(50).collect(),
                }
            })
            .collect();
        data
    }

    pub(crate) fn unchecked(kind: Kind, size: usize, queries: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(42);
        let lines = sentences();
        let total = size + queries;
        let pairs: Vec<(usize, usize)> = (0..total)
            .map(|_| (rng.random_range(0..lines.len()), rng.random_range(0..lines.len())))
            .collect();
        let mut vectors: Vec<Vec<f32>> = match kind {
            Kind::Clustered => {
                let centres: Vec<Vec<f32>> = (0..CLUSTERS).map(|_| direction(&mut rng)).collect();
                (0..total)
                    .map(|_| member(&centres[rng.random_range(0..CLUSTERS)], &mut rng))
                    .collect()
            }
            Kind::Sentences => {
                let embedded = embedded_sentences().unwrap();
                assert_eq!(embedded.len(), lines.len(), "a vector for each sentence");
                let mean = |&(a, b): &(usize, usize)| {
                    let sum = embedded[a].iter().zip(&embedded[b]).map(|(x, y)| x + y);
                    unit(sum.collect())
                };
                pairs.iter().map(mean).collect()
            }
        };
        let mut texts: Vec<String> = (0..)
            .zip(&pairs)
            .map(|(number, &(a, b))| format!("{} {} case {number}", lines[a], lines[b]))
            .collect();
        let queries = vectors.split_off(size);
        // A question has the first words of a sentence of its own pair.
        let query_texts = texts
            .split_off(size)
            .iter()
            .map(|text| text.split(' ').take(12).collect::<Vec<_>>().join(" "))
            .collect();
        Self {
            kind,
            vectors,
            queries,
            texts,
            query_texts,
            truth: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.vectors.len()
    }

    pub(crate) fn memory(&self, number: usize) -> NewMemory {
        let embedding = Embedding::new(generation(), self.vectors[number].clone()).unwrap();
        NewMemory::note(id(number), &self.texts[number]).with_embedding(embedding)
    }

    pub(crate) fn query(&self, number: usize, candidates: usize, mode: RecallMode) -> RecallQuery {
        RecallQuery {
            text: self.query_texts[number].clone(),
            embedding: Some(Embedding::new(generation(), self.queries[number].clone()).unwrap()),
            candidates,
            mode,
        }
    }

    /// How many of the true answers were found, and how many there are; none for a query that is not checked.
    pub(crate) fn count_true(&self, number: usize, mode: RecallMode, recall: &Recall) -> (usize, usize) {
        let truth = match (self.truth.get(number), mode) {
            (Some(truth), RecallMode::Dense) => &truth.dense,
            (Some(truth), RecallMode::Hybrid) => &truth.hybrid,
            _ => return (0, 0),
        };
        let wanted = |hit: &&Hit| truth.iter().any(|&slot| id(slot as usize) == hit.id);
        (recall.hits.iter().filter(wanted).count(), truth.len())
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
        let name = format!("{:?}-{}", self.kind, self.len()).to_lowercase();
        floats(&format!("vectors-{name}.f32"), &self.vectors);
        floats(&format!("queries-{name}.f32"), &self.queries);
        let truth: Vec<u8> = self
            .truth
            .iter()
            .flat_map(|truth| &truth.dense)
            .flat_map(|slot| slot.to_le_bytes())
            .collect();
        std::fs::write(folder.join(format!("truth-{name}.u32")), truth).unwrap();
    }
}

/// The nearest, by looking at all.
fn nearest(vectors: &[Vec<f32>], query: &[f32], n: usize) -> Vec<u32> {
    let dot = |vector: &[f32]| {
        vector
            .iter()
            .zip(query)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    best(
        (0..)
            .zip(vectors)
            .map(|(slot, vector)| (dot(vector), slot))
            .collect(),
        n,
    )
}

fn best(mut all: Vec<(f64, u32)>, n: usize) -> Vec<u32> {
    all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all.into_iter().take(n).map(|(_, slot)| slot).collect()
}

/// Reciprocal rank fusion of two orders.
fn fused(one: &[u32], two: &[u32], n: usize) -> Vec<u32> {
    let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
    for order in [one, two] {
        for (rank, &slot) in order.iter().enumerate() {
            *scores.entry(slot).or_default() += 1.0 / (61.0 + rank as f64);
        }
    }
    best(scores.into_iter().map(|(slot, score)| (score, slot)).collect(), n)
}

/// Every posting of every word: BM25 without short cuts.
struct Words {
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<f64>,
    mean: f64,
}

impl Words {
    fn new(texts: &[String]) -> Self {
        let mut postings: HashMap<String, Vec<(u32, u32)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (slot, text) in (0..).zip(texts) {
            let mut counts: BTreeMap<String, u32> = BTreeMap::new();
            let mut length = 0.0;
            for word in split(text) {
                *counts.entry(word).or_default() += 1;
                length += 1.0;
            }
            lengths.push(length);
            for (word, count) in counts {
                postings.entry(word).or_default().push((slot, count));
            }
        }
        let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
        Self {
            postings,
            lengths,
            mean,
        }
    }

    fn best(&self, query: &str, n: usize) -> Vec<u32> {
        let mut scores: HashMap<u32, f64> = HashMap::new();
        let words: std::collections::BTreeSet<String> = split(query).collect();
        for list in words.iter().filter_map(|word| self.postings.get(word)) {
            let having = list.len() as f64;
            let rarity = (1.0 + (self.lengths.len() as f64 - having + 0.5) / (having + 0.5)).ln();
            for &(slot, count) in list {
                let count = f64::from(count);
                let shortness = 1.2 * (0.25 + 0.75 * self.lengths[slot as usize] / self.mean);
                *scores.entry(slot).or_default() += rarity * count * 2.2 / (count + shortness);
            }
        }
        best(scores.into_iter().map(|(slot, score)| (score, slot)).collect(), n)
    }
}

fn split(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
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

/// Vectors of the sentences, if a file has them.
pub(crate) fn embedded_sentences() -> Option<Vec<Vec<f32>>> {
    let bytes = std::fs::read(std::env::var_os("UPLIFTMEM_BENCH_VECTORS")?).unwrap();
    let numbers: Vec<f32> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|&four| f32::from_le_bytes(four))
        .collect();
    Some(numbers.chunks(DIMENSION).map(<[f32]>::to_vec).collect())
}

/// Lines of a file, or made from templates.
fn sentences() -> Vec<String> {
    match std::env::var("UPLIFTMEM_BENCH_SENTENCES") {
        Ok(file) => std::fs::read_to_string(file)
            .unwrap()
            .lines()
            .map(ToOwned::to_owned)
            .collect(),
        Err(_) => templates(),
    }
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
