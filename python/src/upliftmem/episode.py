"""One attempt at a task: search, act, report."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._requests import Candidates, Json
from .errors import ConnectionFailed, Misuse, Overloaded, ServerFailed, UpliftMemError
from .fence import memory_block
from .models import FoundMemory, Learned, Scope, Search

if TYPE_CHECKING:
    from typing_extensions import Self

    from .async_client import AsyncClient
    from .client import Client

_log = logging.getLogger("upliftmem")

# What an agent can go on without, if it says so: the server is not there or not well.
_ABSENT = (ConnectionFailed, Overloaded, ServerFailed)


class _Attempt:
    """What both kinds of episode have in common."""

    def __init__(
        self,
        query: str,
        scope: Scope,
        *,
        task: str | None,
        top_k: int | None,
        candidates: Candidates | None,
        token_budget: int | None,
        budget_ms: int | None,
        report_failure: bool,
        required: bool,
    ) -> None:
        self.query = query
        #: What the search answered; None before it, and without a server if `required` is off.
        self.retrieval: Search | None = None
        #: What the report taught, once there was one.
        self.learned: Learned | None = None
        self._scope = scope
        self._asked: dict[str, Any] = {
            "task": task,
            "top_k": top_k,
            "candidates": candidates,
            "token_budget": token_budget,
            "budget_ms": budget_ms,
        }
        self._report_failure = report_failure
        self._required = required
        self._reported = False

    @property
    def memories(self) -> tuple[FoundMemory, ...]:
        """The memories to use; none if that is the advice."""
        return self.retrieval.results if self.retrieval else ()

    @property
    def block(self) -> str:
        """The memories as a block of a prompt, fenced as data; empty if there is none."""
        return memory_block(memory.memory for memory in self.memories)

    @property
    def abstained(self) -> bool:
        """Whether no memory is the advice."""
        return not self.memories

    @property
    def predicted_uplift(self) -> float:
        """How much better the agent is expected to do than without memory."""
        return self.retrieval.predicted_uplift if self.retrieval else 0.0

    def discard(self) -> None:
        """Ends the episode without a report, whatever happens next: nothing is to be learned from it."""
        self._reported = True

    def _absent(self, error: UpliftMemError) -> None:
        if self._required or not isinstance(error, _ABSENT):
            raise error
        _log.warning("the episode goes on without memory: %s", error)

    def _outcome(
        self,
        performance: float | None,
        success: bool | None,
        cost: float | None,
        cost_max: float | None,
        trajectory: Iterable[tuple[str, str]] | None,
        diagnostics: Json | None,
    ) -> dict[str, Any]:
        """What is reported, checked before anything is sent."""
        if self._reported:
            raise Misuse("this episode was reported already; start another for another attempt")
        if performance is None and success is None:
            raise Misuse("neither performance nor success is given; give one of them")
        return {
            "performance": performance,
            "success": success,
            "cost": cost,
            "cost_max": cost_max,
            "trajectory": trajectory,
            "diagnostics": diagnostics,
        }

    def _failure(self, error: BaseException | None) -> dict[str, Any] | None:
        """What to report at the end, if anything is left to report."""
        if self._reported or self.retrieval is None:
            return None
        if error is None:
            _log.warning(
                "an episode ended without a report, so nothing is learned from it; call ep.report(performance=...)"
            )
            return None
        # An interrupt, a cancellation or an error of this package says nothing about the memories.
        if not isinstance(error, Exception) or isinstance(error, UpliftMemError):
            return None
        if not self._report_failure:
            return None
        # The kind alone: the message may hold what must not be stored.
        return {"performance": 0.0, "diagnostics": {"raised": type(error).__name__}}


class Episode(_Attempt):
    """One attempt at a task. Made by `Client.episode`."""

    def __init__(self, client: Client, query: str, scope: Scope, **asked: Any) -> None:
        super().__init__(query, scope, **asked)
        self._client = client

    def __enter__(self) -> Self:
        try:
            self.retrieval = self._client.search(self.query, **self._asked, **self._scope.keywords())
        except UpliftMemError as error:
            self._absent(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure = self._failure(error)
        if failure is None:
            return
        try:
            self.report(**failure)
        except UpliftMemError as problem:
            # What the agent raised matters more.
            _log.warning("the failed episode could not be reported: %s", problem)

    def report(
        self,
        *,
        performance: float | None = None,
        success: bool | None = None,
        cost: float | None = None,
        cost_max: float | None = None,
        trajectory: Iterable[tuple[str, str]] | None = None,
        diagnostics: Json | None = None,
    ) -> Learned | None:
        """Tells how it went: `performance` from 0 to 1, or `success`. None if there was no server to tell."""
        told = self._outcome(performance, success, cost, cost_max, trajectory, diagnostics)
        if self.retrieval is None:
            return None
        try:
            self.learned = self._client.outcome(self.retrieval.retrieval_id, **told, **self._scope.keywords())
        except UpliftMemError as error:
            self._absent(error)
            return None
        self._reported = True
        return self.learned


class AsyncEpisode(_Attempt):
    """One attempt at a task. Made by `AsyncClient.episode`."""

    def __init__(self, client: AsyncClient, query: str, scope: Scope, **asked: Any) -> None:
        super().__init__(query, scope, **asked)
        self._client = client

    async def __aenter__(self) -> Self:
        try:
            self.retrieval = await self._client.search(self.query, **self._asked, **self._scope.keywords())
        except UpliftMemError as error:
            self._absent(error)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure = self._failure(error)
        if failure is None:
            return
        try:
            await self.report(**failure)
        except UpliftMemError as problem:
            # What the agent raised matters more.
            _log.warning("the failed episode could not be reported: %s", problem)

    async def report(
        self,
        *,
        performance: float | None = None,
        success: bool | None = None,
        cost: float | None = None,
        cost_max: float | None = None,
        trajectory: Iterable[tuple[str, str]] | None = None,
        diagnostics: Json | None = None,
    ) -> Learned | None:
        """Tells how it went: `performance` from 0 to 1, or `success`. None if there was no server to tell."""
        told = self._outcome(performance, success, cost, cost_max, trajectory, diagnostics)
        if self.retrieval is None:
            return None
        try:
            self.learned = await self._client.outcome(self.retrieval.retrieval_id, **told, **self._scope.keywords())
        except UpliftMemError as error:
            self._absent(error)
            return None
        self._reported = True
        return self.learned
