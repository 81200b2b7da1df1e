"""What both clients are told, and what they make of it."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from . import local
from ._core import RetryPolicy
from .errors import Misuse
from .models import Scope, ScopeParts

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the server is and how it is talked to."""

    base_url: str
    headers: dict[str, str]
    timeout: float
    retry: RetryPolicy
    scope: Scope
    # Whether proxies of the environment are asked: never for this machine.
    trust_env: bool
    # The local server that is used, until it is given back.
    borrowed: list[local.LocalServer]

    @classmethod
    def of(
        cls,
        base_url: str | None,
        api_key: str | None,
        *,
        data_dir: str | Path | None,
        binary: str | Path | None,
        timeout: float,
        retry: RetryPolicy | None,
        scope: Scope,
    ) -> Settings:
        """Fills in what the environment says, and starts a local server if none is named anywhere."""
        url = base_url or os.environ.get("UPLIFTMEM_URL")
        server = None
        if url is None:
            server = local.borrow(data_dir, binary)
            url = server.url
        elif data_dir is not None or binary is not None:
            raise Misuse(f"data_dir and binary are for a local server, but base_url is {url!r}; give one or the other")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise Misuse(f"base_url {url!r} can not be read: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise Misuse(f"base_url {url!r} is no address; write it as http://127.0.0.1:7077")
        key = api_key or os.environ.get("UPLIFTMEM_KEY")
        headers = {"user-agent": "upliftmem-python"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        return cls(
            base_url=url.rstrip("/"),
            headers=headers,
            timeout=timeout,
            retry=retry or RetryPolicy(),
            scope=scope,
            trust_env=not _loopback(parsed.host),
            borrowed=[] if server is None else [server],
        )

    def scoped(self, **parts: Unpack[ScopeParts]) -> Scope:
        """The scope of a call: its own parts, else the client's."""
        return replace(self.scope, **{name: part for name, part in parts.items() if part is not None})  # type: ignore[arg-type]

    def release(self) -> None:
        """Gives a local server back, once."""
        while self.borrowed:
            local.give_back(self.borrowed.pop())
