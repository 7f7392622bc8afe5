"""`tmflow portal`: the results in a browser."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tmflow.paths import project_root


def portal(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8501,
    address: Annotated[str, typer.Option(help="Address to listen on; others can reach 0.0.0.0.")] = "127.0.0.1",
) -> None:
    """Open the results portal; it reads the database and never writes it."""
    root = project_root()
    os.chdir(root)
    arguments = ["run", str(root / "portal" / "app.py"), "--server.address", address, "--server.port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", *arguments])
