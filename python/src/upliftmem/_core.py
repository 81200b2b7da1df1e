"""One request core for both clients: what is sent, what an answer means, when to try again. No I/O here."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar

import httpx

from .errors import ApiError, BadAnswer, ConnectionFailed, TimedOut, UpliftMemError, kind_of

T = TypeVar("T")

# Answers of proxies that say nothing about whether the request was done.
_GATEWAY = (502, 504)


@dataclass(frozen=True, kw_only=True)
class Request(Generic[T]):
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # Whether sending it twice does no more than sending it once. What is not is tried again only if it was
    # certainly not done.
    repeatable: bool = True


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently a request is tried again.

    A 429 or 503 is tried again after its `Retry-After`; a lost connection, if the request can be repeated. Waits
    without a `Retry-After` double from `wait` to `wait_max` seconds, with jitter. A server that asks for more than
    `wait_max` seconds is not waited for: its error is raised, with `retry_after`.
    """

    retries: int = 3
    wait: float = 0.2
    wait_max: float = 10.0

    def __post_init__(self) -> None:
        if self.retries < 0 or self.wait < 0 or self.wait_max < 0:
            raise ValueError("retries, wait and wait_max must not be below 0")


class Tries(Generic[T]):
    """The tries of one request. Says after each whether it is over, or how long to wait."""

    def __init__(self, request: Request[T], policy: RetryPolicy) -> None:
        self._request = request
        self._policy = policy
        self._left = policy.retries
        self._backoff = policy.wait

    def after_answer(self, answer: httpx.Response) -> T | Wait:
        """What the answer says, or how long to wait before the next try."""
        if answer.is_success:
            return self._request.read(_json(answer))
        error = _refusal(answer)
        again = answer.status_code in (429, 503) or (answer.status_code in _GATEWAY and self._request.repeatable)
        return self._wait(error, again=again, asked=error.retry_after)

    def after_failure(self, failure: httpx.HTTPError) -> Wait:
        """How long to wait after no answer came at all."""
        where = f"{self._request.method} {self._request.path}"
        # Nothing was sent if there was no connection to send it on.
        unsent = isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        error: UpliftMemError
        if isinstance(failure, httpx.TimeoutException):
            error = TimedOut(
                f"{where}: no answer in time ({type(failure).__name__}); raise `timeout` if it may take longer"
            )
        else:
            error = ConnectionFailed(f"{where}: {failure or type(failure).__name__}; is the server running there?")
        error.__cause__ = failure
        return self._wait(error, again=unsent or self._request.repeatable, asked=None)

    def _wait(self, error: UpliftMemError, *, again: bool, asked: float | None) -> Wait:
        if not again or self._left == 0 or (asked or 0.0) > self._policy.wait_max:
            raise error
        self._left -= 1
        if asked is not None:
            return Wait(asked)
        # Jitter only, no secret.
        seconds = self._backoff * (0.5 + random.random() / 2)  # noqa: S311
        self._backoff = min(self._backoff * 2, self._policy.wait_max)
        return Wait(seconds)


@dataclass(frozen=True)
class Wait:
    """Seconds to wait before the next try."""

    seconds: float


def _json(answer: httpx.Response) -> Any:
    try:
        return json.loads(answer.content)
    except ValueError as error:
        sent = f"{answer.request.method} {answer.request.url.path}"
        raise BadAnswer(f"{sent}: the answer is not JSON ({error}); is this an UpliftMem server?") from error


def _refusal(answer: httpx.Response) -> ApiError:
    code, message, docs = f"http_{answer.status_code}", "", None
    try:
        detail = json.loads(answer.content)["error"]
        code, message, docs = str(detail["code"]), str(detail["message"]), str(detail["docs"])
    except (ValueError, TypeError, KeyError):
        # Not an answer of ours, such as a proxy's page.
        message = f"{answer.status_code} {answer.reason_phrase}: {answer.text[:200]}"
    return kind_of(answer.status_code)(
        message,
        code=code,
        status=answer.status_code,
        request_id=answer.headers.get("x-request-id"),
        docs=docs,
        retry_after=_retry_after(answer),
    )


def _retry_after(answer: httpx.Response) -> float | None:
    """Seconds, or the moment of an HTTP date; nonsense is as if it were not there."""
    text = answer.headers.get("retry-after")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        from datetime import datetime, timezone

        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        seconds = (moment - datetime.now(timezone.utc)).total_seconds()
    return max(seconds, 0.0) if seconds == seconds else None
