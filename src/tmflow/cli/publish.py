"""`tmflow publish`: the results as static pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.paths import project_root, results_dir
from tmflow.study.config import Scale, load_study


def publish(
    site: Annotated[Path, typer.Argument(help="The folder to write; a published site there is replaced.")],
    scale: Annotated[Scale, typer.Option(help="The runs of this scale.")] = "full",
) -> None:
    """Write the results as static pages for any file host: charts, tables, claims, runs and the docs."""
    from tmflow.reports.site.build import publish as write_site
    from tmflow.store import engine

    reader = engine.open_reader(engine.url_from_env(results_dir() / "study.db"))
    study = load_study(project_root() / "config.yaml")
    written = write_site(reader, study, scale, site, tell=lambda what: typer.echo(what, err=True))
    typer.echo(
        f"{site}: {written.figures} figures, {written.runs} runs; {written.files} files, "
        f"{written.bytes / 1e6:.1f} MB.\n"
        f"To view it: python -m http.server --bind 127.0.0.1 --directory {site} 8000, then http://127.0.0.1:8000/"
    )
