"""`tmflow claims`, `pages`, `portal` and `publish`: verdicts, the numbers of the docs, and the results as pages."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.errors import LONGEST, BadInput
from tmflow.base.extras import not_installed
from tmflow.base.paths import project_root
from tmflow.cli.options import JsonOption, print_result, reader
from tmflow.spec.trial import Evidence
from tmflow.study.config import Scale, load_study


def claims(
    evidence: Annotated[Evidence | None, typer.Option(help="Use only this kind of evidence.")] = None,
    platform: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Use the runs of this platform, or of one contribution to it (NAME@ID)."),
    ] = None,
    join_sources: Annotated[
        bool,
        typer.Option("--join-sources", help="Pool the platform's runs with all runs that others contributed to it."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every claim of data/claims.yaml against the runs of one platform: by default, of this machine."""
    from tmflow.claims.origins import this_machine, verdicts
    from tmflow.claims.render import as_text, heading

    database = reader()
    key = this_machine(database) if platform is None else platform
    judged = verdicts(database, evidence, key, joined=join_sources)
    if as_json:
        print_result(as_json, [verdict.as_json() for verdict in judged], [])
    else:
        typer.echo(as_text(judged, heading(database, key, joined=join_sources)))


def pages() -> None:
    """Fill the numbers of the docs pages from contrib/ (data/pages.yaml) and docs/speed/ (data/speed.yaml)."""
    from tmflow.benchmark.page_numbers import filled_page
    from tmflow.reports.pages.fill import filled_pages, write_changed

    root = project_root()
    changed = [path.relative_to(root).as_posix() for path in write_changed(filled_pages(root) | filled_page(root))]
    typer.echo(f"Changed: {', '.join(changed)}." if changed else "The pages have these numbers already.")


def publish(
    site: Annotated[Path, typer.Argument(help="The folder to write; an existing published site is replaced.")],
    scale: Annotated[Scale, typer.Option(help="Publish the runs of this scale.")] = "full",
    portal: Annotated[str, typer.Option(help="Link to the live portal at this address.", show_default=False)] = "",
) -> None:
    """Write the results as static pages for any file host: charts, tables, claims, runs and the docs."""
    from tmflow.reports.site.build import publish as write_site

    study = load_study(project_root() / "config.yaml")
    written = write_site(reader(), study, scale, site, tell=lambda what: typer.echo(what, err=True), portal=portal)
    typer.echo(
        f"{site}: {written.figures} figures, {written.runs} runs; {written.files} files, "
        f"{written.bytes / 1e6:.1f} MB.\n"
        f"To view it: python -m http.server --bind 127.0.0.1 --directory {site} 8000, then http://127.0.0.1:8000/"
    )


def portal(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8501,
    address: Annotated[str, typer.Option(help="Address to listen on; others can reach 0.0.0.0.")] = "127.0.0.1",
) -> None:
    """Open the results portal; it reads the database and never writes it."""
    from tmflow.contributions import access

    if importlib.util.find_spec("streamlit") is None:  # the process that replaces this one imports it
        raise not_installed("the portal", "streamlit")
    root = project_root()
    _require_free(address, port)
    _make_absolute()
    os.chdir(root)  # where Streamlit finds its settings
    for role in access.Role:
        if problem := access.token_problem(role):
            typer.echo(f"tmflow: {problem}", err=True)
    upload_mib = access.UPLOAD_MIB if access.is_on(access.Role.UPLOADER) else 0
    settings = ["--server.address", address, "--server.port", str(port), "--server.maxUploadSize", str(upload_mib)]
    arguments = ["run", str(root / "portal" / "serve.py"), *settings]
    os.execv(sys.executable, [sys.executable, "-m", "tmflow.portal.server", *arguments])


def _make_absolute() -> None:
    """Make the paths in the environment absolute, relative to the current folder instead of the checkout."""
    from tmflow.contributions import quarantine
    from tmflow.portal import saved_views
    from tmflow.store import engine

    for variable in ("TMFLOW_ROOT", "TMFLOW_RESULTS_DIR", saved_views.VARIABLE, quarantine.VARIABLE):
        if path := os.environ.get(variable):
            os.environ[variable] = str(Path(path).expanduser().absolute())
    if os.environ.get(engine.VARIABLE):
        url = engine.url_from_env(Path())
        if engine.is_sqlite(url):
            url = engine.sqlite_url(engine.sqlite_path(url).absolute())
        os.environ[engine.VARIABLE] = url.render_as_string(hide_password=False)


def _require_free(address: str, port: int) -> None:
    """Raise BadInput if the address does not belong to this machine, or the port is not free."""
    from tmflow.base.text import one_line

    try:
        if not address.strip():  # for a socket, an empty address means every address of this machine
            raise OSError(errno.EINVAL, "an address is needed")
        socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET).close()
    except (OSError, UnicodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "no machine has that name"
        raise BadInput(
            f"the portal cannot listen on --address {one_line(address)[:LONGEST]} --port {port}: "
            f"{str(cause).partition(' (')[0]}; give an address of this machine, such as 127.0.0.1, and a free port."
        ) from error
