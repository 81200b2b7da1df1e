"""Starts the server that a script talks to, in a directory of its own, and stops it at the end."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BINARY = os.environ["UPLIFTMEM_BINARY"]


def environment(directory):
    own = {name: value for name, value in os.environ.items() if not name.startswith("UPLIFTMEM_")}
    return {**own, "UPLIFTMEM_LOG": "warn", "UPLIFTMEM_MODELS": str(pathlib.Path(directory) / "models"), "MEM0_TELEMETRY": "False",
            "MEM0_DIR": str(pathlib.Path(directory) / "mem0")}


def run(directory, *arguments):
    done = subprocess.run([BINARY, *arguments], cwd=directory, env=environment(directory), check=True,
                          capture_output=True, text=True)
    return done.stdout


@contextlib.contextmanager
def store():
    with tempfile.TemporaryDirectory() as directory:
        run(directory, "init")
        os.environ.update({name: value for name, value in environment(directory).items() if name.startswith("MEM0_")})
        yield directory


@contextlib.contextmanager
def server(*settings, keys=False):
    """A running server: its address, and a key for user alice if it needs one."""
    with store() as directory:
        flags = [flag for setting in settings for flag in ("--set", setting)]
        key = None
        if keys:
            flags += ["--set", "server.auth=on"]
            made = run(directory, "keys", "create", "test", "--permission", "admin", "--user-id", "alice", "--json")
            key = json.loads(made)["key"]
        process = subprocess.Popen([BINARY, "serve", "--address", "127.0.0.1:0", "--json", *flags], cwd=directory,
                                   env=environment(directory), stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
        try:
            yield json.loads(process.stdout.readline())["url"], key
        finally:
            process.terminate()
            assert process.wait(timeout=30) == 0, "the server did not stop in good order"
