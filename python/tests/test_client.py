"""Against the real server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest

from upliftmem import AsyncClient, Client, Conflict, InvalidRequest, LocalServer, NotFound


def test_a_memory_lives(client: Client) -> None:
    added = client.add("The staging database is read-only on Sundays.", metadata={"source": "wiki"})
    assert added.status == "stored"
    memory = client.get(added.id)
    assert memory.memory == "The staging database is read-only on Sundays."
    assert memory.metadata == {"source": "wiki"}
    assert memory.user_id == client.scope().user_id
    assert client.add(memory.memory).status == "duplicate"

    changed = client.update(added.id, metadata={"source": "mail"}, expires_at="2100-01-01")
    assert changed.id == added.id
    assert changed.metadata == {"source": "mail"}
    assert changed.expires_at is not None
    assert client.update(added.id, expires_at=None).expires_at is None

    newer = client.update(added.id, text="The staging database is read-only at weekends.")
    assert newer.id != added.id
    assert client.get(added.id).superseded_by == newer.id
    assert [version.id for version in client.history(newer.id)] == [added.id, newer.id]

    assert client.quarantine(newer.id, reason="doubtful").status == "quarantined"
    assert client.release(newer.id).status == "active"
    client.delete(newer.id)
    with pytest.raises(NotFound) as caught:
        client.get(newer.id)
    assert caught.value.code == "not_found"
    assert caught.value.request_id


def test_many_memories_and_pages(client: Client) -> None:
    texts = [f'Fact number {number}: Ünïcode <b>& "quotes"</b> {number * 7}' for number in range(7)]
    added = client.add_many([*texts, {"text": "With metadata", "metadata": {"n": 1}}, "   "])
    assert [one.status for one in added] == ["stored"] * 8 + ["failed"]
    assert added[-1].error
    first = client.page_of_memories(limit=3)
    assert [memory.memory for memory in first.results] == texts[:3]
    assert first.next is not None
    assert [memory.memory for memory in client.memories()] == [*texts, "With metadata"]
    said = client.add_messages([{"role": "system", "content": "no"}, {"role": "user", "content": "I like tea"}])
    assert [one.memory for one in said] == ["I like tea"]
    # This server has no writer.
    with pytest.raises(InvalidRequest, match="infer = false"):
        client.add_messages([{"role": "user", "content": "I like coffee"}], infer=True)
    older, newer = added[0].id, added[1].id
    assert client.supersede(older, by=newer).superseded_by == newer
    assert [memory.id for memory in client.memories(status="superseded")] == [older]


def test_the_same_key_is_done_once(client: Client) -> None:
    first = client.add("Once", idempotency_key="k1")
    assert client.add("Once", idempotency_key="k1") == first
    with pytest.raises(Conflict) as caught:
        client.add("Another", idempotency_key="k1")
    assert caught.value.code == "idempotency_conflict"


def test_scopes_do_not_see_each_other(client: Client, server: LocalServer) -> None:
    mine = client.add("Mine")
    with pytest.raises(NotFound):
        client.get(mine.id, user_id="somebody-else")
    with Client(server.url, agent_id="x") as other:
        assert other.scope(user_id="y").parts() == {"agent_id": "x", "user_id": "y"}
        assert mine.id not in [memory.id for memory in other.memories()]
    assert client.scope() in [type(client.scope())(**scope.keywords()) for scope in client.page_of_scopes().results]


def test_search_outcome_and_reports(client: Client) -> None:
    client.add_many(["Routers reset with a paper clip.", "Tea is served at four.", "The lift is slow."])
    found = client.search("reset the router", task="router", explain=True, top_k=2, budget_ms=5_000)
    assert found.candidates == 3
    assert len(found.results) <= 2
    assert found.runners_up is not None
    learned = client.outcome(found.retrieval_id, success=True, cost=3, trajectory=[("press", "beep")])
    assert learned.utility > 0
    why = client.explain(found.retrieval_id)
    assert why.query == "reset the router"
    assert why.outcome is not None
    assert why.outcome.performance == 1.0
    assert [one.id for one in client.page_of_retrievals().results] == [found.retrieval_id]
    assert client.does_memory_help().verdict
    assert client.ledger().executions >= 1
    assert client.effects(order="help") is not None
    assert client.refit().active.labels >= 0
    assert client.training().refits >= 0
    ranked = client.rerank("reset the router", ["Routers have buttons.", "Cats purr."], top_n=1)
    assert len(ranked.results) == 1
    brought = client.search("reset", candidates=[{"id": "theirs", "text": "Hold the button."}])
    assert brought.candidates == 1
    with pytest.raises(NotFound):
        client.outcome("00000000-0000-7000-8000-000000000000", success=True)
    with pytest.raises(InvalidRequest):
        client.search("   ")


def test_tasks_and_references(client: Client) -> None:
    assert client.put_tasks([{"id": "t1", "context": "Do it"}, {"id": "t2", "context": "Do that"}]) == 2
    assert client.put_tasks([{"id": "t1", "context": "Do it"}]) == 0
    assert {task.name for task in client.page_of_tasks().results} == {"t1", "t2"}
    assert client.request_reference("t1") is True
    assert client.request_reference("t1") is False
    with pytest.raises(NotFound):
        client.request_reference("no such task")


def test_every_request_is_one_that_the_server_documents(server: LocalServer) -> None:
    document = httpx.get(f"{server.url}/openapi.json", trust_env=False).json()
    documented = {
        (method.upper(), re.sub(r"\{\w+\}", "*", path))
        for path, methods in document["paths"].items()
        for method in methods
    }
    source = (Path(__file__).parent.parent / "src/upliftmem/_requests.py").read_text()
    used = set()
    for method, path in re.findall(r'method="(\w+)",\s*path=f?"([^"]+)"', source):
        used.add((method, re.sub(r"\{[^}]*\}", "*", path)))
    assert len(used) > 15
    assert used <= documented


def test_keys_are_sent_and_refusals_are_told(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json
    import subprocess

    from upliftmem import NotAllowed

    monkeypatch.setenv("UPLIFTMEM_SERVER_AUTH", "on")
    server = LocalServer(tmp_path, binary)
    try:
        with Client(server.url, agent_id="support") as stranger, pytest.raises(NotAllowed) as caught:
            stranger.add("x")
        assert caught.value.code == "unauthorized"
        config = ["--config", str(tmp_path / "upliftmem.toml")]
        made = subprocess.run(
            [binary, "--json", *config, "keys", "create", "me", "--agent-id", "support"],
            capture_output=True,
            check=True,
        )
        key = json.loads(made.stdout)["key"]
        with Client(server.url, key) as known:
            assert known.add("x").status == "stored"
            with pytest.raises(NotAllowed) as caught:
                known.add("x", agent_id="other")
            assert caught.value.code == "scope_forbidden"
        monkeypatch.setenv("UPLIFTMEM_URL", server.url)
        monkeypatch.setenv("UPLIFTMEM_KEY", key)
        with Client() as from_environment:
            assert [memory.memory for memory in from_environment.memories()] == ["x"]
    finally:
        server.stop()


def test_the_async_client_does_the_same(server: LocalServer, user: str) -> None:
    async def run() -> None:
        async with AsyncClient(server.url, user_id=user) as client:
            added = await client.add_many([f"Note {number}" for number in range(5)])
            assert [one.status for one in added] == ["stored"] * 5
            assert [memory.id async for memory in client.memories()] == [one.id for one in added]
            found = await asyncio.gather(*(client.search(f"note {number}") for number in range(8)))
            assert len({one.retrieval_id for one in found}) == 8
            await client.delete(added[0].id)
            with pytest.raises(NotFound):
                await client.get(added[0].id)

    asyncio.run(run())
