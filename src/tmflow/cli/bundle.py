"""`tmflow bundle`: export the runs of a machine to one file, and verify such a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tmflow.base.paths import project_root, results_dir
from tmflow.base.text import printable, several
from tmflow.spec.trial import Evidence
from tmflow.study.config import SCALES, Scale, load_study

app = typer.Typer(
    help="Move the runs of a machine to another machine in one file.", no_args_is_help=True, rich_markup_mode=None
)
SHOWN = 20  # largest number of problems printed
AllowedSigners = Annotated[
    Path | None,
    typer.Option(help="Accept only bundles signed by one of these; the format is ALLOWED SIGNERS of ssh-keygen(1)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@app.command()
def export(
    output: Annotated[
        Path, typer.Option(help="The file to write, or a folder for one named after the machine and its content.")
    ] = Path(),
    experiment: Annotated[list[str] | None, typer.Option(help="Only runs of this experiment; may be repeated.")] = None,
    evidence: Annotated[Evidence | None, typer.Option(help="Only runs of this evidence.")] = None,
    scale: Annotated[Scale | None, typer.Option(help="Only runs of this scale.")] = None,
    sign: Annotated[Path | None, typer.Option(metavar="KEY", help="Sign it with this OpenSSH key.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the run files of results/runs, with their metadata, to one file."""
    from tmflow.bundle.writer import RunSelection, export

    chosen = RunSelection(experiment or (), scale, evidence)
    done = export(results_dir(), output, chosen, _config((scale,) if scale else SCALES), sign)
    if as_json:
        report: dict[str, Any] = {**vars(done), "path": str(done.path), "bytes": done.path.stat().st_size}
        typer.echo(json.dumps(report, indent=1))
    else:
        size = done.path.stat().st_size
        typer.echo(f"{done.path}: {done.runs} runs of {done.platform}; {size / 1e6:.2f} MB; identity {done.identity}.")


def _config(scales: tuple[Scale, ...]) -> Path | None:
    """The project's config.yaml, if the results folder has rounds of its current definitions."""
    path = project_root() / "config.yaml"
    study = load_study(path)
    folders = (
        results_dir() / "runs" / scale / name / study.definition_id(name, scale)
        for scale in scales
        for name in study.at(scale)
    )
    return path if any(folder.is_dir() for folder in folders) else None


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="A bundle, as `tmflow bundle export` writes it, or a zip of run files.")],
    allowed_signers: AllowedSigners = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a bundle: show its problems and its signer. Exit code 2 if there are errors."""
    from tmflow.bundle.verify import verify

    report = verify(file, allowed_signers)
    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=1))
    else:
        for problem in report.problems[:SHOWN]:
            typer.echo(f"{problem.severity}: {problem.sentence}")
        if (more := len(report.problems[SHOWN:]) + report.omitted) > 0:
            typer.echo(f"and {more:,} more, of which --json lists the first hundred errors and notes.")
        platforms = ", ".join(report.platforms.values()) or "no platform"
        read = f"{several(report.runs, 'run')} of {platforms}, identity {report.identity}: " if report.identity else ""
        typer.echo(printable(f"{file}: {read}{'ok' if report.ok else 'not ok'}."))
        if report.identity:
            typer.echo(
                printable(f"It is {report.signature.sentence if report.signature else 'without a valid signature'}.")
            )
    if not report.ok:
        raise typer.Exit(2)
