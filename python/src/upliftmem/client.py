"""The client for code without async."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar

import httpx

from . import _requests as requests
from . import models as m
from ._core import Request, RetryPolicy, Tries, Wait
from ._requests import UNSET, Candidates, Json, Purpose, Status, Strategy, _Unset
from ._settings import Settings
from .decorator import Judge, remembering
from .episode import Episode
from .models import ScopeParts
from .work import Executor, work

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class Client:
    """Talks to an UpliftMem server; may be shared by threads.

    Without `base_url` (or `UPLIFTMEM_URL`) a server is started on this machine with its store in `data_dir`, or in a
    folder of yours; clients of one process share it, and it stops with the last of them. `user_id`, `agent_id`,
    `run_id` and `app_id` are the scope of every call that does not name its own. `timeout` is seconds for one try.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        data_dir: str | Path | None = None,
        binary: str | Path | None = None,
        timeout: float = 30.0,
        retry: RetryPolicy | None = None,
        **scope: Unpack[ScopeParts],
    ) -> None:
        self._settings = Settings.of(
            base_url,
            api_key,
            data_dir=data_dir,
            binary=binary,
            timeout=timeout,
            retry=retry,
            scope=m.Scope(**scope),
        )
        self._http = httpx.Client(
            base_url=self._settings.base_url,
            headers=self._settings.headers,
            timeout=timeout,
            trust_env=self._settings.trust_env,
        )

    @property
    def base_url(self) -> str:
        """Where the server is."""
        return self._settings.base_url

    def scope(self, **parts: Unpack[ScopeParts]) -> m.Scope:
        """The scope that a call with these parts is about."""
        return self._settings.scoped(**parts)

    def close(self) -> None:
        """Closes the connections. A local server stops if no other client of this process uses it."""
        self._http.close()
        self._settings.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: Request[T]) -> T:
        tries = Tries(request, self._settings.retry)
        while True:
            result: T | Wait
            try:
                answer = self._http.request(
                    request.method,
                    request.path,
                    params=dict(request.query),
                    json=request.body,
                    headers=dict(request.headers),
                )
            except httpx.HTTPError as failure:
                result = tries.after_failure(failure)
            else:
                result = tries.after_answer(answer)
            if not isinstance(result, Wait):
                return result
            time.sleep(result.seconds)

    # Memories.

    def add(
        self,
        text: str,
        *,
        metadata: Json | None = None,
        kind: str | None = None,
        expires_at: str | None = None,
        supersedes: str | None = None,
        idempotency_key: str | None = None,
        **scope: Unpack[ScopeParts],
    ) -> m.Added:
        """Adds a memory. The answer's `status` says what became of it."""
        new = requests.item(text, metadata=metadata, kind=kind, expires_at=expires_at, supersedes=supersedes)
        return self._send(requests.add(self.scope(**scope), new, idempotency_key))[0]

    def add_messages(
        self,
        messages: Sequence[Json],
        *,
        metadata: Json | None = None,
        infer: bool = False,
        idempotency_key: str | None = None,
        **scope: Unpack[ScopeParts],
    ) -> tuple[m.Added, ...]:
        """Adds each message of a conversation but the system's as a memory, as it is.

        With `infer`, a server with a writer keeps the conversation and answers `queued`; a model writes down in the
        background what of it is worth knowing.
        """
        new: dict[str, object] = {"messages": list(messages)}
        if metadata is not None:
            new["metadata"] = metadata
        if infer:
            new["infer"] = True
        return self._send(requests.add(self.scope(**scope), new, idempotency_key))

    def add_many(
        self,
        memories: Iterable[str | Json],
        *,
        idempotency_key: str | None = None,
        **scope: Unpack[ScopeParts],
    ) -> tuple[m.Added, ...]:
        """Adds many memories at once: texts, or objects with `text` and what else `add` takes."""
        return self._send(requests.add_many(self.scope(**scope), memories, idempotency_key))

    def get(self, memory_id: str, **scope: Unpack[ScopeParts]) -> m.Memory:
        """Gets a memory."""
        return self._send(requests.get(self.scope(**scope), memory_id))

    def page_of_memories(
        self,
        *,
        status: Status | None = None,
        after: str | None = None,
        limit: int | None = None,
        **scope: Unpack[ScopeParts],
    ) -> m.Page[m.Memory]:
        """One page of memories, in creation order."""
        return self._send(requests.memories(self.scope(**scope), status, after, limit))

    def memories(
        self, *, status: Status | None = None, after: str | None = None, **scope: Unpack[ScopeParts]
    ) -> Iterator[m.Memory]:
        """All memories in creation order, page by page."""
        while True:
            page = self.page_of_memories(status=status, after=after, **scope)
            yield from page.results
            if page.next is None:
                return
            after = page.next

    def update(
        self,
        memory_id: str,
        *,
        text: str | None = None,
        metadata: Json | None = None,
        expires_at: str | _Unset | None = UNSET,
        **scope: Unpack[ScopeParts],
    ) -> m.Memory:
        """Changes a memory. A new text makes a new memory that supersedes it, and that is the answer."""
        return self._send(requests.update(self.scope(**scope), memory_id, text, metadata, expires_at))

    def delete(self, memory_id: str, **scope: Unpack[ScopeParts]) -> None:
        """Removes a memory for good. What was learned about it stays."""
        self._send(requests.delete(self.scope(**scope), memory_id))

    def supersede(self, memory_id: str, *, by: str, **scope: Unpack[ScopeParts]) -> m.Memory:
        """Marks a memory as replaced by another."""
        return self._send(requests.supersede(self.scope(**scope), memory_id, by))

    def quarantine(self, memory_id: str, *, reason: str, **scope: Unpack[ScopeParts]) -> m.Memory:
        """Keeps a memory from being recalled."""
        return self._send(requests.quarantine(self.scope(**scope), memory_id, reason))

    def release(self, memory_id: str, **scope: Unpack[ScopeParts]) -> m.Memory:
        """Lets a quarantined memory be recalled again."""
        return self._send(requests.release(self.scope(**scope), memory_id))

    def history(self, memory_id: str, **scope: Unpack[ScopeParts]) -> tuple[m.MemoryVersion, ...]:
        """Every text that a memory had, the oldest first."""
        return self._send(requests.history(self.scope(**scope), memory_id))

    # Search and outcomes.

    def search(
        self,
        query: str,
        *,
        task: str | None = None,
        top_k: int | None = None,
        candidates: Candidates | None = None,
        token_budget: int | None = None,
        budget_ms: int | None = None,
        explain: bool = False,
        **scope: Unpack[ScopeParts],
    ) -> m.Search:
        """Searches the set of memories that helps with a task, if any does.

        `task` names a task that comes again under other words. `candidates` is how many to recall, ids of memories,
        or `{"id", "text"}` of a store of your own.
        """
        return self._send(
            requests.search(
                self.scope(**scope),
                query,
                task=task,
                top_k=top_k,
                candidates=candidates,
                token_budget=token_budget,
                budget_ms=budget_ms,
                explain=explain,
            )
        )

    def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        **scope: Unpack[ScopeParts],
    ) -> m.Rerank:
        """Ranks documents by what each is expected to do for a task."""
        return self._send(requests.rerank(self.scope(**scope), query, documents, top_n))

    def outcome(
        self,
        retrieval_id: str,
        *,
        performance: float | None = None,
        success: bool | None = None,
        cost: float | None = None,
        cost_max: float | None = None,
        trajectory: Iterable[tuple[str, str]] | None = None,
        diagnostics: Json | None = None,
        idempotency_key: str | None = None,
        **scope: Unpack[ScopeParts],
    ) -> m.Learned:
        """Reports how the task of a search went: `performance` from 0 to 1, or `success`."""
        return self._send(
            requests.outcome(
                self.scope(**scope),
                retrieval_id=retrieval_id,
                performance=performance,
                success=success,
                cost=cost,
                cost_max=cost_max,
                trajectory=trajectory,
                diagnostics=diagnostics,
                key=idempotency_key,
            )
        )

    def episode(
        self,
        query: str,
        *,
        task: str | None = None,
        top_k: int | None = None,
        candidates: Candidates | None = None,
        token_budget: int | None = None,
        budget_ms: int | None = None,
        report_failure: bool = True,
        required: bool = True,
        **scope: Unpack[ScopeParts],
    ) -> Episode:
        """One attempt at a task: `with client.episode(task) as ep:` searches, and `ep.report(...)` tells how it went.

        If the block raises, performance 0 is reported, unless `report_failure` is off. With `required` off, a server
        that can not be reached means an episode without memory instead of an error.
        """
        return Episode(
            self,
            query,
            self.scope(**scope),
            task=task,
            top_k=top_k,
            candidates=candidates,
            token_budget=token_budget,
            budget_ms=budget_ms,
            report_failure=report_failure,
            required=required,
        )

    def with_memory(
        self,
        *,
        judge: Judge | None = None,
        task: str | None = None,
        top_k: int | None = None,
        token_budget: int | None = None,
        report_failure: bool = True,
        required: bool = True,
        **scope: Unpack[ScopeParts],
    ) -> Callable[[Callable[Concatenate[Episode, str, P], R]], Callable[Concatenate[str, P], R]]:
        """Makes a function of an episode and a task a function of a task.

        Each call is an episode; `judge` says of what the function returned how well it went. Without it, the
        function reports through its episode.
        """

        def start(query: str) -> Episode:
            return self.episode(
                query,
                task=task,
                top_k=top_k,
                token_budget=token_budget,
                report_failure=report_failure,
                required=required,
                **scope,
            )

        return remembering(start, judge)

    # Tasks and probes.

    def put_tasks(self, tasks: Iterable[Json], **scope: Unpack[ScopeParts]) -> int:
        """Stores tasks `{"id", "context", "metadata"?}`; says how many are new."""
        return self._send(requests.put_tasks(self.scope(**scope), tasks))

    def page_of_tasks(
        self, *, after: str | None = None, limit: int | None = None, **scope: Unpack[ScopeParts]
    ) -> m.Page[m.Task]:
        """One page of tasks."""
        return self._send(requests.tasks(self.scope(**scope), after, limit))

    def request_reference(self, task: str, **scope: Unpack[ScopeParts]) -> bool:
        """Asks for an execution of a task without memory; says whether it was not asked for before."""
        return self._send(requests.request_reference(self.scope(**scope), task))

    def next_probe(
        self,
        *,
        worker: str | None = None,
        purpose: Purpose | None = None,
        lease_seconds: int | None = None,
        **scope: Unpack[ScopeParts],
    ) -> m.Probe | None:
        """Takes the next execution that is wanted, if any is. `work` does this and all the rest."""
        return self._send(requests.next_probe(self.scope(**scope), worker, purpose, lease_seconds))

    def heartbeat(self, probe: m.Probe, *, lease_seconds: int | None = None, **scope: Unpack[ScopeParts]) -> str:
        """Says that an execution is under way; answers with the moment until which it is kept."""
        return self._send(requests.heartbeat(self.scope(**scope), probe, lease_seconds))

    def fail_probe(self, probe: m.Probe, *, reason: str, **scope: Unpack[ScopeParts]) -> bool:
        """Gives an execution back; says whether it will be handed out again."""
        return self._send(requests.fail_probe(self.scope(**scope), probe, reason))

    def report_probe(self, probe: m.Probe, outcome: m.Outcome, **scope: Unpack[ScopeParts]) -> m.Learned:
        """Reports how an execution went."""
        return self._send(
            requests.outcome(
                self.scope(**scope),
                rollout_id=probe.rollout_id,
                attempt=probe.attempt,
                performance=outcome.performance,
                cost=outcome.cost,
                trajectory=outcome.trajectory,
                diagnostics=outcome.diagnostics,
            )
        )

    def plan_probes(
        self, *, budget: int | None = None, strategy: Strategy | None = None, **scope: Unpack[ScopeParts]
    ) -> m.ProbePlan:
        """Plans a batch of probes from what was searched since the last one."""
        return self._send(requests.plan_probes(self.scope(**scope), budget, strategy))

    def page_of_probes(
        self,
        *,
        state: Literal["waiting", "leased", "completed", "failed"] | None = None,
        after: str | None = None,
        limit: int | None = None,
        **scope: Unpack[ScopeParts],
    ) -> m.Page[m.Ticket]:
        """One page of executions and how far they are."""
        return self._send(requests.probes(self.scope(**scope), state, after, limit))

    def work(
        self,
        executor: Executor,
        *,
        probes: int,
        worker: str | None = None,
        purpose: Purpose | None = None,
        lease_seconds: int = 600,
        **scope: Unpack[ScopeParts],
    ) -> m.WorkDone:
        """Runs up to `probes` executions that are wanted, until none is.

        `executor` gets a `Probe` and returns an `Outcome`, a number from 0 to 1 or a bool. The lease is kept alive
        while it runs. If it raises, the execution is given back with the reason and is never a label.
        """
        return work(
            self,
            executor,
            self.scope(**scope),
            probes=probes,
            worker=worker,
            purpose=purpose,
            lease_seconds=lease_seconds,
        )

    # What was learned.

    def page_of_retrievals(
        self, *, after: str | None = None, limit: int | None = None, **scope: Unpack[ScopeParts]
    ) -> m.Page[m.Retrieval]:
        """One page of answered searches, the oldest first."""
        return self._send(requests.retrievals(self.scope(**scope), after, limit))

    def explain(self, retrieval_id: str, **scope: Unpack[ScopeParts]) -> m.Explanation:
        """Why a search was answered so, and what came of it."""
        return self._send(requests.explain(self.scope(**scope), retrieval_id))

    def does_memory_help(self, **scope: Unpack[ScopeParts]) -> m.Help:
        """Does memory help? With intervals and a negative control."""
        return self._send(requests.help_report(self.scope(**scope)))

    def effects(
        self,
        *,
        order: Literal["harm", "help"] = "harm",
        limit: int | None = None,
        **scope: Unpack[ScopeParts],
    ) -> tuple[m.MemoryEffect, ...]:
        """What executions with each memory say about it, the most harmful or the most helpful first."""
        return self._send(requests.effects(self.scope(**scope), order, limit))

    def ledger(self, **scope: Unpack[ScopeParts]) -> m.Ledger:
        """What was executed and what it cost."""
        return self._send(requests.ledger(self.scope(**scope)))

    def training(self, **scope: Unpack[ScopeParts]) -> m.Training:
        """What the scorer rests on, and whether it is learning."""
        return self._send(requests.training(self.scope(**scope)))

    def refit(self, **scope: Unpack[ScopeParts]) -> m.Training:
        """Learns everything there is, now."""
        return self._send(requests.refit(self.scope(**scope)))

    def activate_scorer(self, version: int | None, **scope: Unpack[ScopeParts]) -> m.ActiveScorer:
        """Answers with one version until another choice; None follows the labels again."""
        return self._send(requests.activate_scorer(self.scope(**scope), version))

    def roll_back_scorer(self, **scope: Unpack[ScopeParts]) -> m.ActiveScorer:
        """Answers with the version before the one that answers now."""
        return self._send(requests.roll_back_scorer(self.scope(**scope)))

    def page_of_scopes(self, *, after: str | None = None, limit: int | None = None) -> m.Page[m.Scope]:
        """One page of scopes in which anything was written, within what the key reaches."""
        return self._send(requests.scopes(after, limit))
