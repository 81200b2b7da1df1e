//! How the engine retrieves, executes, acquires and trains. Each section is a section of the configuration file.

use serde::{Deserialize, Serialize};
use upliftmem_core::{
    AcquisitionSettings, Evaluation, InvalidInput, Limits, Neighbourhood, PathPolicy, ProbeStrategy, Result,
    UpdateRule, UtilityRule,
};
use upliftmem_store::RecallMode;

/// How sets are searched for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrievalSettings {
    /// Memories that are recalled as candidates.
    pub candidates: usize,
    /// How they are recalled.
    pub recall: RecallMode,
    /// Most members of a set. Paper: K.
    pub memories_max: usize,
    /// Most tokens of a set; 0 leaves the count as the only limit.
    pub tokens_max: u64,
    /// Width of the beam. Paper: W.
    pub beam_width: usize,
    /// Runners-up that a trace shows at each step.
    pub runners_up: usize,
    /// Temperature of path sampling while training. Paper: tau_tr.
    pub sampling_temperature: f64,
    /// Share of the logarithm of the number of additions that is added to the logit of stopping; 0 is the paper.
    pub stop_prior: f64,
    /// How far sampling while training follows a value function drawn from the belief instead of the expected one, so that
    /// what might help gets tried: 0 follows the expectation, as the paper does, 1 the draw.
    pub exploration: f64,
    /// Most members of a set that is sampled while training; 0 is `memories_max`. Small sets tell which member it was.
    pub sampled_memories_max: usize,
}

impl Default for RetrievalSettings {
    fn default() -> Self {
        Self {
            candidates: 50,
            recall: RecallMode::Hybrid,
            memories_max: 5,
            tokens_max: 0,
            beam_width: 2,
            runners_up: 3,
            sampling_temperature: 0.05,
            stop_prior: 0.5,
            exploration: 0.7,
            sampled_memories_max: 2,
        }
    }
}

impl RetrievalSettings {
    /// The limits of a set.
    pub fn limits(&self) -> Limits {
        Limits {
            memories_max: self.memories_max,
            tokens_max: (self.tokens_max > 0).then_some(self.tokens_max),
        }
    }

    /// The limits of a set that is sampled while training.
    pub fn sampling_limits(&self) -> Limits {
        let limits = self.limits();
        match self.sampled_memories_max {
            0 => limits,
            most => Limits {
                memories_max: most.min(limits.memories_max),
                ..limits
            },
        }
    }

    /// How paths are sampled.
    pub fn policy(&self) -> Result<PathPolicy> {
        if !(0.0..=1.0).contains(&self.exploration) {
            return Err(InvalidInput::new(
                "retrieval.exploration",
                format_args!("{} is not between 0 and 1", self.exploration),
            ));
        }
        PathPolicy::new(self.sampling_temperature, self.stop_prior)
    }
}

/// What an execution is worth. Paper: eq. task_utility.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UtilitySettings {
    /// Most that saving cost can add to a full performance. Paper: gamma.
    pub efficiency_weight: f64,
    /// Performance from which saving counts. Paper: rho.
    pub performance_threshold: f64,
    /// Cost at which nothing is saved; an execution that costs more is refused. Paper: C_max.
    pub cost_max: f64,
}

impl Default for UtilitySettings {
    fn default() -> Self {
        Self {
            efficiency_weight: 0.2,
            performance_threshold: 1.0,
            cost_max: 30.0,
        }
    }
}

impl UtilitySettings {
    /// The rule that these settings mean.
    pub fn rule(&self) -> Result<UtilityRule> {
        UtilityRule::new(self.efficiency_weight, self.performance_threshold, self.cost_max)
    }
}

/// How executions are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionSettings {
    /// Executions in flight at once; 0 leaves them all to workers.
    pub concurrency: usize,
    /// Further attempts after a failed one.
    pub retries: u32,
    /// Seconds after which an execution that says nothing is handed to someone else.
    pub lease_seconds: u64,
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self {
            concurrency: 8,
            retries: 2,
            lease_seconds: 900,
        }
    }
}

/// How probes are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// By expected value of sample information. The paper's.
    Evsi,
    /// Uniformly.
    Random,
    /// By the standard deviation of the set's value.
    McStd,
    /// By the information about the latent vector.
    Eig,
    /// A value function is drawn from the belief, and its best set of a task is executed.
    Thompson,
    /// The same budget on more ordinary retrievals.
    Ordinary,
    /// No probes at all.
    None,
}

impl Strategy {
    /// Every strategy that spends a budget.
    pub const ALL: [Self; 6] = [
        Self::Evsi,
        Self::Random,
        Self::McStd,
        Self::Eig,
        Self::Thompson,
        Self::Ordinary,
    ];

    /// The name that commands and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evsi => "evsi",
            Self::Random => "random",
            Self::McStd => "mc-std",
            Self::Eig => "eig",
            Self::Thompson => "thompson",
            Self::Ordinary => "ordinary",
            Self::None => "none",
        }
    }

    /// The selection rule of the core that serves it, if one does.
    pub(crate) const fn selection(self) -> Option<ProbeStrategy> {
        match self {
            Self::Evsi => Some(ProbeStrategy::Evsi),
            Self::Random => Some(ProbeStrategy::Random),
            Self::McStd => Some(ProbeStrategy::McStd),
            Self::Eig => Some(ProbeStrategy::Eig),
            Self::Thompson => Some(ProbeStrategy::Thompson),
            Self::Ordinary | Self::None => None,
        }
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl std::str::FromStr for Strategy {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .chain([Self::None])
            .find(|strategy| strategy.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                InvalidInput::new(
                    "strategy",
                    format_args!("{text:?} is not one of {names} and none"),
                )
            })
    }
}

/// Around which set a window's decisions are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Incumbent {
    /// What retrieval would return now.
    Current,
    /// What was sampled when the task was executed. The paper's.
    Sampled,
}

/// How a batch of probes is bought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProbeSettings {
    /// How probes are chosen.
    pub strategy: Strategy,
    /// Most probes of a batch. Paper: B_p.
    pub probe_budget: usize,
    /// Tasks between two batches. Paper: h.
    pub acquisition_interval: u64,
    /// Temperature of the choice in units of the largest score; 0 is greedy. Paper: tau_evsi.
    pub acquisition_temperature: f64,
    /// Around which set decisions are looked at.
    pub incumbent: Incumbent,
    /// Around the sets on the way to it as well, if the sampled set is the incumbent.
    pub neighbourhood: Neighbourhood,
    /// Challengers of each task that are considered, the most promising first; 0 considers all, as the paper does.
    pub challengers_max: usize,
    /// Dimensions of the belief over a window.
    pub belief_dimension: usize,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self {
            strategy: Strategy::Evsi,
            probe_budget: 100,
            acquisition_interval: 100,
            acquisition_temperature: 0.1,
            incumbent: Incumbent::Current,
            neighbourhood: Neighbourhood::Incumbent,
            challengers_max: 12,
            belief_dimension: 256,
        }
    }
}

impl ProbeSettings {
    /// The core's settings for a batch of at most `budget`.
    pub(crate) fn selection(&self, strategy: ProbeStrategy, budget: usize) -> AcquisitionSettings {
        AcquisitionSettings {
            strategy,
            probe_budget: budget,
            acquisition_temperature: self.acquisition_temperature,
            evaluation: Evaluation::Auto,
            explained: 3,
        }
    }
}

/// How a run goes. Paper: Algorithm 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingSettings {
    /// Randomness of the whole run.
    pub seed: u64,
    /// Times the stream is gone through; 0 stops after warm-up.
    pub epochs: u64,
    /// Random sets that are executed for each seed task before anything is learned.
    pub bootstrap_sets: usize,
    /// Most members of such a set.
    pub bootstrap_members_max: usize,
    /// When the scorer learns.
    pub updates: UpdateRule,
    /// Tasks of the stream that are executed together; what they write becomes visible after the last of them.
    pub batch: usize,
    /// Executions after which a run stops, evaluation not counted; 0 is no limit.
    pub max_executions: u64,
    /// Cost after which a run stops; 0 is no limit.
    pub max_cost: f64,
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 1,
            bootstrap_sets: 1,
            bootstrap_members_max: 3,
            updates: UpdateRule::Every(50),
            batch: 50,
            max_executions: 0,
            max_cost: 0.0,
        }
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSettings {
    /// How sets are searched for.
    pub retrieval: RetrievalSettings,
    /// What an execution is worth.
    pub utility: UtilitySettings,
    /// How executions are run.
    pub execution: ExecutionSettings,
    /// How probes are bought.
    pub acquisition: ProbeSettings,
    /// How a run goes.
    pub training: TrainingSettings,
}

impl EngineSettings {
    /// Every choice as in the paper, where it names one.
    pub fn paper() -> Self {
        Self {
            retrieval: RetrievalSettings {
                stop_prior: 0.0,
                exploration: 0.0,
                sampled_memories_max: 0,
                ..RetrievalSettings::default()
            },
            acquisition: ProbeSettings {
                probe_budget: 300,
                acquisition_interval: 400,
                incumbent: Incumbent::Sampled,
                neighbourhood: Neighbourhood::Prefixes,
                challengers_max: 0,
                ..ProbeSettings::default()
            },
            training: TrainingSettings {
                epochs: 3,
                updates: UpdateRule::AfterAcquisition,
                ..TrainingSettings::default()
            },
            ..Self::default()
        }
    }
}
