//! Plans a batch of probes on a small window and explains every pick.
//!
//! `cargo run --release --example plan_probes`
//!
//! Three shopping tasks, six memories, a dozen executions so far. The program shows what retrieval would do today,
//! which extra executions are worth buying, for which decision, and whether ordinary retrieval would ever have
//! tried them.
#![allow(clippy::print_stdout)]

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{
    AcquisitionSettings, AcquisitionWindow, BeamSearch, BeamSettings, Candidate, CandidatePool,
    CoverageQuestion, LabelRow, Limits, LinearBelief, LinearPrior, MemoryId, MemorySet, Neighbourhood,
    PathPolicy, ProbeQuestion, ReferenceId, Result, SearchSpace, Side, TaskId, WindowEntry,
    local_comparisons, select_probes,
};

const TASKS: [&str; 3] = [
    "a waterproof backpack under $60",
    "noise-cancelling headphones for a child",
    "a gift for a tea drinker",
];

const MEMORIES: [&str; 6] = [
    "filter by price first",
    "the $89 alpine pack is best",
    "look up the volume limit",
    "compare three results",
    "click the options",
    "search by brand only",
];

/// (task, members, uplift): what was executed so far.
const EXECUTED: [(usize, &[usize], f64); 12] = [
    (0, &[0], 0.6),
    (0, &[1], -0.9),
    (0, &[0, 1], -0.4),
    (1, &[2], 0.5),
    (1, &[2, 3], 0.1),
    (1, &[5], -0.2),
    (2, &[3], 0.1),
    (2, &[4], 0.2),
    (2, &[3, 4], 0.7),
    (0, &[3], -0.1),
    (1, &[4], 0.1),
    (2, &[1], -0.3),
];

fn memory(index: usize) -> MemoryId {
    MemoryId::from_u128(index as u128)
}

fn task(index: usize) -> TaskId {
    TaskId::from_u128(index as u128)
}

/// A memory has an effect of its own, one more on each task, and one with each companion.
fn features(task: usize, set: &MemorySet) -> Vec<f64> {
    let count = MEMORIES.len();
    let mut features = vec![0.0; count + TASKS.len() * count + count * count];
    for &first in set {
        let first = first.as_u128() as usize;
        features[first] = 1.0;
        features[count + task * count + first] = 1.0;
        for second in set
            .iter()
            .map(|second| second.as_u128() as usize)
            .filter(|&second| second > first)
        {
            features[count + TASKS.len() * count + first * count + second] = 1.0;
        }
    }
    features
}

fn words(set: &MemorySet) -> String {
    if set.is_empty() {
        return "no memory".into();
    }
    let members: Vec<&str> = set
        .iter()
        .map(|member| MEMORIES[member.as_u128() as usize])
        .collect();
    format!("\"{}\"", members.join("\" + \""))
}

fn main() -> Result<()> {
    let labels: Vec<LabelRow> = EXECUTED
        .iter()
        .map(|&(task, members, residual)| LabelRow {
            features: features(task, &members.iter().map(|&index| memory(index)).collect()),
            residual,
            reference: ReferenceId::from_u128(task as u128),
        })
        .collect();
    let groups = [
        MEMORIES.len(),
        TASKS.len() * MEMORIES.len(),
        MEMORIES.len() * MEMORIES.len(),
    ];
    let prior = LinearPrior::new(groups.map(|size| (size, 0.05)).to_vec(), 0.1, 0.05)?;
    let belief = LinearBelief::new(prior, &labels)?;
    let nothing = vec![0.0; groups.iter().sum()];
    let value = |task: usize, set: &MemorySet| belief.predict_margin(&features(task, set), &nothing);

    let candidates = (0..MEMORIES.len())
        .map(|index| Candidate {
            id: memory(index),
            tokens: 12,
        })
        .collect();
    let (pool, limits) = (CandidatePool::new(candidates)?, Limits::count(2));
    println!("What retrieval would do today\n");
    let mut entries = Vec::new();
    for (index, name) in TASKS.iter().enumerate() {
        let mut search = BeamSearch::new(SearchSpace::new(&pool, limits), BeamSettings::default())?;
        while let Some(sets) = search.to_score() {
            let values: Result<Vec<f64>> = sets.iter().map(|set| Ok(value(index, set)?.0)).collect();
            search.take_values(&values?)?;
        }
        let found = search.finish();
        println!(
            "  {name}\n    -> {}, predicted uplift {:+.2}",
            words(&found.best.set),
            found.best.value
        );
        entries.push(WindowEntry {
            task: task(index),
            pool: pool.clone(),
            incumbent: found.best.set,
            prefixes: Vec::new(),
            limits,
        });
    }

    let (probes, family) = local_comparisons(&AcquisitionWindow { entries }, Neighbourhood::Incumbent)?;
    let rows: Vec<f64> = probes
        .probes()
        .iter()
        .flat_map(|probe| features(probe.task as usize, &probe.set))
        .collect();
    let references: Vec<_> = (0..TASKS.len())
        .map(|index| Some(ReferenceId::from_u128(index as u128)))
        .collect();
    let over = belief.over(&probes, &rows, &vec![0.0; probes.len()], &references)?;
    let question = ProbeQuestion {
        pool: &probes,
        family: &family,
        belief: &over,
        deviations: None,
    };
    let settings = AcquisitionSettings {
        probe_budget: 5,
        explained: 1,
        ..AcquisitionSettings::default()
    };
    let batch = select_probes(question, &settings, &mut ChaCha8Rng::seed_from_u64(7))?;

    println!(
        "\nFive executions worth buying, of {} candidates for {} open decisions\n",
        probes.len(),
        family.len()
    );
    let policy = PathPolicy::new(0.05, 0.0)?;
    for (number, pick) in (1..).zip(&batch.picks) {
        let probe = &probes.probes()[pick.probe as usize];
        println!(
            "{number}. {} with {}",
            TASKS[probe.task as usize],
            words(&probe.set)
        );
        println!(
            "   adds {:.4} of expected utility to the batch; had probability {:.2}",
            pick.marginal_value, pick.probability.at_least
        );
        if let Some(helped) = pick.helps.first() {
            let comparison = family.comparisons()[helped.comparison as usize];
            let name = |side: Side| match side {
                Side::Empty => words(&MemorySet::EMPTY),
                Side::Probe(index) => words(&probes.probes()[index as usize].set),
            };
            println!(
                "   helps most to decide: {} or {}?",
                name(comparison.challenger),
                name(comparison.incumbent)
            );
        }
        let asked = CoverageQuestion::new(SearchSpace::new(&pool, limits), policy, &probe.set)?;
        let values: Result<Vec<f64>> = asked
            .to_score()
            .iter()
            .map(|set| Ok(value(probe.task as usize, set)?.0))
            .collect();
        let coverage = asked.answer(&values?)?;
        let runs = coverage.expected_runs().round();
        let often = if runs > 1.0 {
            format!("once in {runs} runs")
        } else {
            "in almost every run".into()
        };
        println!("   ordinary retrieval would try it {often}\n");
    }
    println!(
        "The batch is worth {:.4} of expected utility over all open decisions.",
        batch.batch_value
    );
    Ok(())
}
