"""A real portal server for the duration of a test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tmflow.base.paths import project_root

APP = project_root() / "portal" / "app.py"
SERVER = APP.with_name("serve.py")
START_S = 60


@contextmanager
def serve(database_url: str, app: Path = SERVER) -> Iterator[str]:
    """The portal, or another app, on a free port of this machine, reading the database; yields its address."""
    with serve_process(database_url, app) as (address, _):
        yield address


@contextmanager
def serve_process(database_url: str, app: Path = SERVER) -> Iterator[tuple[str, int]]:
    """Like `serve`; also yields the server's process id."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    options = ["--server.address", "127.0.0.1", "--server.port", str(port), "--server.headless", "true"]
    command = [sys.executable, "-m", "streamlit", "run", str(app), *options]
    environment = {**os.environ, "TMFLOW_DB_URL": database_url}
    with subprocess.Popen(command, cwd=APP.parents[1], env=environment) as server:
        try:
            wait_until_healthy(address, server)
            yield address, server.pid
        finally:
            server.terminate()


@contextmanager
def serve_command(own: Mapping[str, str]) -> Iterator[str]:
    """The portal as `tmflow portal` starts it, with these variables in its environment; yields its address."""
    port = free_port()
    command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
    with subprocess.Popen(command, env={**os.environ, **own}) as server:
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_until_healthy(address: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the portal at that address answers."""
    url = f"{address}/_stcore/health"
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(f"no answer from {url} in {START_S} s")
