"""What the server answers with, and what an executor returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypedDict, TypeVar, cast

T = TypeVar("T")


class ScopeParts(TypedDict, total=False):
    """Whose data a call is about; parts that are not given are the client's own."""

    user_id: str | None
    agent_id: str | None
    run_id: str | None
    app_id: str | None


_PARTS = tuple(ScopeParts.__annotations__)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Whose data it is. Two scopes never see each other; at least one part is given."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None

    def parts(self) -> dict[str, str]:
        """The parts that are given."""
        named = {name: getattr(self, name) for name in _PARTS}
        return {name: part for name, part in named.items() if part is not None}

    def keywords(self) -> ScopeParts:
        """The parts that are given, as the keywords of a call."""
        return cast("ScopeParts", self.parts())


@dataclass(frozen=True, kw_only=True)
class Memory(Scope):
    """A memory with all that is known about it."""

    id: str
    memory: str
    kind: str
    status: str
    tokens: int
    created_at: str
    updated_at: str
    metadata: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    quarantine_reason: str | None = None
    superseded_by: str | None = None
    expires_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class Added:
    """What became of one memory: `stored`, `queued`, `duplicate` (of `id`), `quarantined`, or `failed` and why."""

    id: str
    memory: str
    event: str
    status: str
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryVersion:
    """One text that a memory had."""

    id: str
    memory: str
    created_at: str
    status: str


@dataclass(frozen=True, kw_only=True)
class FoundMemory(Scope):
    """A memory that was chosen; `gain` is what it added to the predicted uplift when it was."""

    id: str
    memory: str
    gain: float
    step: int
    created_at: str
    metadata: dict[str, Any] = field(default_factory=dict)
    external_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunnerUp:
    """A set that was not chosen."""

    memories: tuple[str, ...]
    predicted_uplift: float


@dataclass(frozen=True, kw_only=True)
class Search:
    """The set of memories that helps with a task, or the advice to use none."""

    retrieval_id: str
    task_id: str
    abstained: bool
    predicted_uplift: float
    scorer: str
    results: tuple[FoundMemory, ...]
    candidates: int
    sets_scored: int
    budget_hit: bool
    timings_ms: dict[str, float]
    reason: str | None = None
    runners_up: tuple[RunnerUp, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A document of a rerank: `relevance_score` 0.5 is no effect, more helps, less harms."""

    index: int
    relevance_score: float
    predicted_uplift: float
    selected: bool


@dataclass(frozen=True, kw_only=True)
class Rerank:
    """Documents by what each is expected to do for a task, the best first."""

    id: str
    model: str
    results: tuple[Ranked, ...]


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What an outcome taught.

    `reference` is `cached` (compared with the task without memory; `uplift` is the difference), `self` (it is that
    comparison) or `missing` (it becomes a label once there is one).
    """

    utility: float
    reference: str
    reference_requested: bool
    labels: int
    uplift: float | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an execution went, as an executor says it.

    `performance` is from 0 to 1; `cost` is in the unit of the server's `utility.cost_max`; `trajectory` is pairs of
    action and observation.
    """

    performance: float
    cost: float = 0.0
    trajectory: Sequence[tuple[str, str]] = ()
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task that the server knows."""

    id: str
    name: str
    context: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProbeMemory:
    """A memory that an execution must use."""

    id: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Probe:
    """An execution that is wanted: this task with exactly these memories, in this order; none means without."""

    rollout_id: str
    attempt: int
    task: Task
    memories: tuple[ProbeMemory, ...]
    purpose: str
    seed: int
    lease_expires_at: str

    @property
    def block(self) -> str:
        """The memories as a block of a prompt; empty if there is none."""
        from .fence import memory_block

        return memory_block(memory.text for memory in self.memories)


@dataclass(frozen=True, kw_only=True)
class Handout:
    """What a worker that asks for work gets; nothing if nothing is wanted now."""

    ticket: Probe | None = None


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """An execution and how far it is: `waiting`, `leased`, `completed` or `failed`."""

    rollout_id: str
    task_id: str
    memories: tuple[str, ...]
    purpose: str
    executor: str
    state: str
    attempts: int
    attempts_max: int
    enqueued_at: str
    worker: str | None = None
    lease_expires_at: str | None = None
    last_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProbePlan:
    """What planning a batch of probes gave."""

    probes: int
    references: int
    batch_value: float
    tasks: int
    batch_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """A search that was answered."""

    id: str
    query: str
    memories: tuple[str, ...]
    abstained: bool
    predicted_uplift: float
    scorer: str
    candidates: int
    at: str
    sequence: int
    task_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class RetrievalOutcome:
    """The outcome that was reported for a search; `uplift` once the task has a reference."""

    performance: float
    cost: float
    at: str
    uplift: float | None = None


@dataclass(frozen=True, kw_only=True)
class Explanation(Retrieval):
    """Why a search was answered so: gains of each step, runners-up, timings, what came of it."""

    gains: Any
    steps: Any
    timings: Any
    texts: dict[str, str]
    trace: dict[str, Any]
    outcome: RetrievalOutcome | None = None


@dataclass(frozen=True, kw_only=True)
class Interval:
    """95 % of where a mean is."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A mean over executions that were compared with the same task without memory."""

    pairs: int
    mean: float
    interval: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Help:
    """Does memory help? `control` compares no memory with no memory: anything but zero there is noise."""

    verdict: str
    harmed: float
    retrievals: Effect | None = None
    probes: Effect | None = None
    abstained: float | None = None
    control: Effect | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryEffect:
    """What executions with a memory say about it."""

    id: str
    executions: int
    effect: float
    memory: str | None = None
    status: str | None = None
    interval: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """What executions of one purpose cost."""

    purpose: str
    executions: int
    cost: float


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What was executed and what it cost."""

    lines: tuple[LedgerLine, ...]
    executions: int
    cost: float


@dataclass(frozen=True, kw_only=True)
class ActiveScorer:
    """The scorer that answers: a version is the number of labels it rests on."""

    version: int
    labels: int
    pinned: bool


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the scorer rests on, and whether it is learning."""

    active: ActiveScorer
    learning: bool
    refits: int


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """A page of a listing; pass `next` as `after` for the next one."""

    results: tuple[T, ...]
    next: str | None = None


@dataclass(frozen=True, kw_only=True)
class WorkDone:
    """What a worker did: executions reported, executions that failed, and those whose lease was lost."""

    completed: int = 0
    failed: int = 0
    lost: int = 0
