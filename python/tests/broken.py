"""A server that misbehaves as it is told, on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    # Seconds before it is sent.
    delay: float = 0.0
    # Bytes that are promised and never sent.
    missing: int = 0


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Broken:
    """Gives its answers one after the other, the last one for ever; remembers what it was asked."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.seen: list[Seen] = []
        self.url = ""

    def next(self) -> Answer:
        return self.answers[min(len(self.seen) - 1, len(self.answers) - 1)]


@contextmanager
def broken(*answers: Answer) -> Iterator[Broken]:
    state = Broken(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.seen.append(Seen(self.command, self.path, headers, body))
            answer = state.next()
            time.sleep(answer.delay)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body) + answer.missing))
            self.end_headers()
            self.wfile.write(answer.body)
            if answer.missing:
                self.close_connection = True

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
