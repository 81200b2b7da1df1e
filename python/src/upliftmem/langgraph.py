"""A LangGraph store on UpliftMem (`pip install upliftmem[langgraph]`).

>>> store = UpliftMemStore(client, agent_id="support")  # doctest: +SKIP
>>> graph = builder.compile(store=store)  # doctest: +SKIP
>>> with store.episode() as ep:  # doctest: +SKIP
...     answer = graph.invoke({"task": task})
...     ep.report(success=check(answer))

A namespace is a scope of its own: its labels, joined by dots, are the scope's `user_id` (or the part that
`namespace_part` names), so that nothing is found across namespaces by accident. A value's text is what is searched; the
value itself is kept beside it. Searching with a query returns the set of items that is expected to help, maybe none.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)

from .client import Client
from .errors import Misuse, NotFound
from .gather import Gathered, note
from .models import FoundMemory, Memory, Scope, ScopeParts

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["UpliftMemStore"]

Namespace: TypeAlias = tuple[str, ...]
Items: TypeAlias = dict[str, dict[str, Any]]

# Where an item is kept in the metadata of its memory.
_ITEMS = "langgraph"
# Why a memory is out of recall whose items are all put with `index=False`.
_HIDDEN = "put with index=False"
_PAGE_ROWS = 500


class UpliftMemStore(BaseStore):
    """Items of LangGraph as memories of UpliftMem; see the module.

    `text` makes the text that is searched of a value; a put's own `index` paths come before it. A search with a query
    over more than `namespaces_max` namespaces is refused: name a longer prefix.
    """

    __slots__ = ("_client", "_known", "_lock", "_namespaces_max", "_part", "_places", "_scope", "_text")

    def __init__(
        self,
        client: Client,
        *,
        namespace_part: Literal["user_id", "agent_id", "run_id", "app_id"] = "user_id",
        text: Callable[[dict[str, Any]], str] | None = None,
        namespaces_max: int = 20,
        **scope: Unpack[ScopeParts],
    ) -> None:
        if scope.get(namespace_part) is not None:
            raise Misuse(f"{namespace_part} is what namespaces become; give another part, or another namespace_part")
        self._client = client
        self._part = namespace_part
        self._scope = Scope(**scope)
        self._text = text or text_of
        self._namespaces_max = namespaces_max
        self._lock = threading.Lock()
        # Where items were last seen. Only a hint: every read asks the server.
        self._known: dict[tuple[Namespace, str], str] = {}
        # Namespaces in the order in which the server first saw them, and how far the list was read.
        self._places: tuple[set[Namespace], str | None] = (set(), None)

    def episode(self, *, report_failure: bool = True) -> Gathered:
        """A run of a graph: what is reported at its end reaches every search that the graph made in it."""
        return Gathered(self._client.outcome, report_failure=report_failure)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads see what was there before; of several puts of one key the last one counts."""
        results: list[Result] = []
        puts: dict[tuple[Namespace, str], PutOp] = {}
        for op in ops:
            result: Result = None
            if isinstance(op, GetOp):
                result = self._get(op.namespace, op.key)
            elif isinstance(op, SearchOp):
                result = self._search(op)
            elif isinstance(op, ListNamespacesOp):
                result = self._list_namespaces(op)
            elif isinstance(op, PutOp):
                puts[(op.namespace, op.key)] = op
            else:
                raise Misuse(f"{type(op).__name__} is not an operation that this store knows")
            results.append(result)
        for op in puts.values():
            self._put(op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _within(self, namespace: Namespace) -> Scope:
        if not namespace or any(not label or "." in label for label in namespace):
            raise Misuse(f"{namespace!r} is no namespace: it needs labels that are not empty and have no dots")
        return replace(self._scope, **{self._part: ".".join(namespace)})

    def _memories(self, namespace: Namespace) -> Iterator[Memory]:
        """The current memories of a namespace, in creation order."""
        after: str | None = None
        while True:
            page = self._client.page_of_memories(after=after, limit=_PAGE_ROWS, **self._within(namespace).keywords())
            for memory in page.results:
                if _current(memory):
                    with self._lock:
                        self._known.update({(namespace, key): memory.id for key in _items(memory)})
                    yield memory
            if page.next is None:
                return
            after = page.next

    def _find(self, namespace: Namespace, key: str) -> Memory | None:
        """The memory that holds an item."""
        with self._lock:
            hint = self._known.get((namespace, key))
        if hint is not None:
            try:
                memory = self._client.get(hint, **self._within(namespace).keywords())
            except NotFound:
                pass
            else:
                if _current(memory) and key in _items(memory):
                    return memory
        found = [memory for memory in self._memories(namespace) if key in _items(memory)]
        # A put that was cut off leaves the item in two memories: the newer one counts.
        return max(found, key=lambda memory: str(_items(memory)[key]["updated_at"]), default=None)

    def _get(self, namespace: Namespace, key: str) -> Item | None:
        memory = self._find(namespace, key)
        return None if memory is None else Item(namespace=namespace, key=key, **_fields(_items(memory)[key]))

    def _put(self, op: PutOp) -> None:
        scope = self._within(op.namespace).keywords()
        before = self._find(op.namespace, op.key)
        if op.value is None:
            if before is not None:
                self._leave(before, op.key, scope)
            return
        now = datetime.now(timezone.utc).isoformat()
        created = now if before is None else _items(before)[op.key]["created_at"]
        item = {"value": op.value, "created_at": created, "updated_at": now, "hidden": op.index is False}
        text = self._text_of(op)
        if before is not None and before.memory == text:
            self._hold(before, {**_items(before), op.key: item}, scope)
            return
        added = self._client.add(text, metadata={_ITEMS: {op.key: item}}, **scope)
        memory = self._client.get(added.id, **scope) if added.status in ("stored", "duplicate") else None
        if memory is None or not _current(memory):
            raise Misuse(f"item {op.key!r} of {op.namespace!r} was not stored ({added.status}): {added.error}")
        # Another key of this namespace may have a value with the same text: one memory holds both.
        self._hold(memory, {**_items(memory), op.key: item}, scope)
        if before is not None:
            self._leave(before, op.key, scope)
        with self._lock:
            self._known[(op.namespace, op.key)] = added.id

    def _leave(self, memory: Memory, key: str, scope: ScopeParts) -> None:
        """Takes an item out of a memory; one that holds nothing more is removed."""
        held = {name: item for name, item in _items(memory).items() if name != key}
        if held:
            self._hold(memory, held, scope)
        else:
            self._client.delete(memory.id, **scope)

    def _hold(self, memory: Memory, items: Items, scope: ScopeParts) -> None:
        """Makes these the items of a memory, and keeps it out of recall if none of them is to be found."""
        if memory.metadata.get(_ITEMS) != items:
            self._client.update(memory.id, metadata={**memory.metadata, _ITEMS: items}, **scope)
        hidden = all(item.get("hidden") for item in items.values())
        if hidden and memory.status == "active":
            self._client.quarantine(memory.id, reason=_HIDDEN, **scope)
        elif not hidden and memory.status == "quarantined":
            self._client.release(memory.id, **scope)

    def _text_of(self, op: PutOp) -> str:
        value: dict[str, Any] = dict(op.value or {})
        if isinstance(op.index, list):
            texts = [text for path in op.index for text in get_text_at_path(value, tokenize_path(path))]
            if texts:
                return "\n".join(texts)
        return self._text(value)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        namespaces = self._under(op.namespace_prefix)
        if op.query is None:
            found = [
                SearchItem(namespace=namespace, key=key, **_fields(item))
                for namespace in namespaces
                for memory in self._memories(namespace)
                for key, item in _items(memory).items()
                if _matches(item["value"], op.filter)
            ]
            # The newest first, as a reader of a page expects.
            found.sort(key=lambda item: item.updated_at, reverse=True)
        else:
            if len(namespaces) > self._namespaces_max:
                raise Misuse(
                    f"{op.namespace_prefix!r} holds {len(namespaces)} namespaces, more than namespaces_max = "
                    f"{self._namespaces_max}; search with a longer prefix"
                )
            found = [item for namespace in namespaces for item in self._helping(namespace, op, op.query)]
            if len(namespaces) > 1:
                found.sort(key=lambda item: item.score or 0.0, reverse=True)
        return found[op.offset : op.offset + op.limit]

    def _helping(self, namespace: Namespace, op: SearchOp, query: str) -> Iterator[SearchItem]:
        """Items of the set that is expected to help, in the order in which they were chosen."""
        candidates: list[str] | None = None
        if op.filter:
            candidates = [
                memory.id
                for memory in self._memories(namespace)
                if memory.status == "active"
                and any(_matches(item["value"], op.filter) for item in _items(memory).values())
            ]
            if not candidates:
                return
        scope = self._within(namespace)
        search = self._client.search(query, top_k=op.limit + op.offset, candidates=candidates, **scope.keywords())
        note(search, scope)
        for found in search.results:
            for key, item in _items(found).items():
                if not item.get("hidden") and _matches(item["value"], op.filter):
                    yield SearchItem(namespace=namespace, key=key, **_fields(item), score=found.gain)

    def _under(self, prefix: Namespace) -> list[Namespace]:
        return sorted(found for found in self._namespaces() if found[: len(prefix)] == tuple(prefix))

    def _namespaces(self) -> set[Namespace]:
        """Every namespace that anything was ever written to. Scopes are only ever added, so only new ones are read."""
        with self._lock:
            known, after = set(self._places[0]), self._places[1]
        while True:
            page = self._client.page_of_scopes(after=after, limit=_PAGE_ROWS)
            for scope in page.results:
                name = getattr(scope, self._part)
                if name is not None and self._client_scope(scope):
                    known.add(tuple(name.split(".")))
            if page.next is None:
                break
            after = page.next
        with self._lock:
            self._places = (known, after)
        return known

    def _client_scope(self, scope: Scope) -> bool:
        """Whether a scope is one of this store's: all its parts but the namespace are the store's own."""
        other = {name: part for name, part in scope.parts().items() if name != self._part}
        ours = self._client.scope(**self._scope.keywords()).parts()
        ours.pop(self._part, None)
        return other == ours

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        matching = [
            namespace
            for namespace in self._namespaces()
            if all(_fits(condition, namespace) for condition in op.match_conditions or ())
            and any(True for memory in self._memories(namespace) if _items(memory))
        ]
        shown = sorted({namespace[: op.max_depth] for namespace in matching})
        return shown[op.offset : op.offset + op.limit]


def text_of(value: Mapping[str, Any]) -> str:
    """The text of a value: its `text`, `memory`, `content` or `data`, its only text, else all of it as JSON."""
    for name in ("text", "memory", "content", "data"):
        if isinstance(value.get(name), str):
            return str(value[name])
    if len(value) == 1:
        (only,) = value.values()
        if isinstance(only, str):
            return only
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _current(memory: Memory) -> bool:
    """Whether a memory holds items now."""
    return memory.status == "active" or (memory.status == "quarantined" and memory.quarantine_reason == _HIDDEN)


def _items(memory: Memory | FoundMemory) -> Items:
    """The items that a memory holds. One that was not put by LangGraph is an item under its own id."""
    held = memory.metadata.get(_ITEMS)
    if isinstance(held, dict):
        return held
    at = memory.created_at
    return {memory.id: {"value": {"text": memory.memory}, "created_at": at, "updated_at": at}}


def _fields(item: Mapping[str, Any]) -> dict[str, Any]:
    def moment(name: str) -> datetime:
        # Before Python 3.11, fromisoformat does not know Z.
        return datetime.fromisoformat(str(item[name]).replace("Z", "+00:00"))

    return {"value": item["value"], "created_at": moment("created_at"), "updated_at": moment("updated_at")}


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: bool(value == wanted),
    "$ne": lambda value, wanted: bool(value != wanted),
    "$gt": lambda value, wanted: value is not None and float(value) > float(wanted),
    "$gte": lambda value, wanted: value is not None and float(value) >= float(wanted),
    "$lt": lambda value, wanted: value is not None and float(value) < float(wanted),
    "$lte": lambda value, wanted: value is not None and float(value) <= float(wanted),
}


def _matches(value: Any, wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value has what a filter asks for, field by field."""
    return all(_equals(value.get(name), one) for name, one in (wanted or {}).items())


def _equals(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if any(name.startswith("$") for name in wanted):
        unknown = sorted(set(wanted) - set(_OPERATORS))
        if unknown:
            raise Misuse(f"{unknown[0]!r} is not an operator of filters; there are {', '.join(_OPERATORS)}")
        return all(_OPERATORS[name](value, operand) for name, operand in wanted.items())
    return isinstance(value, dict) and _matches(value, wanted)


def _fits(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
