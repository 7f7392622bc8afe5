"""`tmflow bundle`: the runs of a machine in one file, to carry to another and to trust as far as they deserve."""

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
    help="Carry the runs of a machine to another, in one file.", no_args_is_help=True, rich_markup_mode=None
)
SHOWN = 20  # problems that a reader is shown
AllowedSigners = Annotated[
    Path | None,
    typer.Option(help="Refuse what none of them signed; a file as ssh-keygen(1) describes it under ALLOWED SIGNERS."),
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
    """Write the run files of results/runs, with what they belong to, into one file."""
    from tmflow.bundle.writer import Chosen, export

    chosen = Chosen(experiment or (), scale, evidence)
    done = export(results_dir(), output, chosen, _config((scale,) if scale else SCALES), sign)
    if as_json:
        told: dict[str, Any] = {**vars(done), "path": str(done.path), "bytes": done.path.stat().st_size}
        typer.echo(json.dumps(told, indent=1))
    else:
        size = done.path.stat().st_size
        typer.echo(f"{done.path}: {done.runs} runs of {done.platform}; {size / 1e6:.2f} MB; identity {done.identity}.")


def _config(scales: tuple[Scale, ...]) -> Path | None:
    """The project's config.yaml, if the results folder has rounds of one of its experiments as it defines them."""
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
    """Show everything that is wrong with a bundle, and who signed it; exit code 2 if anything is wrong."""
    from tmflow.bundle.verify import verify

    found = verify(file, allowed_signers)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        for problem in found.problems[:SHOWN]:
            typer.echo(f"{problem.severity}: {problem.sentence}")
        if (more := len(found.problems[SHOWN:]) + found.omitted) > 0:
            typer.echo(f"and {more:,} more, of which --json lists the first hundred errors and notes.")
        platforms = ", ".join(found.platforms.values()) or "no platform"
        read = f"{several(found.runs, 'run')} of {platforms}, identity {found.identity}: " if found.identity else ""
        typer.echo(printable(f"{file}: {read}{'ok' if found.ok else 'not ok'}."))
        if found.identity:
            typer.echo(
                printable(f"It is {found.signature.sentence if found.signature else 'without a valid signature'}.")
            )
    if not found.ok:
        raise typer.Exit(2)
