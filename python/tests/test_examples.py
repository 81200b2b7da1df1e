"""The examples run, as a user would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("quickstart.py", "utility"),
        ("episode_loop.py", "['Blue doors open with the round key.']"),
        ("decorator.py", "3 outcomes were reported"),
        ("langgraph_store.py", "Alice drinks green tea."),
    ],
)
def test_an_example_runs(name: str, said: str, binary: Path) -> None:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name],
        capture_output=True,
        text=True,
        env={**os.environ, "UPLIFTMEM_BINARY": str(binary)},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert said in ran.stdout


def test_every_example_is_run() -> None:
    assert len(list(EXAMPLES.glob("*.py"))) == 4
