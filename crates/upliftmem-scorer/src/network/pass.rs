//! One task through the network and back: its memories, then its sets.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::MemoryId;

use super::{
    algebra::{add_scaled, backward, forward, outer, sigmoid},
    parameters::{Parameters, Part},
    settings::NetworkSettings,
};

/// A memory as the layers see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    /// Its reduced text.
    pub(super) point: &'a [f64],
    /// How well it matches the task.
    pub(super) relevance: f64,
    /// Its place in the table of identities; `None` for a memory never seen.
    pub(super) slot: Option<usize>,
}

/// Which entries a drawn function leaves out, and how much the others count for it.
#[derive(Debug, Clone)]
pub(super) struct Dropout {
    hidden: Vec<f64>,
    top: Vec<f64>,
    rate: f64,
    seed: u64,
}

impl Dropout {
    /// Draws a function: the same for every set and every order of memories.
    pub(super) fn draw(settings: &NetworkSettings, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rate = settings.dropout;
        let mut mask = |count: usize| -> Vec<f64> {
            let kept = 1.0 / (1.0 - rate);
            (0..count)
                .map(|_| if rng.random::<f64>() < rate { 0.0 } else { kept })
                .collect()
        };
        Self {
            hidden: mask(settings.hidden),
            top: mask(settings.top),
            rate,
            seed,
        }
    }

    /// Whether this memory passes for one never seen.
    pub(super) fn forgets(&self, id: MemoryId) -> bool {
        keyed(self.seed, id.as_u128()).random::<f64>() < self.rate
    }
}

/// Randomness that belongs to a seed and an id.
pub(super) fn keyed(seed: u64, id: u128) -> impl Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..24].copy_from_slice(&id.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// What the network's layers say of a task's memories: all that its sets share.
pub(super) struct TaskPass<'a> {
    settings: &'a NetworkSettings,
    parameters: &'a Parameters,
    dropout: Option<&'a Dropout>,
    members: Vec<Member<'a>>,
    /// Rows of what each hidden vector is computed from.
    inputs: Vec<f64>,
    /// Hidden vectors before and after the activation and dropout.
    before: Vec<f64>,
    hidden: Vec<f64>,
    /// What is multiplied pairwise.
    factors: Vec<f64>,
    gates: Vec<f64>,
    effects: Vec<f64>,
}

/// One set through the network, with what the way back needs.
pub(super) struct SetPass {
    /// The value in the network's unit.
    pub(super) value: f64,
    pooled: Vec<f64>,
    /// Sum of the members' factors.
    sum: Vec<f64>,
    /// The last layer, before dropout.
    top: Vec<f64>,
}

/// Where the slopes of a task's memories are collected on the way back.
pub(super) struct TaskSlopes {
    hidden: Vec<f64>,
    factors: Vec<f64>,
    gates: Vec<f64>,
}

impl<'a> TaskPass<'a> {
    #[inline(always)]
    pub(super) fn new(
        settings: &'a NetworkSettings,
        parameters: &'a Parameters,
        task: &[f64],
        members: Vec<Member<'a>>,
        dropout: Option<&'a Dropout>,
    ) -> Self {
        let count = members.len();
        let width = settings.inputs();
        let mut pass = Self {
            settings,
            parameters,
            dropout,
            inputs: vec![0.0; count * width],
            before: Vec::with_capacity(count * settings.hidden),
            hidden: vec![0.0; count * settings.hidden],
            factors: vec![0.0; count * settings.pairs],
            gates: Vec::with_capacity(count),
            effects: Vec::with_capacity(count),
            members,
        };
        let gate = &parameters[Part::Gate];
        for at in 0..count {
            let member = pass.members[at];
            let inputs = &mut pass.inputs[at * width..(at + 1) * width];
            fill_inputs(settings, parameters, task, member, inputs);
            pass.before.extend_from_slice(&parameters[Part::MemoryBias]);
            let before = &mut pass.before[at * settings.hidden..];
            forward(before, inputs, &parameters[Part::MemoryWeight]);
            let hidden = &mut pass.hidden[at * settings.hidden..(at + 1) * settings.hidden];
            for (unit, (hidden, before)) in hidden.iter_mut().zip(before.iter()).enumerate() {
                *hidden = before * sigmoid(*before) * dropout.map_or(1.0, |mask| mask.hidden[unit]);
            }
            let factors = &mut pass.factors[at * settings.pairs..(at + 1) * settings.pairs];
            forward(factors, hidden, &parameters[Part::PairWeight]);
            let open = sigmoid(gate[0] * member.relevance + gate[1]);
            pass.gates.push(open);
            let effect = member.slot.map_or(0.0, |slot| parameters[Part::Effect][slot]);
            pass.effects.push(open * effect);
        }
        pass
    }

    fn hidden(&self, member: usize) -> &[f64] {
        &self.hidden[member * self.settings.hidden..(member + 1) * self.settings.hidden]
    }

    fn factors(&self, member: usize) -> &[f64] {
        &self.factors[member * self.settings.pairs..(member + 1) * self.settings.pairs]
    }

    fn top_mask(&self, unit: usize) -> f64 {
        self.dropout.map_or(1.0, |mask| mask.top[unit])
    }

    /// A set by the places of its members, in the order of their ids.
    #[inline(always)]
    pub(super) fn set(&self, set: &[usize]) -> SetPass {
        let (settings, parameters) = (self.settings, self.parameters);
        let mut pooled = vec![0.0; settings.hidden + settings.pairs];
        let mut sum = vec![0.0; settings.pairs];
        let (pool, products) = pooled.split_at_mut(settings.hidden);
        for &member in set {
            add_scaled(pool, 1.0, self.hidden(member));
            // Every factor times the sum of those before it: each pair once.
            for ((product, sum), factor) in products.iter_mut().zip(&mut sum).zip(self.factors(member)) {
                *product += factor * *sum;
                *sum += factor;
            }
        }
        let mut top = parameters[Part::TopBias].clone();
        forward(&mut top, &pooled, &parameters[Part::TopWeight]);
        let mut value = parameters[Part::OutBias][0];
        for (unit, (top, weight)) in top.iter_mut().zip(&parameters[Part::OutWeight]).enumerate() {
            *top = top.tanh();
            value += weight * *top * self.top_mask(unit);
        }
        for &member in set {
            value += self.effects[member];
        }
        SetPass {
            value,
            pooled,
            sum,
            top,
        }
    }

    pub(super) fn slopes(&self) -> TaskSlopes {
        TaskSlopes {
            hidden: vec![0.0; self.hidden.len()],
            factors: vec![0.0; self.factors.len()],
            gates: vec![0.0; self.gates.len()],
        }
    }

    /// Takes the slope of a set's value back to its members and the upper layers.
    #[inline(always)]
    pub(super) fn set_back(
        &self,
        set: &[usize],
        pass: &SetPass,
        slope: f64,
        slopes: &mut TaskSlopes,
        gradient: &mut Parameters,
    ) {
        let (settings, parameters) = (self.settings, self.parameters);
        gradient[Part::OutBias][0] += slope;
        let mut d_top = vec![0.0; settings.top];
        for unit in 0..settings.top {
            let (top, mask) = (pass.top[unit], self.top_mask(unit));
            gradient[Part::OutWeight][unit] += slope * top * mask;
            d_top[unit] = slope * parameters[Part::OutWeight][unit] * mask * (1.0 - top * top);
        }
        add_scaled(&mut gradient[Part::TopBias], 1.0, &d_top);
        outer(&mut gradient[Part::TopWeight], &pass.pooled, &d_top);
        let mut d_pooled = vec![0.0; pass.pooled.len()];
        backward(&mut d_pooled, &parameters[Part::TopWeight], &d_top);
        let (d_pool, d_products) = d_pooled.split_at(settings.hidden);
        for &member in set {
            let hidden = &mut slopes.hidden[member * settings.hidden..(member + 1) * settings.hidden];
            add_scaled(hidden, 1.0, d_pool);
            let factors = &mut slopes.factors[member * settings.pairs..(member + 1) * settings.pairs];
            for (entry, d_factor) in factors.iter_mut().enumerate() {
                let others = pass.sum[entry] - self.factors(member)[entry];
                *d_factor += d_products[entry] * others;
            }
            if let Some(slot) = self.members[member].slot {
                slopes.gates[member] += slope * parameters[Part::Effect][slot];
                gradient[Part::Effect][slot] += slope * self.gates[member];
            }
        }
    }

    /// Takes the slopes of the memories back to the lower layers; `d_task` and `d_points` get those of the reduced
    /// texts.
    #[inline(always)]
    pub(super) fn back(
        &self,
        task: &[f64],
        slopes: &mut TaskSlopes,
        gradient: &mut Parameters,
        d_task: &mut [f64],
        mut d_point: impl FnMut(usize, &[f64]),
    ) {
        let (settings, parameters) = (self.settings, self.parameters);
        let (width, size) = (settings.inputs(), settings.projection);
        let mut d_inputs = vec![0.0; width];
        let mut d_own = vec![0.0; size];
        for (at, member) in self.members.iter().enumerate() {
            let d_factors = &slopes.factors[at * settings.pairs..(at + 1) * settings.pairs];
            let d_hidden = &mut slopes.hidden[at * settings.hidden..(at + 1) * settings.hidden];
            outer(&mut gradient[Part::PairWeight], self.hidden(at), d_factors);
            backward(d_hidden, &parameters[Part::PairWeight], d_factors);
            let before = &self.before[at * settings.hidden..];
            for (unit, (slope, before)) in d_hidden.iter_mut().zip(before).enumerate() {
                let open = sigmoid(*before);
                let mask = self.dropout.map_or(1.0, |mask| mask.hidden[unit]);
                *slope *= mask * open * (1.0 + before * (1.0 - open));
            }
            add_scaled(&mut gradient[Part::MemoryBias], 1.0, d_hidden);
            let inputs = &self.inputs[at * width..(at + 1) * width];
            outer(&mut gradient[Part::MemoryWeight], inputs, d_hidden);
            d_inputs.fill(0.0);
            backward(&mut d_inputs, &parameters[Part::MemoryWeight], d_hidden);
            for entry in 0..size {
                let product = d_inputs[2 * size + entry];
                d_task[entry] += d_inputs[entry] + product * member.point[entry];
                d_own[entry] = d_inputs[size + entry] + product * task[entry];
            }
            d_point(at, &d_own);
            let open = self.gates[at];
            let d_gate = slopes.gates[at] * open * (1.0 - open);
            gradient[Part::Gate][0] += d_gate * member.relevance;
            gradient[Part::Gate][1] += d_gate;
            if let Some(slot) = member.slot {
                let place = slot * settings.identity..(slot + 1) * settings.identity;
                add_scaled(
                    &mut gradient[Part::Identity][place],
                    1.0,
                    &d_inputs[3 * size + 1..],
                );
            }
        }
    }
}

/// Both texts, their product, their match, and who the memory is.
#[inline(always)]
fn fill_inputs(
    settings: &NetworkSettings,
    parameters: &Parameters,
    task: &[f64],
    member: Member<'_>,
    inputs: &mut [f64],
) {
    let size = settings.projection;
    inputs[..size].copy_from_slice(task);
    inputs[size..2 * size].copy_from_slice(member.point);
    for entry in 0..size {
        inputs[2 * size + entry] = task[entry] * member.point[entry];
    }
    inputs[3 * size] = member.relevance;
    if let Some(slot) = member.slot {
        let place = slot * settings.identity..(slot + 1) * settings.identity;
        inputs[3 * size + 1..].copy_from_slice(&parameters[Part::Identity][place]);
    }
}
