"""What can go wrong, by who must act.

Every error is an `UpliftMemError`. Those that the server answered with have its stable `code`; the message says
what is wrong and what to do.
"""

from __future__ import annotations


class UpliftMemError(Exception):
    """Anything that this package raises on purpose."""


class ConnectionFailed(UpliftMemError):
    """The server did not answer: it can not be reached, or it broke off."""


class TimedOut(ConnectionFailed):
    """The server did not answer in time."""


class BadAnswer(UpliftMemError):
    """The server answered with something that is not what its API promises."""


class Misuse(UpliftMemError, ValueError):
    """A call that can not mean anything, such as a second report of one episode."""


class ServerNotStarted(UpliftMemError):
    """A local server was needed and could not be started."""


class ApiError(UpliftMemError):
    """The server refused a request.

    `code` is a word that never changes its meaning (`not_found`, `scope_missing`, ...), `request_id` finds the
    request in the server's log, `docs` says where the code is explained.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        request_id: str | None = None,
        docs: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} [{code}]")
        self.message = message
        self.code = code
        self.status = status
        self.request_id = request_id
        self.docs = docs
        self.retry_after = retry_after


class InvalidRequest(ApiError):
    """The request can not be done as it is: change it."""


class NotAllowed(ApiError):
    """The key is missing, unknown, or does not allow this."""


class NotFound(ApiError):
    """There is no such thing in this scope."""


class Conflict(ApiError):
    """It contradicts what was done before."""


class Overloaded(ApiError):
    """The server is too busy or not ready; the same request may succeed after `retry_after` seconds."""


class ServerFailed(ApiError):
    """Something broke on the server, or behind it."""


def kind_of(status: int) -> type[ApiError]:
    """The class of error that a status means."""
    if status in (401, 403):
        return NotAllowed
    if status == 404:
        return NotFound
    if status == 409:
        return Conflict
    if status in (429, 503):
        return Overloaded
    if status >= 500:
        return ServerFailed
    return InvalidRequest
