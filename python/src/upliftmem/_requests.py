"""Every request that the clients can send, once: method, path, body, and how the answer is read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, cast
from urllib.parse import quote

from . import models as m
from ._core import Request
from ._decode import decoder
from .errors import BadAnswer

T = TypeVar("T")

Json: TypeAlias = Mapping[str, Any]
Status: TypeAlias = Literal["active", "quarantined", "superseded", "expired"]
Purpose: TypeAlias = Literal["reference", "retrieval", "probe", "validation", "evaluation"]
Strategy: TypeAlias = Literal["evsi", "random", "mc-std", "eig", "thompson", "ordinary"]
# How many to recall, ids of memories, or texts of the caller's own store.
Candidates: TypeAlias = int | Sequence[str] | Sequence[Mapping[str, str]]


class _Unset:
    """Tells "not given" from None, which means "never"."""


UNSET = _Unset()


def _results(kind: type[T]) -> Callable[[Any], tuple[T, ...]]:
    """Reads the list in an answer's `results`."""
    read = decoder(kind)
    return lambda answer: tuple(read(row) for row in _rows(answer))


def _rows(answer: Any) -> list[Any]:
    if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
        raise BadAnswer("the server's answer has no list `results`; are its versions the same?")
    return list(answer["results"])


def _page(kind: type[T]) -> Callable[[Any], m.Page[T]]:
    read = decoder(kind)

    def page(answer: Any) -> m.Page[T]:
        following = answer.get("next") if isinstance(answer, dict) else None
        return m.Page(results=tuple(read(row) for row in _rows(answer)), next=following)

    return page


def _value(name: str, kind: type[T]) -> Callable[[Any], T]:
    """Reads one field of an answer."""

    def read(answer: Any) -> T:
        if not isinstance(answer, dict) or not isinstance(answer.get(name), kind):
            raise BadAnswer(f"the server's answer has no {kind.__name__} `{name}`; are its versions the same?")
        return cast("T", answer[name])

    return read


def _given(fields: Json) -> dict[str, Any]:
    """The fields that are given."""
    return {name: value for name, value in fields.items() if value is not None}


def _query(scope: m.Scope, **fields: Any) -> dict[str, str]:
    return scope.parts() | {name: str(value) for name, value in fields.items() if value is not None}


def _segment(name: str) -> str:
    """One segment of a path, whatever is in it."""
    return quote(name, safe="")


def _once(key: str | None) -> dict[str, str]:
    """The header that makes a request done once, however often it is sent."""
    return {"idempotency-key": key or uuid.uuid4().hex}


def item(
    text: str,
    *,
    metadata: Json | None = None,
    kind: str | None = None,
    expires_at: str | None = None,
    supersedes: str | None = None,
) -> dict[str, Any]:
    """A memory to be written."""
    return _given(
        {"text": text, "metadata": metadata, "kind": kind, "expires_at": expires_at, "supersedes": supersedes}
    )


def add(scope: m.Scope, new: Json, key: str | None) -> Request[tuple[m.Added, ...]]:
    body = {**new, **scope.parts()}
    return Request(method="POST", path="/v1/memories", body=body, headers=_once(key), read=_results(m.Added))


def add_many(scope: m.Scope, new: Iterable[str | Json], key: str | None) -> Request[tuple[m.Added, ...]]:
    memories = [{"text": one} if isinstance(one, str) else dict(one) for one in new]
    body = {"memories": memories, **scope.parts()}
    return Request(method="POST", path="/v1/memories/batch", body=body, headers=_once(key), read=_results(m.Added))


def memories(scope: m.Scope, status: Status | None, after: str | None, limit: int | None) -> Request[m.Page[m.Memory]]:
    query = _query(scope, status=status, after=after, limit=limit)
    return Request(method="GET", path="/v1/memories", query=query, read=_page(m.Memory))


def _memory(
    method: str,
    scope: m.Scope,
    memory_id: str,
    body: Json | None = None,
    then: str = "",
    *,
    again: bool = True,
) -> Request[m.Memory]:
    return Request(
        method=method,
        path=f"/v1/memories/{_segment(memory_id)}{then}",
        query=scope.parts(),
        body=body,
        read=decoder(m.Memory),
        repeatable=again,
    )


def get(scope: m.Scope, memory_id: str) -> Request[m.Memory]:
    return _memory("GET", scope, memory_id)


def update(
    scope: m.Scope, memory_id: str, text: str | None, metadata: Json | None, expires_at: str | _Unset | None
) -> Request[m.Memory]:
    body = _given({"text": text, "metadata": metadata})
    if not isinstance(expires_at, _Unset):
        body["expires_at"] = expires_at
    # A new text supersedes the memory: done twice, the second finds it superseded.
    return _memory("PATCH", scope, memory_id, body, again=text is None)


def delete(scope: m.Scope, memory_id: str) -> Request[None]:
    path = f"/v1/memories/{_segment(memory_id)}"
    # Done twice, the second finds nothing.
    return Request(method="DELETE", path=path, query=scope.parts(), read=lambda _answer: None, repeatable=False)


def supersede(scope: m.Scope, memory_id: str, by: str) -> Request[m.Memory]:
    return _memory("POST", scope, memory_id, {"by": by}, "/supersede", again=False)


def quarantine(scope: m.Scope, memory_id: str, reason: str) -> Request[m.Memory]:
    return _memory("POST", scope, memory_id, {"reason": reason}, "/quarantine")


def release(scope: m.Scope, memory_id: str) -> Request[m.Memory]:
    return _memory("POST", scope, memory_id, None, "/release")


def history(scope: m.Scope, memory_id: str) -> Request[tuple[m.MemoryVersion, ...]]:
    path = f"/v1/memories/{_segment(memory_id)}/history"
    return Request(method="GET", path=path, query=scope.parts(), read=_results(m.MemoryVersion))


def search(
    scope: m.Scope,
    query: str,
    *,
    task: str | None,
    top_k: int | None,
    candidates: Candidates | None,
    token_budget: int | None,
    budget_ms: int | None,
    explain: bool,
) -> Request[m.Search]:
    brought = candidates
    if brought is not None and not isinstance(brought, int):
        brought = list(brought)  # type: ignore[assignment]
    body = _given(
        {
            "query": query,
            "task": task,
            "top_k": top_k,
            "candidates": brought,
            "token_budget": token_budget,
            "budget_ms": budget_ms,
            "explain": explain or None,
        }
    )
    # Searched twice, one of the two retrievals has no outcome: no harm.
    return Request(method="POST", path="/v1/memories/search", body=body | scope.parts(), read=decoder(m.Search))


def rerank(scope: m.Scope, query: str, documents: Sequence[str], top_n: int | None) -> Request[m.Rerank]:
    body = _given({"query": query, "documents": list(documents), "top_n": top_n})
    return Request(method="POST", path="/v1/rerank", body=body | scope.parts(), read=decoder(m.Rerank))


def outcome(
    scope: m.Scope,
    *,
    retrieval_id: str | None = None,
    rollout_id: str | None = None,
    attempt: int | None = None,
    performance: float | None = None,
    success: bool | None = None,
    cost: float | None = None,
    cost_max: float | None = None,
    trajectory: Iterable[tuple[str, str]] | None = None,
    diagnostics: Json | None = None,
    key: str | None = None,
) -> Request[m.Learned]:
    steps = [{"action": action, "observation": seen} for action, seen in trajectory or ()]
    body = _given(
        {
            "retrieval_id": retrieval_id,
            "rollout_id": rollout_id,
            "attempt": attempt,
            "performance": performance,
            "success": success,
            "cost": cost,
            "cost_max": cost_max,
            "trajectory": steps or None,
            "diagnostics": dict(diagnostics) if diagnostics else None,
        }
    )
    return Request(
        method="POST",
        path="/v1/outcomes",
        body=body | scope.parts(),
        headers=_once(key),
        read=decoder(m.Learned),
    )


def put_tasks(scope: m.Scope, tasks: Iterable[Json]) -> Request[int]:
    body = {"tasks": [dict(task) for task in tasks], **scope.parts()}
    return Request(method="POST", path="/v1/tasks", body=body, read=_value("stored", int))


def tasks(scope: m.Scope, after: str | None, limit: int | None) -> Request[m.Page[m.Task]]:
    query = _query(scope, after=after, limit=limit)
    return Request(method="GET", path="/v1/tasks", query=query, read=_page(m.Task))


def request_reference(scope: m.Scope, task: str) -> Request[bool]:
    return Request(
        method="POST",
        path="/v1/references",
        body={"task": task, **scope.parts()},
        read=_value("requested", bool),
    )


def next_probe(
    scope: m.Scope, worker: str | None, purpose: Purpose | None, lease_seconds: int | None
) -> Request[m.Probe | None]:
    return Request(
        method="GET",
        path="/v1/probes/next",
        query=_query(scope, worker=worker, purpose=purpose, lease_seconds=lease_seconds),
        read=lambda answer: decoder(m.Handout)(answer).ticket,
        # Asked twice, a second execution is handed out.
        repeatable=False,
    )


def heartbeat(scope: m.Scope, probe: m.Probe, lease_seconds: int | None) -> Request[str]:
    body = _given({"attempt": probe.attempt, "lease_seconds": lease_seconds})
    return Request(
        method="POST",
        path=f"/v1/probes/{_segment(probe.rollout_id)}/heartbeat",
        body=body | scope.parts(),
        read=_value("lease_expires_at", str),
    )


def fail_probe(scope: m.Scope, probe: m.Probe, reason: str) -> Request[bool]:
    return Request(
        method="POST",
        path=f"/v1/probes/{_segment(probe.rollout_id)}/fail",
        body={"attempt": probe.attempt, "reason": reason, **scope.parts()},
        read=_value("will_retry", bool),
        repeatable=False,
    )


def plan_probes(scope: m.Scope, budget: int | None, strategy: Strategy | None) -> Request[m.ProbePlan]:
    body = _given({"budget": budget, "strategy": strategy})
    return Request(
        method="POST",
        path="/v1/probes/plan",
        body=body | scope.parts(),
        read=decoder(m.ProbePlan),
        repeatable=False,
    )


def probes(scope: m.Scope, state: str | None, after: str | None, limit: int | None) -> Request[m.Page[m.Ticket]]:
    query = _query(scope, state=state, after=after, limit=limit)
    return Request(method="GET", path="/v1/probes", query=query, read=_page(m.Ticket))


def retrievals(scope: m.Scope, after: str | None, limit: int | None) -> Request[m.Page[m.Retrieval]]:
    query = _query(scope, after=after, limit=limit)
    return Request(method="GET", path="/v1/retrievals", query=query, read=_page(m.Retrieval))


def explain(scope: m.Scope, retrieval_id: str) -> Request[m.Explanation]:
    path = f"/v1/retrievals/{_segment(retrieval_id)}"
    return Request(method="GET", path=path, query=scope.parts(), read=decoder(m.Explanation))


def help_report(scope: m.Scope) -> Request[m.Help]:
    return Request(method="GET", path="/v1/reports/help", query=scope.parts(), read=decoder(m.Help))


def effects(scope: m.Scope, order: Literal["harm", "help"], limit: int | None) -> Request[tuple[m.MemoryEffect, ...]]:
    query = _query(scope, order=order, limit=limit)
    return Request(method="GET", path="/v1/reports/memories", query=query, read=_results(m.MemoryEffect))


def ledger(scope: m.Scope) -> Request[m.Ledger]:
    return Request(method="GET", path="/v1/reports/ledger", query=scope.parts(), read=decoder(m.Ledger))


def training(scope: m.Scope) -> Request[m.Training]:
    return Request(method="GET", path="/v1/training", query=scope.parts(), read=decoder(m.Training))


def refit(scope: m.Scope) -> Request[m.Training]:
    return Request(method="POST", path="/v1/training/refit", body=scope.parts(), read=decoder(m.Training))


def activate_scorer(scope: m.Scope, version: int | None) -> Request[m.ActiveScorer]:
    return Request(
        method="POST",
        path="/v1/scorers/activate",
        body={"version": version, **scope.parts()},
        read=decoder(m.ActiveScorer),
    )


def roll_back_scorer(scope: m.Scope) -> Request[m.ActiveScorer]:
    return Request(
        method="POST",
        path="/v1/scorers/rollback",
        body=scope.parts(),
        read=decoder(m.ActiveScorer),
        repeatable=False,
    )


def scopes(after: str | None, limit: int | None) -> Request[m.Page[m.Scope]]:
    query = _query(m.Scope(), after=after, limit=limit)
    return Request(method="GET", path="/v1/scopes", query=query, read=_page(m.Scope))
