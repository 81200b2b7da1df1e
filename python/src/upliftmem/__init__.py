"""Memory for LLM agents that learns from outcomes which memories help, and when to use none.

>>> from upliftmem import Client
>>> with Client(user_id="alice") as client:  # doctest: +SKIP
...     client.add("The staging database is read-only on Sundays.")
...     with client.episode("run the migration on staging") as ep:
...         answer = my_agent(ep.block, ep.query)
...         ep.report(success=answer.ok, cost=answer.steps)
"""

from ._core import RetryPolicy
from .async_client import AsyncClient
from .client import Client
from .decorator import Verdict
from .episode import AsyncEpisode, Episode
from .errors import (
    ApiError,
    BadAnswer,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    Misuse,
    NotAllowed,
    NotFound,
    Overloaded,
    ServerFailed,
    ServerNotStarted,
    TimedOut,
    UpliftMemError,
)
from .fence import memory_block
from .local import LocalServer
from .models import (
    Added,
    Effect,
    Explanation,
    FoundMemory,
    Help,
    Learned,
    Memory,
    Outcome,
    Page,
    Probe,
    Scope,
    ScopeParts,
    Search,
    Task,
    WorkDone,
)

__all__ = [
    "Added",
    "ApiError",
    "AsyncClient",
    "AsyncEpisode",
    "BadAnswer",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Effect",
    "Episode",
    "Explanation",
    "FoundMemory",
    "Help",
    "InvalidRequest",
    "Learned",
    "LocalServer",
    "Memory",
    "Misuse",
    "NotAllowed",
    "NotFound",
    "Outcome",
    "Overloaded",
    "Page",
    "Probe",
    "RetryPolicy",
    "Scope",
    "ScopeParts",
    "Search",
    "ServerFailed",
    "ServerNotStarted",
    "Task",
    "TimedOut",
    "UpliftMemError",
    "Verdict",
    "WorkDone",
    "memory_block",
]
