"""LangGraph's own behaviour, on the real server, with a real graph."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from test_episode import teach
from upliftmem import Client, LocalServer, Misuse
from upliftmem.langgraph import UpliftMemStore


@pytest.fixture
def store(server: LocalServer, user: str) -> UpliftMemStore:
    return UpliftMemStore(Client(server.url, agent_id=user))


def both(store: UpliftMemStore) -> list[BaseStore]:
    """Our store beside LangGraph's own: what it does is the specification."""
    return [store, InMemoryStore()]


def plain(items: list[Any]) -> list[tuple[tuple[str, ...], str, dict[str, Any]]]:
    return sorted((item.namespace, item.key, item.value) for item in items)


def test_it_keeps_items_as_langgraphs_own_store_does(store: UpliftMemStore) -> None:
    seen = []
    for one in both(store):
        alice, notes = ("users", "alice"), ("users", "alice", "notes")
        one.put(alice, "tea", {"text": "likes tea", "rank": 1})
        one.put(alice, "coffee", {"text": "hates coffee", "rank": 2, "who": {"name": "Al"}})
        one.put(alice, "again", {"text": "likes tea", "rank": 3})
        one.put(("users", "bob"), "tea", {"text": "likes tea", "rank": 9})
        one.put(notes, "n", {"data": {"nested": ["Ünï", None]}, "rank": 0})
        one.put(alice, "coffee", {"text": "hates coffee", "rank": 20, "who": {"name": "Al"}})
        one.put(alice, "tea", {"text": "likes green tea", "rank": 4})
        one.put(alice, "tea", {"text": "likes tea", "rank": 5})
        one.put(alice, "gone", {"text": "soon"})
        one.delete(alice, "gone")
        one.delete(alice, "never there")
        item = one.get(alice, "tea")
        assert item is not None
        assert item.updated_at >= item.created_at
        seen.append(
            [
                item.value,
                one.get(alice, "gone"),
                one.get(alice, "nothing"),
                plain(one.search(alice)),
                plain(one.search(("users",))),
                plain(one.search((), limit=100)),
                plain(one.search(alice, filter={"rank": {"$gte": 5}})),
                plain(one.search(alice, filter={"who": {"name": "Al"}})),
                plain(one.search(alice, filter={"rank": {"$ne": 5}, "text": "likes tea"})),
                one.list_namespaces(),
                one.list_namespaces(prefix=("users", "*"), max_depth=2),
                one.list_namespaces(suffix=("notes",)),
                len(one.search(("users",), limit=2)),
                len(one.search(("users",), limit=10, offset=4)),
            ]
        )
    assert seen[0] == seen[1]


def test_a_batch_reads_what_was_there_before(store: UpliftMemStore) -> None:
    for one in both(store):
        one.put(("a",), "k", {"text": "old"})
        results = one.batch(
            [
                PutOp(("a",), "k", {"text": "newer"}),
                GetOp(("a",), "k"),
                PutOp(("a",), "k", {"text": "newest"}),
                SearchOp(("a",)),
            ]
        )
        assert results[0] is None
        assert results[1].value == {"text": "old"}  # type: ignore[union-attr]
        assert [item.value for item in results[3]] == [{"text": "old"}]  # type: ignore[union-attr]
        item = one.get(("a",), "k")
        assert item is not None
        assert item.value == {"text": "newest"}


def test_other_processes_are_seen(store: UpliftMemStore, server: LocalServer, user: str) -> None:
    other = UpliftMemStore(Client(server.url, agent_id=user))
    store.put(("a",), "k", {"text": "one"})
    assert other.get(("a",), "k") is not None
    other.put(("a",), "k", {"text": "two"})
    other.put(("a",), "same", {"text": "two"})
    first, second = store.get(("a",), "k"), store.get(("a",), "same")
    assert first is not None
    assert second is not None
    assert first.value == second.value == {"text": "two"}
    other.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    assert store.get(("a",), "same") is not None


def test_what_was_not_put_by_langgraph_is_an_item_too(store: UpliftMemStore, server: LocalServer, user: str) -> None:
    with Client(server.url, agent_id=user, user_id="a.b") as client:
        added = client.add("by hand")
    item = store.get(("a", "b"), added.id)
    assert item is not None
    assert item.value == {"text": "by hand"}


def test_names_that_can_not_be_kept_are_refused(store: UpliftMemStore, server: LocalServer) -> None:
    for bad in ((), ("",), ("a.b",)):
        with pytest.raises((Misuse, ValueError)):
            store.put(bad, "k", {"text": "x"})
        with pytest.raises(Misuse):
            store.batch([PutOp(bad, "k", {"text": "x"})])
    store.put(("a",), "k", {"text": "x"})
    with pytest.raises(Misuse, match="operator"):
        store.search(("a",), filter={"text": {"$like": "x"}})
    with pytest.raises(Misuse, match="namespace_part"):
        UpliftMemStore(Client(server.url), user_id="x")


def test_an_item_without_index_is_kept_and_never_found(store: UpliftMemStore) -> None:
    store.put(("a",), "hidden", {"text": "secret plan"}, index=False)
    item = store.get(("a",), "hidden")
    assert item is not None
    assert store.search(("a",), query="secret plan") == []
    with store.episode() as ep:
        store.search(("a",), query="secret plan")
        assert [one.candidates for one in ep.retrievals] == [0]
        ep.report(success=True)


def test_too_many_namespaces_for_a_query_are_refused(server: LocalServer, user: str) -> None:
    store = UpliftMemStore(Client(server.url, agent_id=user), namespaces_max=2)
    for number in range(3):
        store.put(("n", str(number)), "k", {"text": f"x {number}"})
    with pytest.raises(Misuse, match="namespaces_max"):
        store.search(("n",), query="x")
    assert len(store.search(("n",))) == 3


class State(TypedDict, total=False):
    task: str
    notes: list[str]
    answer: str


def graph(store: BaseStore, key: str) -> Any:
    """Looks for notes, then acts: right if it was told how."""

    def recall(state: State, *, store: BaseStore) -> State:
        found = store.search(("vault",), query=state["task"])
        return {"notes": [item.value["text"] for item in found]}

    def act(state: State) -> State:
        if state["task"] == "break":
            raise ZeroDivisionError
        return {"answer": "open" if any(key in note for note in state["notes"]) else "closed"}

    builder = StateGraph(State)
    builder.add_node("recall", recall)
    builder.add_node("act", act)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "act")
    builder.add_edge("act", END)
    return builder.compile(store=store)


def test_a_real_graph_uses_what_was_learned(store: UpliftMemStore, server: LocalServer, user: str) -> None:
    with Client(server.url, agent_id=user) as client:
        teach(client, "press the red button", user_id="vault")
        compiled = graph(store, "red button")
        with store.episode() as ep:
            state = compiled.invoke({"task": "open the vault"})
            assert state["answer"] == "open"
            assert len(ep.retrievals) == 1
            (learned,) = ep.report(success=True, cost=2)
        assert learned.utility > 0
        why = client.explain(ep.retrievals[0].retrieval_id, user_id="vault")
        assert why.outcome is not None
        assert why.outcome.performance == 1.0

        with pytest.raises(ZeroDivisionError), store.episode() as ep:
            compiled.invoke({"task": "break"})
        why = client.explain(ep.retrievals[0].retrieval_id, user_id="vault")
        assert why.outcome is not None
        assert why.outcome.performance == 0.0


def test_a_real_graph_runs_async(store: UpliftMemStore, server: LocalServer, user: str) -> None:
    with Client(server.url, agent_id=user) as client:
        teach(client, "press the red button", user_id="vault")

    async def recall(state: State, *, store: BaseStore) -> State:
        await store.aput(("log",), "last", {"text": state["task"]})
        found = await store.asearch(("vault",), query=state["task"])
        return {"notes": [item.value["text"] for item in found]}

    builder = StateGraph(State)
    builder.add_node("recall", recall)
    builder.add_edge(START, "recall")
    compiled = builder.compile(store=store)

    async def run() -> Any:
        with store.episode() as ep:
            state = await compiled.ainvoke({"task": "open the vault"})
            assert len(ep.retrievals) == 1
            ep.report(success=True)
            return state

    assert asyncio.run(run())["notes"] == ["press the red button"]
    assert store.get(("log",), "last") is not None
