"""A server of one's own: found, started on a free loopback port, shared by a process, stopped with it."""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from .errors import ServerNotStarted

_NAME = "upliftmem.exe" if os.name == "nt" else "upliftmem"
_START_SECONDS = 60.0
# More than the server gives requests under way.
_STOP_SECONDS = 25.0
# Variables that are ours and no settings of the server.
_OURS = ("UPLIFTMEM_BINARY", "UPLIFTMEM_URL", "UPLIFTMEM_KEY", "UPLIFTMEM_CONFIG")


def find_binary(binary: str | Path | None = None) -> Path:
    """The program: the one that is named, `UPLIFTMEM_BINARY`, on PATH, or built by cargo in a folder above this one."""
    named = binary or os.environ.get("UPLIFTMEM_BINARY")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ServerNotStarted(f"{path} is not a file; name the upliftmem program by `binary` or UPLIFTMEM_BINARY")
        return path.resolve()
    on_path = shutil.which("upliftmem")
    if on_path:
        return Path(on_path)
    built = [path for path in _built() if path.is_file()]
    if built:
        return max(built, key=lambda path: path.stat().st_mtime)
    raise ServerNotStarted(
        "no upliftmem program was found on PATH; install it with `cargo install --path crates/upliftmem`, "
        "name it by UPLIFTMEM_BINARY, or give base_url (UPLIFTMEM_URL) of a server that runs"
    )


def _built() -> Iterator[Path]:
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            for profile in ("release", "debug"):
                yield folder / "target" / profile / _NAME


def default_data_dir() -> Path:
    """Where a local server keeps its store if nobody says where."""
    if os.name == "nt":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Application Support"
    else:
        root = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return root / "upliftmem" / "store"


class LocalServer:
    """A server process. `url` is where it listens, `log` the file that it logs to."""

    def __init__(self, data_dir: Path, binary: Path) -> None:
        self.data_dir = data_dir
        self.log = data_dir / "server.log"
        #: How many borrowed it; none of a server that was made directly.
        self.users = 0
        self._owner = os.getpid()
        self._binary = binary
        self._make_store()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    binary,
                    "--json",
                    "--config",
                    data_dir / "upliftmem.toml",
                    "serve",
                    "--address",
                    "127.0.0.1:0",
                    "--until-stdin-closes",
                ],
                # Its end of this pipe closes however this process ends, and then the server stops.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                # Ctrl-C is for this process; it decides when the server stops.
                start_new_session=os.name != "nt",
            )
        try:
            self.url = self._listening()
            self._ready()
        except BaseException:
            self.stop()
            raise

    def _make_store(self) -> None:
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServerNotStarted(f"{self.data_dir} can not be made: {error}; name another `data_dir`") from error
        try:
            made = subprocess.run(  # noqa: S603
                [self._binary, "--json", "--quiet", "init", self.data_dir],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=_environment(),
                timeout=_START_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerNotStarted(f"{self._binary} can not be run: {error}") from error
        if made.returncode != 0:
            said = made.stderr.decode(errors="replace").strip()
            raise ServerNotStarted(f"no store could be made in {self.data_dir}: {said}")

    def _listening(self) -> str:
        """The URL that the server prints first."""
        assert self._process.stdout is not None  # noqa: S101
        lines: queue.Queue[bytes] = queue.Queue()
        stdout = self._process.stdout
        # A thread, since reading a pipe can not be given up after a while everywhere.
        threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=_START_SECONDS)
        except queue.Empty:
            raise self._failed(f"it said nothing for {_START_SECONDS:.0f} s") from None
        try:
            return str(json.loads(line)["url"])
        except (ValueError, TypeError, KeyError):
            raise self._failed("it ended" if not line else f"it said {line!r}") from None

    def _ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False).is_success:
                    return
            except httpx.HTTPError:
                pass
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise self._failed("it did not become ready")

    def _failed(self, how: str) -> ServerNotStarted:
        try:
            last = self.log.read_text(errors="replace").splitlines()[-5:]
        except OSError:
            last = []
        told = "\n  ".join([f"the server {self._binary} did not start: {how}; its log {self.log} ends:", *last])
        return ServerNotStarted(told)

    @property
    def running(self) -> bool:
        """Whether the process is alive and belongs to this one."""
        return self._owner == os.getpid() and self._process.poll() is None

    def stop(self) -> None:
        """Stops the server after the requests under way. A process that was forked off leaves it alone."""
        if self._owner != os.getpid():
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


_servers: dict[tuple[Path, Path], LocalServer] = {}
# Reentrant, since the interpreter may end while a server is being started.
_lock = threading.RLock()


def borrow(data_dir: str | Path | None = None, binary: str | Path | None = None) -> LocalServer:
    """The server of this process for a store, started if it does not run; it runs until all give it back."""
    folder = Path(data_dir).expanduser() if data_dir is not None else default_data_dir()
    place = (folder.resolve(), find_binary(binary))
    with _lock:
        server = _servers.get(place)
        if server is None or not server.running:
            server = _servers[place] = LocalServer(*place)
        server.users += 1
        return server


def give_back(server: LocalServer) -> None:
    """Stops a server that nobody uses any more."""
    with _lock:
        server.users -= 1
        if server.users > 0:
            return
        for place in [place for place, known in _servers.items() if known is server]:
            del _servers[place]
        server.stop()


@atexit.register
def stop_all() -> None:
    """Stops every server that this process started."""
    with _lock:
        for server in _servers.values():
            server.stop()
        _servers.clear()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OURS}
