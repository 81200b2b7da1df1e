from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from upliftmem import AsyncClient, Client, LocalServer, ServerNotStarted
from upliftmem.local import borrow, default_data_dir, find_binary, give_back


def test_clients_of_a_process_share_a_server(tmp_path: Path, binary: Path) -> None:
    with Client(data_dir=tmp_path, binary=binary) as one, Client(data_dir=tmp_path, binary=binary) as two:
        assert one.base_url == two.base_url
        one.add("shared")
        assert [memory.memory for memory in two.memories()] == ["shared"]
        server = borrow(tmp_path, binary)
        assert server.url == one.base_url
        give_back(server)
        assert server.running
        one.close()
        one.close()
        assert server.running
        two.add("still there")
    assert not server.running
    with Client(data_dir=tmp_path, binary=binary) as again:
        assert [memory.memory for memory in again.memories()] == ["shared", "still there"]


def test_a_server_that_died_is_replaced(tmp_path: Path, binary: Path) -> None:
    with Client(data_dir=tmp_path, binary=binary) as one:
        one.add("kept")
        borrow(tmp_path, binary).stop()
        with Client(data_dir=tmp_path, binary=binary) as two:
            assert [memory.memory for memory in two.memories()] == ["kept"]


def test_async_clients_borrow_too(tmp_path: Path, binary: Path) -> None:
    async def run() -> str:
        async with AsyncClient(data_dir=tmp_path, binary=binary) as client:
            await client.add("x")
            return client.base_url

    assert gone(asyncio.run(run()))


SCRIPT = """
import sys
from upliftmem import Client
client = Client(data_dir=sys.argv[1], binary=sys.argv[2])
client.add("kept")
print(client.base_url, flush=True)
if len(sys.argv) > 3:
    input()
"""


def gone(url: str) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            httpx.get(f"{url}/healthz", trust_env=False)
        except httpx.HTTPError:
            return True
        time.sleep(0.05)
    return False


def test_it_stops_with_the_process(tmp_path: Path, binary: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path, binary], capture_output=True, check=True, timeout=120
    )
    assert gone(ended.stdout.decode().strip())


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_it_stops_when_the_process_is_killed(tmp_path: Path, binary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, tmp_path, binary, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert httpx.get(f"{url}/healthz", trust_env=False).is_success
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert gone(url)


def test_a_program_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerNotStarted, match="UPLIFTMEM_BINARY"):
        find_binary(tmp_path / "nothing")
    monkeypatch.setenv("UPLIFTMEM_BINARY", str(tmp_path / "nothing"))
    with pytest.raises(ServerNotStarted, match="nothing is not a file"):
        Client(data_dir=tmp_path)


def test_a_program_that_is_something_else_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerNotStarted):
        LocalServer(tmp_path / "store", Path(sys.executable))


def test_a_broken_configuration_is_told_with_the_reason(tmp_path: Path, binary: Path) -> None:
    (tmp_path / "upliftmem.toml").write_text("[retrieval]\ncandidatez = 3\n")
    with pytest.raises(ServerNotStarted, match="candidatez"):
        LocalServer(tmp_path, binary)


def test_a_server_that_can_not_listen_is_told_with_its_log(
    tmp_path: Path, binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPLIFTMEM_SERVER_TLS_KEY", "missing.pem")
    with pytest.raises(ServerNotStarted, match="tls_certificate"):
        LocalServer(tmp_path, binary)


def test_the_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        assert default_data_dir() == tmp_path / "upliftmem" / "store"
    assert default_data_dir().is_absolute()
