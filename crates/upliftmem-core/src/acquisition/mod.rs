//! Which executions to buy. Paper: sec. probing, app. probe_algorithm.

mod bound;
mod chooser;
pub(crate) mod kernel;
mod lines;
mod problem;
mod state;

use crate::{belief::PoolBelief, error::Result, window::{ComparisonFamily, ProbePool}};

#[doc(hidden)]
pub fn experiment(pool: &ProbePool, family: &ComparisonFamily, belief: &PoolBelief, picks: usize, tau: f64, full: bool) -> Result<Vec<(usize, f64)>> {
    use std::time::Instant;
    let t = Instant::now();
    let problem = problem::Problem::new(pool, family, belief)?;
    let mut state = state::State::new(&problem);
    let mut bound = bound::Bound::new(&problem);
    println!("setup {:?}", t.elapsed());
    let mut out = vec![];
    let (mut tb, mut tc, mut ts, mut tt) = (0.0, 0.0, 0.0, 0.0);
    let gumbel = |step: usize, q: usize| {
        let mut x = (step as u64) << 32 ^ q as u64 ^ 0x9E3779B97F4A7C15;
        for _ in 0..3 { x = (x ^ (x >> 30)).wrapping_mul(0xBF58476D1CE4E5B9); x = (x ^ (x >> 27)).wrapping_mul(0x94D049BB133111EB); x ^= x >> 31; x = x.wrapping_add(0x9E3779B97F4A7C15);}
        let u = ((x >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -(-u.ln()).ln()
    };
    let mut work = chooser::Work::default();
    for step in 0..picks {
        if full {
            let values = chooser::sweep(&problem, &state);
            let max = values.iter().copied().fold(f64::MIN, f64::max);
            let key = |q: usize, v: f64| if tau > 0.0 { v / (tau * max) + gumbel(step, q) } else { v };
            let mut best = (f64::MIN, 0);
            for (q, &v) in values.iter().enumerate() { if !state.scheduled[q] && key(q, v) > best.0 { best = (key(q, v), q); } }
            out.push((best.1, values[best.1]));
            state.schedule(&problem, best.1);
            continue;
        }
        let t = Instant::now();
        let mut bounds = bound.refresh(&problem, &state);
        if step < 10 || step % 10 == 0 {
            let t2 = Instant::now();
            for _ in 0..(if step == 0 { 2 } else { 1 }) {
            let mut top: Vec<usize> = (0..bounds.len()).filter(|&q| !state.scheduled[q]).collect();
            top.sort_unstable_by(|&a, &b| bounds[b].total_cmp(&bounds[a]));
            top.truncate(1500);
            bound.learn_typical(&problem, &state, &top);
            bounds = bound.refresh(&problem, &state);
            }
            tt += t2.elapsed().as_secs_f64();
        }
        let e1 = t.elapsed().as_secs_f64();
        tb += e1;
        let t = Instant::now();
        let u = bounds.iter().copied().fold(f64::MIN, f64::max);
        let mut round = chooser::Round::new(&problem, &state, &bound, bounds);
        let best = round.choose(|_, v| v).unwrap();
        let choice = if tau > 0.0 { let max = best.value; round.choose(|q, v| v / (tau * max) + gumbel(step, q)).unwrap() } else { best };
        let e2 = t.elapsed().as_secs_f64();
        tc += e2;
        if step % 30 == 0 || step < 5 { println!("step {step}: U {u:.4} V {:.5} near {} whole {} pairs {} bound {:.0}ms choose {:.0}ms", choice.value, round.work.near, round.work.whole, round.work.pairs, e1*1e3, e2*1e3); }
        work.near += round.work.near; work.whole += round.work.whole; work.pairs += round.work.pairs;
        drop(round);
        let t = Instant::now();
        state.schedule(&problem, choice.probe);
        ts += t.elapsed().as_secs_f64();
        out.push((choice.probe, choice.value));
    }
    println!("bound {tb:.2} (typical {tt:.2}) choose {tc:.2} schedule {ts:.2}; near {} whole {} pairs {}; H {:.6}", work.near, work.whole, work.pairs, state.values.iter().sum::<f64>());
    Ok(out)
}
