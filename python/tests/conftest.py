"""A real server for the tests: the program is built by cargo, or named by UPLIFTMEM_BINARY."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from upliftmem import Client, LocalServer
from upliftmem.local import find_binary

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UPLIFTMEM_URL", "UPLIFTMEM_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def binary() -> Path:
    return find_binary()


@pytest.fixture(scope="session")
def server(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    server = LocalServer(tmp_path_factory.mktemp("store"), binary)
    yield server
    server.stop()


@pytest.fixture
def user() -> str:
    """A scope of the test's own."""
    return f"user-{next(_numbers)}"


@pytest.fixture
def client(server: LocalServer, user: str) -> Iterator[Client]:
    with Client(server.url, user_id=user) as client:
        yield client
