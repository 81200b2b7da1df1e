//! Would ordinary retrieval ever try this set? Exact coverage of one set by the sampling policy, and its bound.

mod evidence;
#[cfg(test)]
mod tests;

use crate::{
    MemoryId, MemorySet, PathPolicy, SearchSpace,
    error::{InvalidInput, Result},
    policy::{ActionDistribution, check_scores},
};

pub use evidence::{
    AdaptiveCoverage, adaptive_coverage, coverage_lower_bound, expected_executions, no_evidence_lower_bound,
    no_evidence_probability, probe_coverage,
};

/// Most members of a set that can be asked about: the work doubles with each.
pub const COVERAGE_MEMBERS_MAX: usize = 10;

/// The question how likely ordinary retrieval is to return one set.
///
/// Hands out one batch of sets to score: every subset of the target and every feasible addition to each.
#[derive(Debug, Clone)]
pub struct CoverageQuestion {
    policy: PathPolicy,
    members: Vec<MemoryId>,
    unreachable: Option<InvalidInput>,
    /// Non-empty subsets in the order of their bit masks, then the additions of other memories, subset by subset.
    sets: Vec<MemorySet>,
    /// For each subset (by bit mask) where its additions of other memories start in `sets`; one more as the end.
    outside: Vec<usize>,
}

/// How likely ordinary retrieval is to return one set, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    /// ln of the exact probability; minus infinity if the set can not be reached. Paper: eq. exact_set_probability.
    pub ln_probability: f64,
    /// ln of the sum over all ways of exp(-deficit / temperature), which may exceed 1.
    /// Paper: eq. passive_probability_bound.
    pub ln_bound: f64,
    /// The smallest deficit of all ways to the set; `None` if there is no way. Paper: d(a), eq. path_deficit.
    pub path_deficit: Option<f64>,
    /// The order of additions with that deficit.
    pub easiest_order: Vec<MemoryId>,
    /// Why no path leads to the set, if none does.
    pub unreachable: Option<InvalidInput>,
}

/// The ways to one subset of the target, taken together.
#[derive(Clone, Copy)]
struct Ways {
    ln_reach: f64,
    ln_bound: f64,
    least_deficit: f64,
    /// The member added last on the way with the least deficit; none for the empty set.
    last: Option<usize>,
}

impl CoverageQuestion {
    /// Asks about `target`. A set that is not feasible has coverage 0 and nothing to score.
    pub fn new(space: SearchSpace<'_>, policy: PathPolicy, target: &MemorySet) -> Result<Self> {
        let mut question = Self {
            policy,
            members: target.to_vec(),
            unreachable: space.check(target).err(),
            sets: Vec::new(),
            outside: Vec::new(),
        };
        if question.unreachable.is_some() {
            return Ok(question);
        }
        if target.len() > COVERAGE_MEMBERS_MAX {
            return Err(InvalidInput::new(
                format_args!("memory set {target:?}"),
                format_args!(
                    "has {} members; coverage is worked out for at most {COVERAGE_MEMBERS_MAX}",
                    target.len()
                ),
            ));
        }
        let subsets: Vec<MemorySet> = (0..1_usize << target.len())
            .map(|mask| question.subset(mask))
            .collect();
        question.sets.extend(subsets.iter().skip(1).cloned());
        for subset in &subsets {
            question.outside.push(question.sets.len());
            let additions = space.additions(subset)?;
            let others = additions.into_iter().filter(|&id| !target.contains(id));
            question.sets.extend(others.map(|id| subset.with(id)));
        }
        question.outside.push(question.sets.len());
        Ok(question)
    }

    /// The sets to score, each once.
    pub fn to_score(&self) -> &[MemorySet] {
        &self.sets
    }

    /// Takes the values of the sets, in their order.
    ///
    /// Sums over all orders of addition by working up the subsets: 2^n of them instead of n! orders.
    pub fn answer(self, values: &[f64]) -> Result<Coverage> {
        check_scores(&self.sets, values)?;
        if let Some(reason) = self.unreachable {
            return Ok(Coverage {
                ln_probability: f64::NEG_INFINITY,
                ln_bound: f64::NEG_INFINITY,
                path_deficit: None,
                easiest_order: Vec::new(),
                unreachable: Some(reason),
            });
        }
        let everything = (1_usize << self.members.len()) - 1;
        let nowhere = Ways {
            ln_reach: f64::NEG_INFINITY,
            ln_bound: f64::NEG_INFINITY,
            least_deficit: f64::INFINITY,
            last: None,
        };
        let mut ways = vec![nowhere; everything + 1];
        ways[0] = Ways {
            ln_reach: 0.0,
            ln_bound: 0.0,
            least_deficit: 0.0,
            last: None,
        };
        // Adding a member makes the mask larger, so everything that leads to a mask is done before it.
        for mask in 0..everything {
            let from = ways[mask];
            let choice = self.choice(mask, values)?;
            let missing = (0..self.members.len()).filter(|member| mask >> member & 1 == 0);
            for (position, member) in missing.enumerate() {
                let to = &mut ways[mask | 1 << member];
                to.ln_reach = ln_add_exp(to.ln_reach, from.ln_reach + choice.ln_add(position));
                to.ln_bound = ln_add_exp(to.ln_bound, from.ln_bound - choice.scaled_deficit(position + 1));
                let deficit = from.least_deficit + choice.add_deficit(position);
                if to.last.is_none() || deficit < to.least_deficit {
                    to.least_deficit = deficit;
                    to.last = Some(member);
                }
            }
        }
        // Where nothing can be added the end is forced, which the choice among no additions says too.
        let stop = self.choice(everything, values)?;
        let end = ways[everything];
        Ok(Coverage {
            ln_probability: end.ln_reach + stop.ln_stop(),
            ln_bound: end.ln_bound - stop.scaled_deficit(0),
            path_deficit: Some(end.least_deficit + stop.stop_deficit()),
            easiest_order: self.easiest_order(&ways),
            unreachable: None,
        })
    }

    /// The choice at a subset: additions of the missing members first, in their order, then of other memories.
    fn choice(&self, mask: usize, values: &[f64]) -> Result<ActionDistribution> {
        let value = |mask: usize| if mask == 0 { 0.0 } else { values[mask - 1] };
        let missing = (0..self.members.len()).filter(|member| mask >> member & 1 == 0);
        let extended = missing.map(|member| value(mask | 1 << member));
        let outside = &values[self.outside[mask]..self.outside[mask + 1]];
        let gains: Vec<f64> = extended
            .chain(outside.iter().copied())
            .map(|extended| crate::conditional_gain(extended, value(mask)))
            .collect();
        self.policy.action_distribution(&gains)
    }

    fn easiest_order(&self, ways: &[Ways]) -> Vec<MemoryId> {
        let mut mask = ways.len() - 1;
        let mut order = Vec::with_capacity(self.members.len());
        while let Some(last) = ways[mask].last {
            order.push(self.members[last]);
            mask &= !(1 << last);
        }
        order.reverse();
        order
    }

    fn subset(&self, mask: usize) -> MemorySet {
        let members = self.members.iter().enumerate();
        members
            .filter(|(at, _)| mask >> at & 1 == 1)
            .map(|(_, &id)| id)
            .collect()
    }
}

impl Coverage {
    /// The exact probability that one ordinary retrieval returns the set. Paper: p_B, eq. exact_set_probability.
    pub fn coverage_probability(&self) -> f64 {
        self.ln_probability.exp().min(1.0)
    }

    /// The paper's bound on it, which leaves out the competition among actions; at most 1.
    /// Paper: p-bar_B of Corollary direct_evidence.
    pub fn coverage_upper_bound(&self) -> f64 {
        self.ln_bound.exp().min(1.0)
    }

    /// Expected number of ordinary runs until the set is first executed; infinite if it never is.
    /// Paper: expectation of T_B, Corollary direct_evidence.
    pub fn expected_runs(&self) -> f64 {
        (-self.ln_probability).exp().max(1.0)
    }

    /// What the bound says about it: at least this many.
    pub fn expected_runs_lower_bound(&self) -> f64 {
        (-self.ln_bound).exp().max(1.0)
    }
}

/// ln(e^a + e^b) without leaving logarithms.
fn ln_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY {
        high
    } else {
        high + (low - high).exp().ln_1p()
    }
}
