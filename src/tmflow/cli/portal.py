"""`tmflow portal`: the results in a browser."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.errors import LONGEST, BadInput
from tmflow.base.paths import project_root


def portal(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8501,
    address: Annotated[str, typer.Option(help="Address to listen on; others can reach 0.0.0.0.")] = "127.0.0.1",
) -> None:
    """Open the results portal; it reads the database and never writes it."""
    root = project_root()
    _require_free(address, port)
    _make_absolute()
    os.chdir(root)  # where Streamlit finds its settings
    listening = ["--server.address", address, "--server.port", str(port)]
    arguments = ["run", str(root / "portal" / "app.py"), *listening, "--server.maxUploadSize", str(_upload_mib())]
    os.execv(sys.executable, [sys.executable, "-m", "tmflow.portal.server", *arguments])


def _upload_mib() -> int:
    """The upload limit in MiB; 0 without an upload token. Warns about unusable tokens."""
    from tmflow.contributions import access
    from tmflow.contributions import access as limits

    for role in access.Role:
        if trouble := access.token_problem(role):
            typer.echo(f"tmflow: {trouble}", err=True)
    return limits.UPLOAD_MIB if access.is_on(access.Role.UPLOADER) else 0


def _make_absolute() -> None:
    """Make the paths in the environment absolute, relative to the current folder instead of the checkout."""
    from tmflow.contributions import quarantine
    from tmflow.portal import saved_views
    from tmflow.store import url as address

    for variable in ("TMFLOW_ROOT", "TMFLOW_RESULTS_DIR", saved_views.VARIABLE, quarantine.VARIABLE):
        if path := os.environ.get(variable):
            os.environ[variable] = str(Path(path).expanduser().absolute())
    if os.environ.get(address.VARIABLE):
        url = address.url_from_env(Path())
        if address.is_sqlite(url):
            url = address.sqlite_url(address.sqlite_path(url).absolute())
        os.environ[address.VARIABLE] = url.render_as_string(hide_password=False)


def _require_free(address: str, port: int) -> None:
    """Raise BadInput if the address does not belong to this machine, or the port is not free."""
    from tmflow.base import escaping

    try:
        if not address.strip():  # for a socket, an empty address means every address of this machine
            raise OSError(errno.EINVAL, "an address is needed")
        socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET).close()
    except (OSError, UnicodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "no machine has that name"
        raise BadInput(
            f"the portal cannot listen on --address {escaping.line(address)[:LONGEST]} --port {port}: "
            f"{str(cause).partition(' (')[0]}; give an address of this machine, such as 127.0.0.1, and a port that is "
            "free."
        ) from error
