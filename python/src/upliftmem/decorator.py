"""Functions with memory: `@client.with_memory(...)`."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from .episode import AsyncEpisode, Episode
from .models import Outcome

P = ParamSpec("P")
R = TypeVar("R")

# Says how well it went: an outcome, a number from 0 to 1, or whether it did.
Verdict: TypeAlias = Outcome | float | bool
Judge: TypeAlias = Callable[[Any], Verdict]


def outcome_of(verdict: Verdict) -> Outcome:
    """A verdict as an outcome."""
    if isinstance(verdict, Outcome):
        return verdict
    if isinstance(verdict, (bool, int, float)):
        return Outcome(performance=float(verdict))
    raise TypeError(f"{verdict!r} does not say how it went; return an Outcome, a number from 0 to 1, or a bool")


def _told(episode: Episode | AsyncEpisode, judge: Judge, result: object) -> dict[str, Any]:
    try:
        outcome = outcome_of(judge(result))
    except Exception:
        # The judge's failure is not the agent's: it must not become a label.
        episode.discard()
        raise
    return {
        "performance": outcome.performance,
        "cost": outcome.cost,
        "trajectory": outcome.trajectory,
        "diagnostics": outcome.diagnostics,
    }


def remembering(
    start: Callable[[str], Episode], judge: Judge | None
) -> Callable[[Callable[Concatenate[Episode, str, P], R]], Callable[Concatenate[str, P], R]]:
    """Runs each call of a function as an episode."""

    def decorate(function: Callable[Concatenate[Episode, str, P], R]) -> Callable[Concatenate[str, P], R]:
        @functools.wraps(function)
        def call(query: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with start(query) as episode:
                result = function(episode, query, *args, **kwargs)
                if judge is not None:
                    episode.report(**_told(episode, judge, result))
                return result

        return call

    return decorate


def remembering_async(
    start: Callable[[str], AsyncEpisode], judge: Judge | None
) -> Callable[
    [Callable[Concatenate[AsyncEpisode, str, P], Awaitable[R]]],
    Callable[Concatenate[str, P], Awaitable[R]],
]:
    """Runs each call of an async function as an episode."""

    def decorate(
        function: Callable[Concatenate[AsyncEpisode, str, P], Awaitable[R]],
    ) -> Callable[Concatenate[str, P], Awaitable[R]]:
        @functools.wraps(function)
        async def call(query: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            async with start(query) as episode:
                result = await function(episode, query, *args, **kwargs)
                if judge is not None:
                    await episode.report(**_told(episode, judge, result))
                return result

        return call

    return decorate
