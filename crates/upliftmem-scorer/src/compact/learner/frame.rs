//! The labels' own level, scale and span.

use super::{
    super::{
        kernel::{Kernel, LabelKind},
        parameters::Parameters,
    },
    label::Stored,
    settings::CompactSettings,
};

/// What is taken from the labels as they are, before any modelling.
pub(super) struct Frame {
    kind: LabelKind,
    /// Utility around which everything varies: the mean of the references, or of all labels.
    pub(super) level: f64,
    /// Scale of utilities, in units of those in [0, 1].
    pub(super) unit: f64,
    /// What a memory is expected to cost, anywhere and where all is done without it.
    member_cost: f64,
    meddling_cost: f64,
    /// Noise of a label without memories, as a share of that of the others.
    reference_noise: f64,
    /// The best utility there is to reach.
    pub(super) ceiling: Option<f64>,
    /// Time that the labels span.
    span: f64,
}

impl Frame {
    pub(super) fn of(settings: &CompactSettings, labels: &[Stored]) -> Self {
        let kind = settings.labels;
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        let level = match kind {
            LabelKind::Paired => 0.0,
            LabelKind::Smoothed => {
                let mut references = labels
                    .iter()
                    .filter(|label| label.memories.is_empty())
                    .map(|label| label.value);
                mean(&mut references)
                    .or_else(|| mean(&mut labels.iter().map(|label| label.value)))
                    .unwrap_or(0.0)
            }
        };
        let average = mean(&mut labels.iter().map(|label| label.value)).unwrap_or(0.0);
        let spread = mean(&mut labels.iter().map(|label| (label.value - average).powi(2)))
            .unwrap_or(0.0)
            .sqrt();
        let largest = labels
            .iter()
            .map(|label| label.value)
            .fold(f64::NEG_INFINITY, f64::max);
        let smallest = labels
            .iter()
            .map(|label| label.value)
            .fold(f64::INFINITY, f64::min);
        let near_best = largest - NEAR_BEST * (largest - smallest);
        let mut best = labels
            .iter()
            .map(|label| label.value)
            .filter(|&value| value >= near_best);
        let ceiling = (settings.headroom && kind == LabelKind::Smoothed && largest > smallest)
            .then(|| mean(&mut best))
            .flatten();
        let times = labels.iter().map(|label| label.time);
        let (first, last) = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), time| {
            (first.min(time), last.max(time))
        });
        let unit = if spread > 0.0 {
            spread / TYPICAL_SPREAD
        } else {
            1.0
        };
        Self {
            kind,
            level,
            unit,
            member_cost: settings.member_cost * unit,
            meddling_cost: settings.meddling_cost * unit,
            reference_noise: settings.reference_noise,
            ceiling,
            span: if last > first { last - first } else { 1.0 },
        }
    }

    pub(super) fn kernel(&self, parameters: &Parameters) -> Kernel {
        let mut kernel = Kernel::new(self.kind, parameters, self.unit, self.span);
        kernel.member_cost = self.member_cost;
        kernel.meddling_cost = self.meddling_cost;
        kernel.reference_noise = self.reference_noise;
        kernel
    }
}

/// Utilities within this share of the range below the largest count as the best there is.
const NEAR_BEST: f64 = 0.1;
/// Standard deviation of utilities in [0, 1], for which the priors are written.
const TYPICAL_SPREAD: f64 = 0.45;
