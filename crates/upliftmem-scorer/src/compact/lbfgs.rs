//! A small L-BFGS minimiser with a backtracking line search. Deterministic, and bounded in evaluations.

/// How many steps the curvature is remembered for.
const HISTORY: usize = 8;
/// The largest change of one coordinate in a step: hyper-parameters are logarithms.
const STEP_MAX: f64 = 1.0;
/// A decrease that is not worth another evaluation; this many in a row end the search.
const SMALL: f64 = 0.05;
const PATIENCE: usize = 3;

/// Where the search ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Minimum<const N: usize> {
    pub(crate) point: [f64; N],
    pub(crate) value: f64,
    pub(crate) evaluations: usize,
}

/// Minimises `objective` (value and gradient; `None` where it is undefined) from `start`.
pub(crate) fn minimise<const N: usize>(
    mut objective: impl FnMut(&[f64; N]) -> Option<(f64, [f64; N])>,
    start: [f64; N],
    first_step: &[f64; N],
    evaluations_max: usize,
) -> Option<Minimum<N>> {
    let mut point = start;
    let (mut value, mut gradient) = objective(&point)?;
    let mut evaluations = 1;
    let mut history: Vec<([f64; N], [f64; N], f64)> = Vec::new();
    let mut small = 0;
    'search: while evaluations < evaluations_max && small < PATIENCE {
        let direction = direction(&gradient, &history, first_step);
        let slope = inner(&direction, &gradient);
        if slope > -1e-9 {
            break;
        }
        let mut length = 1.0;
        loop {
            let mut next = point;
            for (x, d) in next.iter_mut().zip(&direction) {
                *x += length * d;
            }
            let found = objective(&next);
            evaluations += 1;
            if let Some((next_value, next_gradient)) = found
                && next_value <= value + 1e-4 * length * slope
            {
                let step: [f64; N] = std::array::from_fn(|i| next[i] - point[i]);
                let change: [f64; N] = std::array::from_fn(|i| next_gradient[i] - gradient[i]);
                let curvature = inner(&step, &change);
                if curvature > 1e-10 {
                    if history.len() == HISTORY {
                        history.remove(0);
                    }
                    history.push((step, change, 1.0 / curvature));
                }
                small = if value - next_value < SMALL { small + 1 } else { 0 };
                (point, value, gradient) = (next, next_value, next_gradient);
                continue 'search;
            }
            length *= 0.4;
            if evaluations >= evaluations_max || length < 1e-3 {
                break 'search;
            }
        }
    }
    Some(Minimum {
        point,
        value,
        evaluations,
    })
}

fn direction<const N: usize>(
    gradient: &[f64; N],
    history: &[([f64; N], [f64; N], f64)],
    first_step: &[f64; N],
) -> [f64; N] {
    let mut d = *gradient;
    let mut weights = Vec::with_capacity(history.len());
    for (step, change, scale) in history.iter().rev() {
        let weight = scale * inner(step, &d);
        for (x, y) in d.iter_mut().zip(change) {
            *x -= weight * y;
        }
        weights.push(weight);
    }
    let trust = history.last().map_or(1.0, |(step, change, _)| {
        let scaled: f64 = change.iter().zip(first_step).map(|(y, h)| y * y * h).sum();
        (inner(step, change) / scaled).clamp(0.1, 10.0)
    });
    for (x, h) in d.iter_mut().zip(first_step) {
        *x *= trust * h;
    }
    for ((step, change, scale), weight) in history.iter().zip(weights.iter().rev()) {
        let correction = weight - scale * inner(change, &d);
        for (x, s) in d.iter_mut().zip(step) {
            *x += s * correction;
        }
    }
    let largest = d.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    let shrink = if largest > STEP_MAX {
        STEP_MAX / largest
    } else {
        1.0
    };
    d.map(|x| -x * shrink)
}

fn inner<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_a_long_curved_valley() {
        let rosenbrock = |x: &[f64; 2]| {
            let a = 1.0 - x[0];
            let b = x[1] - x[0] * x[0];
            let gradient = [-2.0 * a - 400.0 * x[0] * b, 200.0 * b];
            Some((100.0 * (a * a + 100.0 * b * b), gradient.map(|g| 100.0 * g)))
        };
        let found = minimise(rosenbrock, [-1.2, 1.0], &[1e-5, 1e-4], 400).unwrap();
        assert!(found.value < 1.0, "{found:?}");
        assert!(found.evaluations <= 400);
    }

    #[test]
    fn stays_where_the_objective_is_defined() {
        let found = minimise(
            |x: &[f64; 1]| (x[0] < 2.0).then(|| (-x[0], [-1.0])),
            [0.0],
            &[1.0],
            50,
        )
        .unwrap();
        assert!(found.point[0] > 1.0 && found.point[0] < 2.0);
        assert!(minimise(|_: &[f64; 1]| None, [0.0], &[1.0], 50).is_none());
    }
}
