//! The joint Gaussian of set values and prospective labels over one probe pool.

use crate::{
    acquisition::kernel::{inner_product as dot, padded},
    error::{InvalidInput, Result, finite, non_negative},
};

/// What is believed of a task's no-memory reference: how its noise hangs together with the latent vector, and
/// what of it is independent. A reference that nobody has observed hangs together with nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReferenceBelief {
    /// Covariance of the reference noise with the latent vector; empty stands for zero.
    pub row: Vec<f64>,
    /// Variance of the reference noise that the latent vector does not explain.
    pub variance: f64,
}

/// Means and covariances of the values of all probes of a pool, and of the labels that executing them would give.
///
/// In factored form: with a latent x of independent standard normals, the value of probe q is
/// `mean(q) + row(q) . x`, and its label is that value, less the noise of its task's reference, plus noise of its
/// own. Paper: eqs. belief, measurement; the reference is the shared part of eq. baseline_noise.
#[derive(Debug, Clone)]
pub struct PoolBelief {
    dimension: usize,
    means: Vec<f64>,
    /// One row a probe, padded with zeros to a width that vectorises.
    rows: Vec<f64>,
    width: usize,
    noise: Vec<f64>,
    references: Vec<ReferenceBelief>,
}

impl PoolBelief {
    /// An empty belief of the given latent dimension; probes are pushed in the order of their pool.
    pub fn with_capacity(dimension: usize, probes: usize) -> Self {
        // Nothing to learn about is a row of zeros.
        let width = padded(dimension.max(1));
        Self {
            dimension,
            means: Vec::with_capacity(probes),
            rows: Vec::with_capacity(probes * width),
            width,
            noise: Vec::with_capacity(probes),
            references: Vec::new(),
        }
    }

    /// Adds the next probe: mean and row of its set's value, variance of its label's own noise.
    pub fn push(&mut self, mean: f64, row: &[f64], noise_variance: f64) -> Result<()> {
        let probe = self.means.len();
        let at = |problem: InvalidInput| InvalidInput::new(format_args!("belief of probe {probe}"), problem);
        if row.len() != self.dimension {
            return Err(InvalidInput::new(
                format_args!("belief of probe {probe}"),
                format_args!(
                    "a row of {} in a belief of dimension {}",
                    row.len(),
                    self.dimension
                ),
            ));
        }
        let mean = finite("mean", mean).map_err(at)?;
        let noise_variance = non_negative("noise variance", noise_variance).map_err(at)?;
        for &value in row {
            finite("row", value).map_err(at)?;
        }
        self.means.push(mean);
        self.noise.push(noise_variance);
        self.rows.extend_from_slice(row);
        self.rows.resize(self.means.len() * self.width, 0.0);
        Ok(())
    }

    /// Adds the reference of the next task.
    pub fn push_reference(&mut self, mut reference: ReferenceBelief) -> Result<()> {
        let task = self.references.len();
        let at = |problem: InvalidInput| InvalidInput::new(format_args!("reference of task {task}"), problem);
        if !(reference.row.is_empty() || reference.row.len() == self.dimension) {
            return Err(InvalidInput::new(
                format_args!("reference of task {task}"),
                format_args!(
                    "a row of {} in a belief of dimension {}",
                    reference.row.len(),
                    self.dimension
                ),
            ));
        }
        non_negative("variance", reference.variance).map_err(at)?;
        for &value in &reference.row {
            finite("row", value).map_err(at)?;
        }
        reference.row.resize(self.width, 0.0);
        self.references.push(reference);
        Ok(())
    }

    /// Number of probes.
    pub fn len(&self) -> usize {
        self.means.len()
    }

    /// Whether there is no probe.
    pub fn is_empty(&self) -> bool {
        self.means.is_empty()
    }

    /// Length of the latent vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Believed value of a probe's set.
    pub fn value_mean(&self, probe: usize) -> f64 {
        self.means[probe]
    }

    /// Covariance of the values of two probes' sets.
    pub fn value_covariance(&self, first: usize, second: usize) -> f64 {
        dot(self.row(first), self.row(second))
    }

    /// Covariance of a probe's label with the value of another probe's set; `task` is that of the label.
    pub fn label_value_covariance(&self, label: usize, task: usize, value: usize) -> f64 {
        self.value_covariance(label, value) - dot(&self.references[task].row, self.row(value))
    }

    /// Covariance of two probes' labels, each with its task; of one probe twice, the variance of its label.
    pub fn label_covariance(&self, first: (usize, usize), second: (usize, usize)) -> f64 {
        let [(p, p_task), (q, q_task)] = [first, second];
        let (p_reference, q_reference) = (&self.references[p_task], &self.references[q_task]);
        let mut covariance = self.label_value_covariance(p, p_task, q) - dot(&q_reference.row, self.row(p))
            + dot(&p_reference.row, &q_reference.row);
        if p_task == q_task {
            covariance += p_reference.variance;
        }
        if p == q {
            covariance += self.noise[p];
        }
        covariance
    }

    /// The value of a probe's set, less its mean, as a combination of independent standard normals.
    pub fn value_row(&self, probe: usize) -> &[f64] {
        &self.row(probe)[..self.dimension]
    }

    /// Variance of the noise of a probe's label that is its own.
    pub fn label_noise(&self, probe: usize) -> f64 {
        self.noise[probe]
    }

    /// What is believed of a task's reference.
    pub fn reference(&self, task: usize) -> ReferenceBelief {
        let padded = &self.references[task];
        ReferenceBelief {
            row: padded.row[..self.dimension].to_vec(),
            variance: padded.variance,
        }
    }

    pub(crate) fn row(&self, probe: usize) -> &[f64] {
        &self.rows[probe * self.width..(probe + 1) * self.width]
    }

    pub(crate) fn rows(&self) -> &[f64] {
        &self.rows
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn noise(&self) -> &[f64] {
        &self.noise
    }

    pub(crate) fn references(&self) -> &[ReferenceBelief] {
        &self.references
    }
}
