"""Searches that a framework makes on its own, gathered so that one report reaches all of them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .errors import Misuse, UpliftMemError
from .models import Learned, Scope, Search

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger("upliftmem")

# The list is shared by every copy of the context, so that threads and tasks of a run add to the same one.
_gathering: ContextVar[list[tuple[Search, Scope]] | None] = ContextVar("upliftmem_gathering", default=None)


def note(retrieval: Search, scope: Scope) -> None:
    """Remembers a search for the run that it belongs to, if there is one."""
    gathered = _gathering.get()
    if gathered is not None:
        gathered.append((retrieval, scope))


class _Gathering:
    """Gathers searches while it is entered."""

    def __init__(self, *, report_failure: bool) -> None:
        self._gathered: list[tuple[Search, Scope]] = []
        self._report_failure = report_failure
        self._reported = False
        self._token: Token[list[tuple[Search, Scope]] | None] | None = None

    @property
    def retrievals(self) -> tuple[Search, ...]:
        """The searches so far."""
        return tuple(retrieval for retrieval, _ in self._gathered)

    def _open(self) -> None:
        self._token = _gathering.set(self._gathered)

    def _close(self, error: BaseException | None) -> bool:
        """Ends gathering; says whether a failure is to be reported."""
        if self._token is not None:
            _gathering.reset(self._token)
        failed = isinstance(error, Exception) and not isinstance(error, UpliftMemError)
        if error is None and self._gathered and not self._reported:
            _log.warning("a run ended without a report, so nothing is learned from it; call report(performance=...)")
        return failed and self._report_failure and not self._reported

    def _take(self) -> list[tuple[Search, Scope]]:
        if self._reported:
            raise Misuse("this run was reported already; start another for another attempt")
        return self._gathered


class Gathered(_Gathering):
    """A run of a framework: every search within the block gets the outcome that is reported.

    If the block raises, performance 0 is reported, unless `report_failure` is off.
    """

    def __init__(self, outcome: Callable[..., Learned], *, report_failure: bool = True) -> None:
        super().__init__(report_failure=report_failure)
        self._outcome = outcome

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close(error):
            try:
                self.report(performance=0.0, diagnostics={"raised": type(error).__name__})
            except UpliftMemError as problem:
                # What the agent raised matters more.
                _log.warning("the failed run could not be reported: %s", problem)

    def report(self, **outcome: Any) -> tuple[Learned, ...]:
        """Tells how it went, in the words of `Client.outcome`; what each search taught."""
        learned = [
            self._outcome(retrieval.retrieval_id, **outcome, **scope.keywords()) for retrieval, scope in self._take()
        ]
        self._reported = True
        return tuple(learned)


class AsyncGathered(_Gathering):
    """The same for async code."""

    def __init__(self, outcome: Callable[..., Awaitable[Learned]], *, report_failure: bool = True) -> None:
        super().__init__(report_failure=report_failure)
        self._outcome = outcome

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close(error):
            try:
                await self.report(performance=0.0, diagnostics={"raised": type(error).__name__})
            except UpliftMemError as problem:
                _log.warning("the failed run could not be reported: %s", problem)

    async def report(self, **outcome: Any) -> tuple[Learned, ...]:
        """Tells how it went, in the words of `AsyncClient.outcome`; what each search taught."""
        learned = [
            await self._outcome(retrieval.retrieval_id, **outcome, **scope.keywords())
            for retrieval, scope in self._take()
        ]
        self._reported = True
        return tuple(learned)
