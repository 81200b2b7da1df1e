//! One scope that is served: its scorer, kept in step with its labels.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use serde_json::{Map, json};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use upliftmem_core::{
    Cost, InvalidInput, MemoryId, Outcome, Performance, RolloutId, TaskId, TrajectoryStep, Utility,
};
use upliftmem_scorer::embedder::Embedder;
use upliftmem_store::{ExecutionReport, Lease, Scope, Store, Timestamp};

use super::{
    LiveSettings,
    labels::LabelLog,
    versions::{self, ActiveVersion, PublishedVersion},
};
use crate::{
    error::{Error, Result},
    learning::{Learning, Lesson},
    online::{Learnt, OutcomeReport, Outcomes},
    retrieve::Retriever,
    scorers::AdapterLog,
    scoring::BelievingScorer,
    serving::learning_texts,
    state::{Labelled, Learned},
    texts::Texts,
};

/// What requests see: one published version, swapped as a whole.
#[derive(Clone)]
struct Serving {
    scorer: Arc<dyn BelievingScorer>,
    active: ActiveVersion,
}

/// What learns, one at a time.
struct Learner {
    log: LabelLog,
    adapters: AdapterLog,
    /// The adapter of the language model, if there is one.
    adapter: Option<PathBuf>,
    /// Taken out while it is at work.
    learning: Option<Learning>,
    learned: Learned,
    /// The name under which its versions are recorded.
    name: String,
    /// How often a version was chosen by hand, and the last choice.
    choice: (u64, Option<u64>),
    /// Labels of the last version that could not be made; it is tried again with the next choice of hyper-parameters.
    failed: Option<usize>,
    /// The last version that came out differently here than where it was first made.
    differs: Option<usize>,
}

/// A scope that is served.
pub struct LiveScope {
    pub(super) store: Arc<dyn Store>,
    pub(super) scope: Scope,
    pub(super) texts: Arc<Texts>,
    pub(super) settings: Arc<LiveSettings>,
    pub(super) brought: super::candidates::BroughtBefore,
    /// Planning a batch twice at once would buy it twice.
    pub(super) planning: AsyncMutex<()>,
    serving: RwLock<Option<Serving>>,
    learner: AsyncMutex<Learner>,
    fits: Arc<Semaphore>,
    /// Whether someone is on the way to learn what is new.
    catching_up: AtomicBool,
    looked: Mutex<Instant>,
    /// Why an older version answers than the labels would make, if one does.
    behind: Mutex<Option<String>>,
    refits: AtomicU64,
}

/// What an execution was, when it is reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// How well it did.
    pub performance: Performance,
    /// What it cost.
    pub cost: Cost,
    /// What happened, step by step.
    pub trajectory: Vec<TrajectoryStep>,
    /// Anything else worth keeping.
    pub diagnostics: Map<String, serde_json::Value>,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// What the execution was worth.
    pub utility: Utility,
    /// What it taught.
    pub learnt: Learnt,
}

impl LiveScope {
    pub(super) fn new(
        store: Arc<dyn Store>,
        scope: Scope,
        embedder: Arc<dyn Embedder>,
        settings: Arc<LiveSettings>,
        fits: Arc<Semaphore>,
    ) -> Result<Self> {
        let texts = Arc::new(Texts::new(Arc::clone(&store), scope.clone(), embedder));
        Ok(Self {
            learner: AsyncMutex::new(Learner {
                log: LabelLog::default(),
                adapters: AdapterLog::default(),
                adapter: None,
                learning: None,
                learned: Learned::default(),
                name: settings.scorer.version_name(None),
                choice: (0, None),
                failed: None,
                differs: None,
            }),
            store,
            scope,
            texts,
            settings,
            brought: super::candidates::BroughtBefore::default(),
            planning: AsyncMutex::new(()),
            serving: RwLock::new(None),
            fits,
            catching_up: AtomicBool::new(false),
            looked: Mutex::new(Instant::now()),
            behind: Mutex::new(None),
            refits: AtomicU64::new(0),
        })
    }

    /// Its name.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Where its texts get their vectors.
    pub fn texts(&self) -> &Arc<Texts> {
        &self.texts
    }

    /// The version that answers.
    pub fn active(&self) -> ActiveVersion {
        let none = ActiveVersion {
            version: 0,
            labels: 0,
            pinned: false,
        };
        self.serving().map_or(none, |serving| serving.active)
    }

    /// How often the scorer learned since the scope is in memory.
    pub fn refits(&self) -> u64 {
        self.refits.load(Ordering::Relaxed)
    }

    /// Whether it is learning now.
    pub fn learning(&self) -> bool {
        self.catching_up.load(Ordering::Acquire)
    }

    /// Why an older version answers than was announced, if one does.
    pub fn behind(&self) -> Option<String> {
        let behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        behind.clone()
    }

    fn set_behind(&self, reason: Option<String>) {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        *behind = reason;
    }

    fn serving(&self) -> Option<Serving> {
        let serving = self.serving.read().unwrap_or_else(PoisonError::into_inner);
        serving.clone()
    }

    /// The scorer that answers now.
    pub(super) fn scorer(&self) -> Result<Arc<dyn BelievingScorer>> {
        let serving = self.serving();
        let scorer = serving.map(|serving| serving.scorer);
        scorer.ok_or_else(|| Error::Internal(format!("scope {} was asked before it was ready", self.scope)))
    }

    /// Waits for the first scorer; later only looks, now and then and in the background, for labels of others.
    pub(super) async fn ready(self: &Arc<Self>) -> Result<()> {
        if self.serving().is_none() {
            self.catch_up().await?;
        }
        let due = {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            let due = looked.elapsed() >= self.settings.look_after;
            if due {
                *looked = Instant::now();
            }
            due
        };
        if due {
            self.learn_soon();
        }
        Ok(())
    }

    /// Answers requests with the scorer as it is now.
    pub fn retriever(&self) -> Result<Retriever> {
        Ok(Retriever {
            store: Arc::clone(&self.store),
            scope: self.scope.clone(),
            texts: Arc::clone(&self.texts),
            settings: self.settings.retrieval.clone(),
            scorer: self.scorer()?,
        })
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        Outcomes {
            store: Arc::clone(&self.store),
            scope: self.scope.clone(),
            utility: self.settings.utility,
            agent: self.settings.agent.clone(),
            references: self.settings.references,
            attempts_max: self.settings.attempts_max,
        }
    }

    /// Takes the outcome of a retrieval; learning from it happens in the background.
    pub async fn take_outcome(self: &Arc<Self>, report: OutcomeReport) -> Result<Taken> {
        let utility = self.settings.utility.utility(report.performance, report.cost)?;
        let learnt = self.outcomes().take(report).await?;
        self.learn_soon();
        Ok(Taken { utility, learnt })
    }

    /// Takes the outcome of an execution that was handed out. Without an attempt, that of whoever holds it.
    pub async fn take_rollout(
        self: &Arc<Self>,
        rollout: RolloutId,
        attempt: Option<u32>,
        reported: Reported,
    ) -> Result<Taken> {
        let utility = self
            .settings
            .utility
            .utility(reported.performance, reported.cost)?;
        let Some(ticket) = self.store.ticket(&self.scope, rollout).await? else {
            return Err(upliftmem_store::Error::NotFound {
                kind: "rollout",
                id: rollout.to_string(),
                scope: self.scope.to_string(),
            }
            .into());
        };
        let lease = Lease {
            rollout,
            attempt: attempt.unwrap_or(ticket.attempts),
        };
        let outcome = Outcome {
            rollout,
            performance: reported.performance,
            cost: reported.cost,
        };
        let report = ExecutionReport {
            outcome,
            trajectory: reported.trajectory,
            diagnostics: reported.diagnostics,
        };
        self.store
            .complete(&self.scope, Timestamp::now(), lease, report)
            .await?;
        let learnt = self.outcomes().learn(ticket.rollout, outcome).await?;
        self.learn_soon();
        Ok(Taken { utility, learnt })
    }

    /// Asks for an execution of a task without memory; says whether it was not asked for before.
    pub async fn request_reference(&self, task: TaskId) -> Result<bool> {
        self.outcomes().request_reference(task).await
    }

    /// Forgets a memory that was removed.
    pub fn forget(&self, memory: MemoryId) {
        self.texts.forget(memory);
        self.brought.forget(memory);
    }

    /// A page of versions that were served, in the order in which they first were.
    pub async fn versions(&self, after: u64, rows: usize) -> Result<Vec<PublishedVersion>> {
        versions::list(self.store.as_ref(), &self.scope, after, rows).await
    }

    /// Answers with this version from now on; `None` follows the labels again. Waits until it does.
    pub async fn activate(self: &Arc<Self>, version: Option<u64>) -> Result<ActiveVersion> {
        let name = self.learner.lock().await.name.clone();
        versions::choose(self.store.as_ref(), &self.scope, &name, version).await?;
        let active = self.catch_up().await?;
        match version {
            Some(version) if version != active.version => Err(InvalidInput::new(
                format_args!("scorer version {version}"),
                format_args!("it can not be made any more; version {} answers", active.version),
            )
            .into()),
            _ => Ok(active),
        }
    }

    /// Learns what is new soon, in the background. Asked often, it is done once.
    pub fn learn_soon(self: &Arc<Self>) {
        if self.catching_up.swap(true, Ordering::AcqRel) {
            return;
        }
        let scope = Arc::clone(self);
        tokio::spawn(async move {
            // What is written from here on is noticed by whoever asks next.
            scope.catching_up.store(false, Ordering::Release);
            if let Err(error) = scope.catch_up().await {
                tracing::warn!(scope = %scope.scope, %error, "the scorer did not learn; it will try again");
                scope.set_behind(Some("a new version could not be made".into()));
            }
        });
    }

    /// Learns all there is, and answers with it.
    pub async fn catch_up(&self) -> Result<ActiveVersion> {
        let mut learner = self.learner.lock().await;
        let store = self.store.as_ref();
        learner.log.read(store, &self.scope).await?;
        learner.choice = versions::choices(store, &self.scope, learner.choice).await?;
        let labels = learner.log.labels(self.settings.labels_of.as_deref()).to_vec();
        let pinned = learner.choice.1;
        let wanted = pinned.map_or(labels.len(), |version| {
            usize::try_from(version).unwrap_or(usize::MAX)
        });
        let wanted = wanted.min(labels.len());
        let active = ActiveVersion {
            version: wanted as u64,
            labels: labels.len() as u64,
            pinned: pinned.is_some(),
        };
        let growth = self.settings.scorer.refit_growth();
        let swapped = self.take_adapter(&mut learner).await?;
        if let Some(serving) = self.serving()
            && !swapped
        {
            let same_fit =
                |failed| versions::fitted_at(wanted, growth) == versions::fitted_at(failed, growth);
            let hopeless = learner.failed.is_some_and(same_fit) || learner.differs == Some(wanted);
            if serving.active.version == active.version {
                self.set_behind(None);
            }
            if serving.active.version == active.version || hopeless {
                let active = ActiveVersion {
                    version: serving.active.version,
                    ..active
                };
                self.serve(serving.scorer, active);
                return Ok(active);
            }
        }
        // Labels that the scorer can not digest must not keep a scope from being served: fewer labels are tried, down
        // to none, unless an earlier version answers already.
        let mut target = wanted;
        loop {
            let error = match self.fit(&mut learner, &labels[..target]).await {
                Ok((scorer, same)) => {
                    let active = ActiveVersion {
                        version: target as u64,
                        ..active
                    };
                    if target == wanted {
                        learner.failed = None;
                    }
                    learner.differs = (!same).then_some(target);
                    self.set_behind((!same).then(|| {
                        format!("version {target} came out differently here than where it was first made")
                    }));
                    // A version that is not what was announced does not take the place of one that is.
                    if let Some(serving) = self.serving()
                        && !same
                    {
                        tracing::warn!(scope = %self.scope, version = target, "a version differs; the one before stays");
                        return Ok(serving.active);
                    }
                    self.serve(scorer, active);
                    return Ok(active);
                }
                Err(Error::Scorer(error)) if target > 0 => error,
                Err(error) => return Err(error),
            };
            tracing::warn!(scope = %self.scope, labels = target, %error, "no scorer could be made of these labels");
            learner.failed = Some(wanted);
            self.set_behind(Some(format!("no scorer could be made of {wanted} labels")));
            if let Some(serving) = self.serving() {
                return Ok(serving.active);
            }
            let fitted = versions::fitted_at(target, growth);
            target = if fitted < target { fitted } else { target / 2 };
        }
    }

    /// Takes over the adapter that training wrote last; says whether it is another than before. Requests under way keep
    /// theirs, and the base is not read again.
    async fn take_adapter(&self, learner: &mut Learner) -> Result<bool> {
        let Some(lm) = self.settings.scorer.lm() else {
            return Ok(false);
        };
        let newest = learner
            .adapters
            .current(lm, self.store.as_ref(), &self.scope)
            .await?;
        if newest == learner.adapter {
            return Ok(false);
        }
        tracing::info!(scope = %self.scope, adapter = ?newest, "another adapter answers from now on");
        learner.adapter = newest;
        learner.learning = None;
        learner.learned = Learned::default();
        learner.failed = None;
        learner.differs = None;
        Ok(true)
    }

    /// Makes the scorer of these labels, and records it; says whether it is the one that others made of them.
    async fn fit(
        &self,
        learner: &mut Learner,
        labels: &[Labelled],
    ) -> Result<(Arc<dyn BelievingScorer>, bool)> {
        let labels = labels.to_vec();
        let count = labels.len();
        let texts = Arc::new(learning_texts(&self.store, &self.scope, &self.texts, &labels).await?);
        // A learner that fails half way is not used again.
        let before = std::mem::take(&mut learner.learned);
        let mut learning = match learner.learning.take() {
            Some(learning) => learning,
            None => Learning::serving(&self.settings.scorer, learner.adapter.as_ref())?,
        };
        let learned = Learned {
            version: count as u64,
            labels: count,
            fitted: versions::fitted_at(count, self.settings.scorer.refit_growth()),
        };
        let permit = self.fits.acquire().await;
        let began = Instant::now();
        let work = tokio::task::spawn_blocking(move || {
            let report = if count >= before.labels && before.labels > 0 && before.fitted == learned.fitted {
                let lesson = Lesson {
                    labels: &labels,
                    paths: &[],
                    texts: &texts,
                };
                learning.update(&lesson, &|_| {})?.1
            } else {
                learning.restore(&labels, learned, &texts)?;
                Map::new()
            };
            let scorer = learning.publish_by_labels()?;
            let digest = learning.digest(&labels);
            Ok::<_, Error>((learning, scorer, digest, report))
        });
        let done = work.await;
        drop(permit);
        let (learning, scorer, digest, mut metrics) =
            done.map_err(|error| Error::Internal(format!("learning stopped: {error}")))??;
        learner.name = learning.version_name();
        learner.learning = Some(learning);
        learner.learned = learned;
        self.refits.fetch_add(1, Ordering::Relaxed);
        tracing::info!(
            scope = %self.scope,
            version = count,
            milliseconds = began.elapsed().as_millis() as u64,
            "a scorer was made"
        );
        let mut same = true;
        if count > 0 {
            metrics.insert("labels".into(), json!(count));
            metrics.insert("fitted".into(), json!(learned.fitted));
            let store = self.store.as_ref();
            let name = (learner.name.as_str(), learned.version);
            same = versions::record(store, &self.scope, name, digest, metrics).await?;
        }
        Ok((scorer, same))
    }

    fn serve(&self, scorer: Arc<dyn BelievingScorer>, active: ActiveVersion) {
        let mut serving = self.serving.write().unwrap_or_else(PoisonError::into_inner);
        *serving = Some(Serving { scorer, active });
    }
}
