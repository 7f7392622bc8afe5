"""The files that the container file copies are enough for the portal; no image is built."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from seed import seed_database
from serving import free_port, wait_until_healthy
from session import Session
from sqlalchemy import URL

from tmflow.base.paths import project_root

FILE = project_root() / "portal" / "hosting" / "Containerfile"
VISITS = [
    *((path.stem, "") for path in sorted((project_root() / "portal" / "views").glob("*.py"))),
    ("figures", "figure=4.7"), ("claims", "claim=deep-htm-double"), ("method", "page=hosting"),
]  # fmt: skip

pytestmark = pytest.mark.slow


class Got(NamedTuple):
    n_charts: int
    said: frozenset[str]
    failure: str | None


def copied() -> list[str]:
    """The files that the container file copies, each at its place in the checkout."""
    found = []
    for words, to in re.findall(r"^COPY (.+) (\S+)$", FILE.read_text(), re.MULTILINE):
        sources = words.split()
        assert to == "./" or sources == [to], f"COPY {words} {to} lays it out otherwise than the checkout"
        found += sources
    return found


def laid_out(folder: Path, sources: Sequence[str]) -> Path:
    """The folder, with the files of the sources that git tracks."""
    for source in sources:
        listed = subprocess.run(
            ["git", "ls-files", "-z", source], cwd=project_root(), capture_output=True, text=True, check=True
        )
        assert listed.stdout, f"the container file copies {source}, of which git has nothing"
        for name in filter(None, listed.stdout.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(project_root() / name, folder / name)
    return folder


def visited(folder: Path, url: URL) -> dict[tuple[str, str], Got]:
    """The portal's response from that folder for each visit."""
    port = free_port()
    command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TMFLOW_")}
    environment = {**kept, "PYTHONPATH": str(folder / "src"), "TMFLOW_DB_URL": str(url)}
    with subprocess.Popen(command, cwd=folder, env=environment) as server:
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}", server)
            return asyncio.run(_visited(f"http://127.0.0.1:{port}"))
        finally:
            server.terminate()


async def _visited(at: str) -> dict[tuple[str, str], Got]:
    got = {}
    for page, query in VISITS:
        async with Session(at) as visitor:
            view = await visitor.view("" if page == "overview" else page, query)
            got[page, query] = Got(view.n_charts, view.said, view.failure)
    return got


@pytest.mark.deep
def test_each_page_of_the_image_is_that_of_the_whole_project(tmp_path: Path) -> None:
    url = seed_database(tmp_path)
    image, project = laid_out(tmp_path / "image", copied()), laid_out(tmp_path / "whole", ["."])
    assert (image / ".streamlit" / "config.toml").is_file()  # no page shows that a disabled feature is disabled
    assert not (image / ".git").exists()  # with the known addresses, and previously committed files
    assert visited(image, url) == visited(project, url)
