//! The prior covariance of two labels, and its gradient in the hyper-parameters.
//!
//! The utility of task c with set S is
//!
//! ```text
//! base(c) + [S not empty] any + |S| count
//!         + sum over members m of  nearness(c, m) near(c)
//!                                  + gate(c, m) (common(c) + text(c, m) + identity(c, m))
//!         + sum over pairs m < n of gate(c, m) gate(c, n) pair(c, m, n)
//! ```
//!
//! with independent Gaussian processes for the named parts, all of zero mean but `count`: a memory costs a little attention. `gate` opens with the similarity of task
//! and memory, `nearness` with their plain similarity, word for word. Effects have a share that is common to all tasks and a share that fades with the distance of
//! tasks; `text` is shared by memories of similar text. All effects may fade with time (drift).

use super::{
    parameters::{COUNT, Parameter, Parameters, sigmoid},
    row::Row,
};

/// Standard deviation of the utility's overall level, in units of utility: wide, and not learned.
const LEVEL_SD: f64 = 0.3;

/// Least standard deviation of an outcome, in units of utility. Labels that are all equal would make it zero, and the
/// covariance of many of them singular.
const NOISE_SD_MIN: f64 = 1e-3;

/// What one label measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelKind {
    /// The utility of an execution, with or without memories: every execution informs, references too.
    #[default]
    Smoothed,
    /// The uplift over a reference: the paper's labels. Labels of one reference share its noise.
    Paired,
}

/// The covariance function at one point of hyper-parameter space.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    kind: LabelKind,
    /// What each member costs, before any label says otherwise.
    pub(crate) member_cost: f64,
    /// What it costs beside that where all is done without it.
    pub(crate) meddling_cost: f64,
    /// Noise of a label without memories, as a share of `noise`.
    pub(crate) reference_noise: f64,
    pub(crate) level: f64,
    pub(crate) base: f64,
    base_scale: f64,
    pub(crate) task: f64,
    pub(crate) noise: f64,
    reference: f64,
    pub(crate) any: f64,
    pub(crate) count: f64,
    pub(crate) common: f64,
    pub(crate) text: f64,
    pub(crate) identity: f64,
    pub(crate) pair: f64,
    pub(crate) share: f64,
    effect_scale: f64,
    text_scale: f64,
    gate_centre: f64,
    gate_width: f64,
    pub(crate) near: f64,
    near_centre: f64,
    near_width: f64,
    /// Fading per unit of time; `time_unit` is the span of time that the rate refers to.
    drift: f64,
}

/// How alike the tasks and the memories of two rows are: precomputed by whoever calls.
pub(crate) trait Likeness {
    /// Similarity of two tasks.
    fn tasks(&self, a: u32, b: u32) -> f64;
    /// The text kernel of two memories and its derivative in the logarithm of the text scale.
    fn memories(&self, a: u32, b: u32) -> (f64, f64);
    /// [`Kernel::near_base`] of two tasks.
    fn near_base(&self, kernel: &Kernel, a: u32, b: u32) -> f64 {
        kernel.near_base(self.tasks(a, b))
    }
    /// [`Kernel::fade`] of two tasks.
    fn fade(&self, kernel: &Kernel, a: u32, b: u32) -> f64 {
        kernel.fade(self.tasks(a, b))
    }
}

/// How far effects carry from one row to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carry {
    fade: f64,
    remembered: f64,
}

/// Sums over the members that two rows' covariance is made of, with derivatives in the gate's two parameters.
#[derive(Default)]
struct Overlap {
    identity: [f64; 3],
    squares: [f64; 3],
    text: [f64; 3],
    text_scale: f64,
}

impl Kernel {
    /// `unit` is the scale of utilities, `span` the time over which the drift rate is measured. Members cost nothing.
    pub(crate) fn new(kind: LabelKind, parameters: &Parameters, unit: f64, span: f64) -> Self {
        let square = |parameter| parameters.get(parameter).powi(2);
        Self {
            kind,
            member_cost: 0.0,
            meddling_cost: 0.0,
            reference_noise: 1.0,
            level: (LEVEL_SD * unit).powi(2),
            base: square(Parameter::BaseSd),
            base_scale: parameters.get(Parameter::BaseScale),
            task: square(Parameter::TaskSd),
            noise: square(Parameter::NoiseSd).max((NOISE_SD_MIN * unit).powi(2)),
            reference: square(Parameter::ReferenceSd),
            any: square(Parameter::AnySd),
            count: square(Parameter::CountSd),
            common: square(Parameter::CommonSd),
            text: square(Parameter::TextSd),
            identity: square(Parameter::IdentitySd),
            pair: square(Parameter::PairSd),
            share: parameters.get(Parameter::Share),
            effect_scale: parameters.get(Parameter::EffectScale),
            text_scale: parameters.get(Parameter::TextScale),
            gate_centre: parameters.get(Parameter::GateCentre),
            gate_width: parameters.get(Parameter::GateWidth),
            near: square(Parameter::NearSd),
            near_centre: parameters.get(Parameter::NearCentre),
            near_width: parameters.get(Parameter::NearWidth),
            drift: parameters.get(Parameter::DriftRate) / span.max(f64::MIN_POSITIVE),
        }
    }

    /// Variance of a label around the value of its row.
    pub(crate) fn noise_of(&self, row: &Row) -> f64 {
        if row.members.is_empty() {
            self.noise * self.reference_noise
        } else {
            self.noise
        }
    }

    /// How far the gate is open at a standardised relevance, and its derivatives in centre and log width.
    pub(crate) fn gate(&self, relevance: f64) -> [f64; 3] {
        gate(relevance, self.gate_centre, self.gate_width)
    }

    /// How far a memory of this plain similarity counts as very similar, and derivatives in centre and log width.
    pub(crate) fn nearness(&self, similarity: f64) -> [f64; 3] {
        gate(similarity, self.near_centre, self.near_width)
    }

    /// The part of base and task that two tasks share.
    pub(crate) fn base_covariance(&self, similarity: f64, same: bool) -> f64 {
        self.shared_base(self.near_base(similarity), same)
    }

    fn shared_base(&self, near: f64, same: bool) -> f64 {
        self.level + near + if same { self.task } else { 0.0 }
    }

    /// The part of base that two tasks share by their texts.
    pub(crate) fn near_base(&self, similarity: f64) -> f64 {
        self.base * ((similarity - 1.0) / self.base_scale).exp()
    }

    /// How far effects carry from one task to another by the tasks' texts alone.
    pub(crate) fn fade(&self, similarity: f64) -> f64 {
        ((similarity - 1.0) / self.effect_scale).exp()
    }

    /// How far effects carry over time.
    pub(crate) fn memory_of(&self, a: f64, b: f64) -> f64 {
        (-(a - b).abs() * self.drift).exp()
    }

    /// The text kernel of two memories, and its derivative in the logarithm of its scale.
    pub(crate) fn text_covariance(&self, similarity: f64) -> (f64, f64) {
        let distance = (1.0 - similarity) / self.text_scale;
        let value = (-distance).exp();
        (value, value * distance)
    }

    /// Prior covariance of the values of two rows, without the noise of their own executions.
    pub(crate) fn covariance(&self, like: &impl Likeness, x: &Row, y: &Row) -> f64 {
        self.value_and_gradient::<false>(like, x, y, 0.0, &mut [0.0; COUNT])
    }

    /// Prior covariance of two rows' uplifts, without base, task and reference: the effect of the sets alone.
    pub(crate) fn effect_covariance(&self, like: &impl Likeness, x: &Row, y: &Row) -> f64 {
        if x.members.is_empty() || y.members.is_empty() {
            return 0.0;
        }
        self.carried_effect(like, x, y, self.carry(like, x, y))
    }

    /// How far effects carry from one row to another: over tasks, and over time. The same for all sets of one task.
    pub(crate) fn carry(&self, like: &impl Likeness, x: &Row, y: &Row) -> Carry {
        Carry {
            fade: like.fade(self, x.task, y.task),
            remembered: self.memory_of(x.time, y.time),
        }
    }

    /// [`Self::effect_covariance`] of two rows with members that carry so far.
    pub(crate) fn carried_effect(&self, like: &impl Likeness, x: &Row, y: &Row, carry: Carry) -> f64 {
        let overlap = self.overlap::<false>(like, x, y);
        self.effect(x, y, &overlap, carry.fade) * carry.remembered
    }

    /// Adds `weight` times the gradient of the covariance to `gradient`.
    pub(crate) fn add_gradient(
        &self,
        like: &impl Likeness,
        x: &Row,
        y: &Row,
        weight: f64,
        gradient: &mut [f64; COUNT],
    ) {
        self.value_and_gradient::<true>(like, x, y, weight, gradient);
    }

    fn overlap<const GRADIENT: bool>(&self, like: &impl Likeness, x: &Row, y: &Row) -> Overlap {
        let mut sums = Overlap::default();
        for m in &x.members {
            for n in &y.members {
                let both = m.gate[0] * n.gate[0];
                let (text, text_slope) = like.memories(m.memory, n.memory);
                sums.text[0] += both * text;
                let same = m.memory == n.memory;
                if same {
                    sums.identity[0] += both;
                    sums.squares[0] += both * both;
                }
                if GRADIENT {
                    sums.text_scale += both * text_slope;
                    for at in 1..3 {
                        let slope = m.gate[at] * n.gate[0] + m.gate[0] * n.gate[at];
                        sums.text[at] += slope * text;
                        if same {
                            sums.identity[at] += slope;
                            sums.squares[at] += 2.0 * both * slope;
                        }
                    }
                }
            }
        }
        sums
    }

    /// Distinct pairs that both rows contain.
    fn pairs(overlap: &Overlap) -> f64 {
        0.5 * (overlap.identity[0] * overlap.identity[0] - overlap.squares[0])
    }

    fn effect(&self, x: &Row, y: &Row, overlap: &Overlap, fade: f64) -> f64 {
        let own = self.text * overlap.text[0]
            + self.identity * overlap.identity[0]
            + self.pair * Self::pairs(overlap);
        self.any
            + self.count * x.size() * y.size()
            + self.common * x.open[0] * y.open[0] * fade
            + (own + self.near * x.near[0] * y.near[0]) * (self.share + (1.0 - self.share) * fade)
    }

    fn value_and_gradient<const GRADIENT: bool>(
        &self,
        like: &impl Likeness,
        x: &Row,
        y: &Row,
        weight: f64,
        gradient: &mut [f64; COUNT],
    ) -> f64 {
        let similarity = like.tasks(x.task, y.task);
        let mut add = |parameter: Parameter, slope: f64| gradient[parameter as usize] += weight * slope;
        let mut value = match self.kind {
            LabelKind::Smoothed => {
                let near = like.near_base(self, x.task, y.task);
                if GRADIENT {
                    add(Parameter::BaseSd, 2.0 * near);
                    add(Parameter::BaseScale, near * (1.0 - similarity) / self.base_scale);
                    if x.task == y.task {
                        add(Parameter::TaskSd, 2.0 * self.task);
                    }
                }
                self.shared_base(near, x.task == y.task)
            }
            LabelKind::Paired => {
                if x.reference.is_some() && x.reference == y.reference {
                    if GRADIENT {
                        add(Parameter::ReferenceSd, 2.0 * self.reference);
                    }
                    self.reference
                } else {
                    0.0
                }
            }
        };
        if x.members.is_empty() || y.members.is_empty() {
            return value;
        }
        let fade = like.fade(self, x.task, y.task);
        let overlap = self.overlap::<GRADIENT>(like, x, y);
        let remembered = self.memory_of(x.time, y.time);
        let effect = self.effect(x, y, &overlap, fade);
        value += effect * remembered;
        if GRADIENT {
            let mut add = |parameter: Parameter, slope: f64| {
                gradient[parameter as usize] += weight * remembered * slope;
            };
            let pairs = Self::pairs(&overlap);
            let mix = self.share + (1.0 - self.share) * fade;
            let near = self.near * x.near[0] * y.near[0];
            let own =
                self.text * overlap.text[0] + self.identity * overlap.identity[0] + self.pair * pairs + near;
            let common = self.common * x.open[0] * y.open[0];
            let fade_slope = fade * (1.0 - similarity) / self.effect_scale;
            add(Parameter::AnySd, 2.0 * self.any);
            add(Parameter::CountSd, 2.0 * self.count * x.size() * y.size());
            add(Parameter::CommonSd, 2.0 * common * fade);
            add(Parameter::TextSd, 2.0 * self.text * overlap.text[0] * mix);
            add(
                Parameter::IdentitySd,
                2.0 * self.identity * overlap.identity[0] * mix,
            );
            add(Parameter::PairSd, 2.0 * self.pair * pairs * mix);
            add(
                Parameter::Share,
                own * (1.0 - fade) * self.share * (1.0 - self.share),
            );
            add(
                Parameter::EffectScale,
                (own * (1.0 - self.share) + common) * fade_slope,
            );
            add(Parameter::TextScale, self.text * overlap.text_scale * mix);
            for (at, parameter) in [(1, Parameter::GateCentre), (2, Parameter::GateWidth)] {
                let own = self.text * overlap.text[at]
                    + self.identity * overlap.identity[at]
                    + self.pair * (overlap.identity[0] * overlap.identity[at] - 0.5 * overlap.squares[at]);
                let open = x.open[at] * y.open[0] + x.open[0] * y.open[at];
                add(parameter, own * mix + self.common * open * fade);
            }
            add(Parameter::NearSd, 2.0 * near * mix);
            for (at, parameter) in [(1, Parameter::NearCentre), (2, Parameter::NearWidth)] {
                let slope = x.near[at] * y.near[0] + x.near[0] * y.near[at];
                add(parameter, self.near * slope * mix);
            }
            add(
                Parameter::DriftRate,
                -effect * (x.time - y.time).abs() * self.drift,
            );
        }
        value
    }
}

/// A logistic step, and its derivatives in centre and log width.
fn gate(value: f64, centre: f64, width: f64) -> [f64; 3] {
    let x = (value - centre) / width;
    let open = sigmoid(x);
    let slope = open * (1.0 - open);
    [open, -slope / width, -slope * x]
}
