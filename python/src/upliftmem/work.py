"""Workers: run the executions that the server wants, and keep their leases alive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ._requests import Purpose
from .decorator import Verdict, outcome_of
from .errors import Conflict, InvalidRequest, NotFound, UpliftMemError
from .models import Probe, Scope, WorkDone

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client

_log = logging.getLogger("upliftmem")
_REASON_CHARACTERS_MAX = 500

Executor: TypeAlias = Callable[[Probe], Verdict]
AsyncExecutor: TypeAlias = Callable[[Probe], Awaitable[Verdict]]


class _Tally:
    """Counts what became of executions."""

    def __init__(self) -> None:
        self.completed = self.failed = self.lost = 0

    def done(self) -> WorkDone:
        return WorkDone(completed=self.completed, failed=self.failed, lost=self.lost)


def _check(probes: int, lease_seconds: int) -> None:
    if probes < 0:
        raise ValueError(f"probes is {probes}; say how many to run, from 0")
    if not 1 <= lease_seconds <= 86_400:
        raise ValueError(f"lease_seconds is {lease_seconds}; it must be from 1 to 86400")


def _name(worker: str | None) -> str:
    return worker or f"{socket.gethostname()}-{os.getpid()}"[:200]


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS_MAX]


def work(
    client: Client,
    executor: Executor,
    scope: Scope,
    *,
    probes: int,
    worker: str | None,
    purpose: Purpose | None,
    lease_seconds: int,
) -> WorkDone:
    """Runs up to `probes` executions, until none is wanted."""
    _check(probes, lease_seconds)
    parts, tally = scope.keywords(), _Tally()
    for _ in range(probes):
        probe = client.next_probe(worker=_name(worker), purpose=purpose, lease_seconds=lease_seconds, **parts)
        if probe is None:
            break
        try:
            with _kept_alive(client, probe, scope, lease_seconds):
                outcome = outcome_of(executor(probe))
        except BaseException as error:
            tally.failed += 1
            with _unless_lost():
                client.fail_probe(probe, reason=_reason(error), **parts)
            if not isinstance(error, Exception):
                raise
            _log.warning("execution %s failed and was given back: %s", probe.rollout_id, _reason(error))
            continue
        try:
            client.report_probe(probe, outcome, **parts)
            tally.completed += 1
        except (Conflict, NotFound) as error:
            tally.lost += 1
            _log.warning("the lease of execution %s was lost: %s", probe.rollout_id, error)
        except InvalidRequest as error:
            # An outcome out of range is a failed execution, and no label.
            tally.failed += 1
            with _unless_lost():
                client.fail_probe(probe, reason=_reason(error), **parts)
            raise
    return tally.done()


@contextlib.contextmanager
def _unless_lost() -> Iterator[None]:
    """A lease that is gone needs not be given back."""
    try:
        yield
    except UpliftMemError as error:
        _log.warning("an execution could not be given back; its lease will end: %s", error)


@contextlib.contextmanager
def _kept_alive(client: Client, probe: Probe, scope: Scope, lease_seconds: int) -> Iterator[None]:
    """Sends heartbeats from a thread while the block runs."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(lease_seconds / 3):
            try:
                client.heartbeat(probe, lease_seconds=lease_seconds, **scope.keywords())
            except (Conflict, NotFound) as error:
                _log.warning("the lease of execution %s was lost: %s", probe.rollout_id, error)
                return
            except UpliftMemError as error:
                _log.warning("a heartbeat of execution %s failed: %s", probe.rollout_id, error)

    thread = threading.Thread(target=beat, name="upliftmem-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def work_async(
    client: AsyncClient,
    executor: AsyncExecutor,
    scope: Scope,
    *,
    probes: int,
    worker: str | None,
    purpose: Purpose | None,
    lease_seconds: int,
) -> WorkDone:
    """Runs up to `probes` executions, until none is wanted."""
    _check(probes, lease_seconds)
    parts, tally = scope.keywords(), _Tally()
    for _ in range(probes):
        probe = await client.next_probe(worker=_name(worker), purpose=purpose, lease_seconds=lease_seconds, **parts)
        if probe is None:
            break
        beats = asyncio.create_task(_beat(client, probe, scope, lease_seconds))
        try:
            outcome = outcome_of(await executor(probe))
        except BaseException as error:
            tally.failed += 1
            with _unless_lost():
                await client.fail_probe(probe, reason=_reason(error), **parts)
            if not isinstance(error, Exception):
                raise
            _log.warning("execution %s failed and was given back: %s", probe.rollout_id, _reason(error))
            continue
        finally:
            beats.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beats
        try:
            await client.report_probe(probe, outcome, **parts)
            tally.completed += 1
        except (Conflict, NotFound) as error:
            tally.lost += 1
            _log.warning("the lease of execution %s was lost: %s", probe.rollout_id, error)
        except InvalidRequest as error:
            tally.failed += 1
            with _unless_lost():
                await client.fail_probe(probe, reason=_reason(error), **parts)
            raise
    return tally.done()


async def _beat(client: AsyncClient, probe: Probe, scope: Scope, lease_seconds: int) -> None:
    while True:
        await asyncio.sleep(lease_seconds / 3)
        try:
            await client.heartbeat(probe, lease_seconds=lease_seconds, **scope.keywords())
        except (Conflict, NotFound) as error:
            _log.warning("the lease of execution %s was lost: %s", probe.rollout_id, error)
            return
        except UpliftMemError as error:
            _log.warning("a heartbeat of execution %s failed: %s", probe.rollout_id, error)
