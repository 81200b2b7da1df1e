from __future__ import annotations

import asyncio
import time

import pytest

from upliftmem import AsyncClient, Client, InvalidRequest, LocalServer, Outcome, Probe, WorkDone


def want(client: Client, count: int) -> None:
    """Makes executions that are wanted."""
    client.put_tasks([{"id": f"t{number}", "context": f"Task {number}"} for number in range(count)])
    for number in range(count):
        client.request_reference(f"t{number}")


def states(client: Client) -> list[str]:
    return sorted(ticket.state for ticket in client.page_of_probes().results)


def test_a_worker_runs_what_is_wanted_and_no_more_than_asked(client: Client) -> None:
    want(client, 3)
    seen: list[Probe] = []

    def execute(probe: Probe) -> Outcome:
        seen.append(probe)
        return Outcome(performance=1.0, cost=4, trajectory=[("look", "nothing")], diagnostics={"steps": 1})

    assert client.work(execute, probes=2) == WorkDone(completed=2)
    assert client.work(execute, probes=9) == WorkDone(completed=1)
    assert client.work(execute, probes=9) == WorkDone()
    assert {probe.task.name for probe in seen} == {"t0", "t1", "t2"}
    assert all(probe.purpose == "reference" and not probe.memories and probe.block == "" for probe in seen)
    assert states(client) == ["completed"] * 3


def test_a_failing_executor_gives_back_and_makes_no_label(client: Client) -> None:
    want(client, 1)

    def execute(_: Probe) -> bool:
        raise ZeroDivisionError("by zero")

    assert client.work(execute, probes=1) == WorkDone(failed=1)
    (ticket,) = client.page_of_probes().results
    assert ticket.state == "waiting"
    assert ticket.last_error is not None
    assert "ZeroDivisionError: by zero" in ticket.last_error
    # Attempts are bounded by the server.
    assert client.work(execute, probes=50).failed < 50
    assert states(client) == ["failed"]


def test_an_interrupted_worker_gives_back_at_once(client: Client) -> None:
    want(client, 1)

    def execute(_: Probe) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.work(execute, probes=1)
    assert states(client) == ["waiting"]


def test_an_outcome_out_of_range_is_no_label(client: Client) -> None:
    want(client, 1)
    with pytest.raises(InvalidRequest):
        client.work(lambda _: 7.0, probes=1)
    assert states(client) == ["waiting"]


def test_a_slow_execution_keeps_its_lease(client: Client) -> None:
    want(client, 1)

    def execute(_: Probe) -> bool:
        time.sleep(1.6)
        # Without heartbeats somebody else would get it now.
        assert client.next_probe() is None
        return True

    assert client.work(execute, probes=1, lease_seconds=1) == WorkDone(completed=1)


def test_a_lease_that_was_lost_is_told(client: Client) -> None:
    want(client, 1)

    def execute(probe: Probe) -> bool:
        client.fail_probe(probe, reason="somebody thought it was dead")
        other = client.next_probe()
        assert other is not None
        assert (other.rollout_id, other.attempt) == (probe.rollout_id, probe.attempt + 1)
        client.report_probe(other, Outcome(performance=0.0))
        return True

    assert client.work(execute, probes=1) == WorkDone(lost=1)
    assert states(client) == ["completed"]


@pytest.mark.parametrize(("probes", "lease"), [(-1, 600), (1, 0), (1, 86_401)])
def test_nonsense_is_refused(client: Client, probes: int, lease: int) -> None:
    with pytest.raises(ValueError, match=r"must be|say how many"):
        client.work(lambda _: True, probes=probes, lease_seconds=lease)


def test_async_workers_share_the_work(client: Client, server: LocalServer, user: str) -> None:
    want(client, 6)

    async def execute(probe: Probe) -> float:
        await asyncio.sleep(0.01)
        if probe.task.name == "t0":
            raise ZeroDivisionError
        return 0.5

    async def run() -> list[WorkDone]:
        async with AsyncClient(server.url, user_id=user) as asynchronous:
            return await asyncio.gather(*(asynchronous.work(execute, probes=10) for _ in range(3)))

    done = asyncio.run(run())
    assert sum(one.completed for one in done) == 5
    assert sum(one.failed for one in done) >= 1
    assert states(client) == ["completed"] * 5 + ["failed"]
