"""The portal as started by `tmflow portal`, from any folder."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from seed import seed_database
from serving import free_port, wait_until_healthy
from session import Session, View
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from tmflow import cli
from tmflow.contributions.access import Role
from tmflow.store import engine


def test_paths_of_the_environment_are_those_of_where_it_is_typed(tmp_path: Path) -> None:
    file = engine.sqlite_path(seed_database(tmp_path, rounds=2, transactions=False))
    port = free_port()
    command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
    environment = {**os.environ, engine.VARIABLE: f"sqlite:///{file.name}"}
    with subprocess.Popen(command, cwd=file.parent, env=environment) as server:
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}", server)
            seen = asyncio.run(_view(f"http://127.0.0.1:{port}", "explore"))
        finally:
            server.terminate()
    assert seen.failure is None
    assert seen.n_charts > 0  # it found the database


def test_it_opens_a_browser_where_there_is_a_screen(tmp_path: Path) -> None:
    told, port = tmp_path / "told", free_port()
    os.mkfifo(told)
    command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
    environment = {
        **os.environ, engine.VARIABLE: f"sqlite:///{tmp_path}/none.db", "BROWSER": f"sh -c 'echo $0 > {told}' %s",
        "STREAMLIT_SERVER_HEADLESS": "false", "STREAMLIT_SERVER_SHOW_EMAIL_PROMPT": "false",
    }  # fmt: skip
    with subprocess.Popen(command, env=environment) as server:
        try:
            assert told.read_text() == f"http://127.0.0.1:{port}\n"
        finally:
            server.terminate()


def test_it_asks_nobody_for_the_address_of_this_machine(tmp_path: Path) -> None:
    url = seed_database(tmp_path, rounds=2, transactions=False)
    with socket.create_server(("127.0.0.1", 0)) as outside:  # its requests to other hosts would go through here
        outside.setblocking(False)
        proxy = "http://{}:{}".format(*outside.getsockname())
        port = free_port()
        command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
        environment = {**os.environ, engine.VARIABLE: str(url), "http_proxy": proxy, "https_proxy": proxy}
        with subprocess.Popen(command, env=environment) as server:
            try:
                wait_until_healthy(f"http://127.0.0.1:{port}", server)
                with pytest.raises(InvalidStatus, match="403"):
                    asyncio.run(_from_elsewhere(f"ws://127.0.0.1:{port}/_stcore/stream"))
            finally:
                server.terminate()
        with pytest.raises(BlockingIOError):
            outside.accept()


async def _from_elsewhere(at: str) -> None:
    async with connect(at, origin=Origin("https://elsewhere.example")):
        pass


async def _view(at: str, page: str) -> View:
    async with Session(at) as visitor:
        return await visitor.view(page)


@pytest.mark.parametrize(
    ("token", "mib", "said"),
    [("", 0, ""), ("short", 0, "at least 16 are needed: uploads are off."), ("a-token-for-uploads", 64, "")],
)
def test_the_server_takes_files_only_with_a_good_token(
    token: str, mib: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    monkeypatch.setenv(Role.UPLOADER, token)
    monkeypatch.chdir(Path.cwd())  # the command goes elsewhere
    typer.main.get_command(cli.app)(["portal", "--port", str(free_port())], standalone_mode=False)
    (command,) = started
    assert command[command.index("--server.maxUploadSize") + 1] == str(mib)
    assert said in capsys.readouterr().err
