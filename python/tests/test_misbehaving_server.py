from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest

from broken import Answer, broken
from upliftmem import (
    AsyncClient,
    BadAnswer,
    Client,
    ConnectionFailed,
    InvalidRequest,
    NotAllowed,
    Overloaded,
    RetryPolicy,
    ServerFailed,
    TimedOut,
    UpliftMemError,
)

QUICK = RetryPolicy(retries=2, wait=0.01, wait_max=2.0)
ADDED = json.dumps({"results": [{"id": "m1", "memory": "x", "event": "ADD", "status": "stored"}]}).encode()


def refusal(code: str, message: str = "no") -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "docs": "link"}, "detail": message}).encode()


def client(url: str, **options: object) -> Client:
    return Client(url, user_id="a", retry=QUICK, **options)  # type: ignore[arg-type]


def test_a_busy_server_is_asked_again_after_the_time_it_names() -> None:
    busy = Answer(429, refusal("rate_limited"), {"retry-after": "1"})
    with broken(busy, Answer(body=ADDED)) as server, client(server.url) as c:
        began = time.monotonic()
        assert c.add("x").id == "m1"
        assert time.monotonic() - began >= 1.0
        assert len(server.seen) == 2


def test_a_request_that_is_sent_again_has_the_same_idempotency_key() -> None:
    busy = Answer(503, refusal("overloaded"), {"retry-after": "0"})
    with broken(busy, busy, Answer(body=ADDED)) as server, client(server.url) as c:
        c.add("x")
        c.add("x")
    keys = [seen.headers["idempotency-key"] for seen in server.seen]
    assert len(keys) == 4
    assert keys[0] == keys[1] == keys[2]
    assert keys[3] != keys[0]


def test_a_key_of_ones_own_is_sent() -> None:
    with broken(Answer(body=ADDED)) as server, client(server.url) as c:
        c.add("x", idempotency_key="mine")
    assert server.seen[0].headers["idempotency-key"] == "mine"


def test_patience_ends() -> None:
    busy = Answer(503, refusal("overloaded", "too many"), {"retry-after": "0", "x-request-id": "r1"})
    with broken(busy) as server, client(server.url) as c, pytest.raises(Overloaded) as caught:
        c.get("m1")
    assert len(server.seen) == 3
    assert (caught.value.code, caught.value.status, caught.value.request_id) == ("overloaded", 503, "r1")
    assert "too many" in str(caught.value)


def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for() -> None:
    busy = Answer(429, refusal("rate_limited"), {"retry-after": "3600"})
    with broken(busy) as server, client(server.url) as c, pytest.raises(Overloaded) as caught:
        c.get("m1")
    assert caught.value.retry_after == 3600
    assert len(server.seen) == 1


@pytest.mark.parametrize("nonsense", ["soon", "nan", "", "Wed, 21 Oct 2015 07:28:00 GMT", "-5"])
def test_a_retry_after_that_says_nothing_is_no_obstacle(nonsense: str) -> None:
    busy = Answer(429, refusal("rate_limited"), {"retry-after": nonsense})
    with broken(busy, Answer(body=ADDED)) as server, client(server.url) as c:
        assert c.add("x").status == "stored"


def test_a_defect_of_the_server_is_told_at_once() -> None:
    with (
        broken(Answer(500, refusal("internal"))) as server,
        client(server.url) as c,
        pytest.raises(ServerFailed) as caught,
    ):
        c.search("x")
    assert caught.value.code == "internal"
    assert len(server.seen) == 1


def test_a_proxys_page_is_no_json() -> None:
    page = Answer(403, b"<html>go away</html>")
    with broken(page) as server, client(server.url) as c, pytest.raises(NotAllowed, match="go away") as caught:
        c.get("m1")
    assert caught.value.code == "http_403"
    assert len(server.seen) == 1


@pytest.mark.parametrize("body", [b'{"results": [{"id":', b"", b"\xff\xfe", b"null", b"[]", b'{"results": 3}'])
def test_an_answer_that_is_not_what_was_promised_is_a_bad_answer(body: bytes) -> None:
    with broken(Answer(body=body)) as server, client(server.url) as c:
        for ask in (lambda: c.add("x"), lambda: c.page_of_memories(), lambda: c.search("x"), lambda: c.put_tasks([])):
            with pytest.raises(BadAnswer):
                ask()


def test_a_field_of_the_wrong_kind_is_named() -> None:
    wrong = json.dumps({"results": [{"id": 7, "memory": "x", "event": "ADD", "status": "stored"}]}).encode()
    with broken(Answer(body=wrong)) as server, client(server.url) as c, pytest.raises(BadAnswer, match=r"Added\.id"):
        c.add("x")


def test_an_answer_that_breaks_off_is_asked_for_again_if_that_does_no_harm() -> None:
    cut = Answer(body=ADDED[:10], missing=100)
    with broken(cut, Answer(body=ADDED)) as server, client(server.url) as c:
        assert c.add("x").id == "m1"
        assert len(server.seen) == 2
    with broken(cut) as server, client(server.url) as c, pytest.raises(ConnectionFailed):
        c.next_probe()
    assert len(server.seen) == 1


def test_a_slow_server_is_given_up() -> None:
    with (
        broken(Answer(delay=0.5)) as server,
        Client(server.url, user_id="a", timeout=0.05, retry=RetryPolicy(retries=0)) as c,
        pytest.raises(TimedOut, match="timeout"),
    ):
        c.get("m1")


def test_no_server_is_told_with_a_hint() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with client(url) as c, pytest.raises(ConnectionFailed, match="is the server running"):
            c.get("m1")


def test_ids_can_not_reach_other_routes() -> None:
    with broken(Answer(404, refusal("not_found"))) as server, client(server.url) as c:
        for nasty in ("../keys", "a/b?c#d", "ü"):
            with pytest.raises(UpliftMemError):
                c.get(nasty)
    for seen in server.seen:
        path = seen.path.split("?")[0]
        assert path.startswith("/v1/memories/")
        assert path.count("/") == 3


def test_the_async_client_waits_and_gives_up_alike() -> None:
    async def run() -> None:
        busy = Answer(429, refusal("rate_limited"), {"retry-after": "0"})
        with broken(busy, Answer(body=ADDED)) as server:
            async with AsyncClient(server.url, user_id="a", retry=QUICK) as c:
                assert (await c.add("x")).id == "m1"
            assert len(server.seen) == 2
        with broken(Answer(422, refusal("invalid_request"))) as server:
            async with AsyncClient(server.url, user_id="a", retry=QUICK) as c:
                with pytest.raises(InvalidRequest):
                    await c.add("x")
        with broken(Answer(delay=0.5)) as server:
            async with AsyncClient(server.url, timeout=0.05, retry=RetryPolicy(retries=0)) as c:
                with pytest.raises(TimedOut):
                    await c.search("x")

    asyncio.run(run())


def test_an_optional_memory_never_stops_the_agent() -> None:
    for answer in (Answer(500, refusal("internal")), Answer(503, refusal("overloaded"), {"retry-after": "0"})):
        with broken(answer) as server, client(server.url) as c:
            with c.episode("x", required=False) as ep:
                assert ep.block == ""
                assert ep.abstained
                assert ep.report(success=True) is None
            with pytest.raises(UpliftMemError), c.episode("x"):
                pass
    # A wrong request is a mistake of the caller, whatever memory is worth.
    with (
        broken(Answer(422, refusal("invalid_request"))) as server,
        client(server.url) as c,
        pytest.raises(InvalidRequest),
        c.episode("x", required=False),
    ):
        pass


def test_what_the_agent_raised_is_not_hidden_by_a_failed_report() -> None:
    found = json.dumps(
        {
            "retrieval_id": "r",
            "task_id": "t",
            "abstained": True,
            "predicted_uplift": 0,
            "scorer": "s",
            "results": [],
            "candidates": 0,
            "sets_scored": 0,
            "budget_hit": False,
            "timings_ms": {},
        }
    ).encode()
    with (
        broken(Answer(body=found), Answer(500, refusal("internal"))) as server,
        client(server.url) as c,
        pytest.raises(ZeroDivisionError),
        c.episode("x"),
    ):
        raise ZeroDivisionError
    assert [seen.path for seen in server.seen] == ["/v1/memories/search", "/v1/outcomes"]
