"""`tmflow portal`: the results in a browser."""

from __future__ import annotations

import os
import socket
import sys
from typing import Annotated

import typer

from tmflow.errors import BadInput
from tmflow.paths import project_root


def portal(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8501,
    address: Annotated[str, typer.Option(help="Address to listen on; others can reach 0.0.0.0.")] = "127.0.0.1",
) -> None:
    """Open the results portal; it reads the database and never writes it."""
    root = project_root()
    _require_free(address, port)
    os.chdir(root)
    arguments = ["run", str(root / "portal" / "app.py"), "--server.address", address, "--server.port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", *arguments])


def _require_free(address: str, port: int) -> None:
    """Raise BadInput if the address is none of this machine's, or the port is not to be had there."""
    try:
        socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET).close()
    except OSError as error:
        raise BadInput(
            f"the portal cannot listen on --address {address} --port {port}: {str(error.strerror).partition(' (')[0]}; "
            "give an address of this machine, such as 127.0.0.1, and a port that is free."
        ) from error
