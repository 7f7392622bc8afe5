"""`tmflow bundle`: export runs to one file, verify and import such files, and decide on contributed ones."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root, results_dir
from tmflow.base.text import printable, several
from tmflow.cli.options import JsonOption, database, print_result, reader
from tmflow.spec.trial import Evidence
from tmflow.study.config import SCALES, Scale, load_study

if TYPE_CHECKING:
    from tmflow.bundle.problems import Report
    from tmflow.contributions.importer import ImportReport
    from tmflow.contributions.quarantine import Action, Quarantine

app = typer.Typer(
    help="Move the runs of a machine to another machine in one file.", no_args_is_help=True, rich_markup_mode=None
)
STANDARD_INPUT = Path("-")  # as an argument
SHOWN = 20  # largest number of problems printed, and of runs that `compare` shows unless one is named
AllowedSigners = Annotated[
    Path | None,
    typer.Option(help="Accept only bundles signed by one of these; the format is ALLOWED SIGNERS of ssh-keygen(1)."),
]
IdentityArgument = Annotated[str, typer.Argument(help="The identity of the bundle, or its first 8 digits or more.")]
By = Annotated[str | None, typer.Option(help="The name to record; default: the current user.")]


@app.command()
def export(
    output: Annotated[
        Path, typer.Option(help="The file to write, or a folder for one named after the machine and its content.")
    ] = Path(),
    experiment: Annotated[list[str] | None, typer.Option(help="Only runs of this experiment; may be repeated.")] = None,
    evidence: Annotated[Evidence | None, typer.Option(help="Only runs with this kind of evidence.")] = None,
    scale: Annotated[Scale | None, typer.Option(help="Only runs of this scale.")] = None,
    sign: Annotated[Path | None, typer.Option(metavar="KEY", help="Sign it with this OpenSSH key.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the run files of results/runs, with their metadata, to one file."""
    from tmflow.bundle.writer import export
    from tmflow.store.run_filter import RunFilter

    scales = (scale,) if scale else None
    chosen = RunFilter(experiments=experiment or None, scales=scales, evidences=(evidence,) if evidence else None)
    done = export(results_dir(), output, chosen, _config(scales or SCALES), sign)
    n_bytes = done.path.stat().st_size
    line = f"{done.path}: {done.runs} runs of {done.platform}; {n_bytes / 1e6:.2f} MB; identity {done.identity}."
    print_result(as_json, {**vars(done), "path": str(done.path), "bytes": n_bytes}, [line])


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
    print_result(as_json, report.as_json(), _describe_report(file, report))
    if not report.ok:
        raise typer.Exit(2)


def _describe_report(file: Path, report: Report) -> Iterator[str]:
    for problem in report.problems[:SHOWN]:
        yield f"{problem.severity}: {problem.sentence}"
    if (more := len(report.problems[SHOWN:]) + report.omitted) > 0:
        yield f"and {more:,} more, of which --json lists the first hundred errors and notes."
    platforms = ", ".join(report.platforms.values()) or "no platform"
    read = f"{several(report.runs, 'run')} of {platforms}, identity {report.identity}: " if report.identity else ""
    yield printable(f"{file}: {read}{'ok' if report.ok else 'not ok'}.")
    if report.identity:
        signed = report.signature.sentence if report.signature else "without a valid signature"
        yield printable(f"It is {signed}.")


@app.command(name="import")
def import_bundles(
    files: Annotated[list[Path], typer.Argument(help="Bundles; runs that are stored already stay unchanged.")],
    allowed_signers: AllowedSigners = None,
    as_json: JsonOption = False,
) -> None:
    """Verify bundles and store their runs in the database, each bundle completely or not at all.

    The database is results/study.db, or the SQLAlchemy URL in TMFLOW_DB_URL.
    """
    from tmflow.contributions import importer, staging
    from tmflow.store.ingest import Conflict

    url = database()
    reports = []
    for file in files:
        try:
            reports.append(report := importer.import_bundle(url, file, allowed_signers=allowed_signers))
        except Conflict as error:
            kept = staging.keep_conflict(_quarantine(), file, _user(), str(error))
            shows = f"`tmflow bundle compare {kept[:12]}` shows both versions."
            raise BadInput(f"{error} Nothing is stored; the bundle is in the quarantine, where {shows}") from error
        if not as_json:
            summary = f"{several(report.runs_new, 'run')} stored, {report.runs_known} known already"
            typer.echo(printable(f"{file}: {summary}; identity {report.identity}.{_describe_withdrawal(report)}"))
    if as_json:
        print_result(as_json, [asdict(report) for report in reports], [])


def _describe_withdrawal(report: ImportReport) -> str:
    return f" It is withdrawn, so they are hidden: {report.withdrawn}." if report.withdrawn else ""


@app.command()
def withdraw(
    identity: IdentityArgument,
    reason: Annotated[str, typer.Option(help="The reason, in a few words; queries for a withdrawn run show it.")],
) -> None:
    """Hide the runs of a contribution everywhere; nothing is deleted."""
    from tmflow.contributions import importer

    url = database()
    full_identity = importer.full_identity(url, identity)
    with _audited_action("withdraw", full_identity, reason):
        n_runs = importer.withdraw(url, full_identity, reason)
    typer.echo(f"{several(n_runs, 'run')} hidden; `tmflow bundle restore {full_identity[:12]}` shows them again.")


@app.command()
def restore(identity: IdentityArgument) -> None:
    """Show the runs of a withdrawn contribution again."""
    from tmflow.contributions import importer

    url = database()
    full_identity = importer.full_identity(url, identity)
    with _audited_action("restore", full_identity):
        n_runs = importer.restore(url, full_identity)
    typer.echo(f"{several(n_runs, 'run')} shown again.")


@app.command(name="list")
def list_contributions(as_json: JsonOption = False) -> None:
    """List the contributions in the database, in the order of import."""
    from tmflow.contributions import importer

    stored = importer.contributions(reader())
    if as_json:
        typer.echo(stored.to_json(orient="records", indent=1))
        return
    for _, row in stored.iterrows():
        state = f"withdrawn: {row['withdrawn_reason']}" if isinstance(row["withdrawn_reason"], str) else "shown"
        line = (
            f"{row['identity'][:12]}  {row['imported_at_utc'][:16]}  {row['name']}: {row['n_stored']} of "
            f"{several(row['n_runs'], 'run')} stored by it; {row['platforms'] or 'no platform'}; {state}."
        )
        typer.echo(printable(line))  # the name is untrusted
    if stored.empty:
        typer.echo("No contribution is stored.")


@app.command()
def stage(
    file: Annotated[Path, typer.Argument(help="A bundle; `-` reads it from the standard input.")],
    name: Annotated[str | None, typer.Option(help="The name of the bundle; default: the name of the file.")] = None,
    by: By = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a bundle and store it in the quarantine, where it waits for `accept` or `reject`."""
    from tmflow.bundle.reader import open_file
    from tmflow.contributions import staging

    with sys.stdin.buffer if file == STANDARD_INPUT else open_file(file) as source:
        staged = staging.stage(_quarantine(), source, name or Path(source.name).name, by or _user(), database())
    report, counts = staged.report, staged.overlap and staged.overlap._asdict()
    document = {"outcome": staged.outcome, "said": staged.message, "report": report.as_json(), "runs": counts}
    problems = [f"{problem.severity}: {problem.sentence}" for problem in report.problems]
    _print_untrusted([*problems, f"{report.identity or 'no bundle'}: {staged.message}"], document, as_json=as_json)
    if staged.outcome == "refused":
        raise typer.Exit(2)


@app.command()
def waiting(as_json: JsonOption = False) -> None:
    """List the bundles that wait for a decision, the oldest first."""
    from tmflow.contributions.quarantine import waiting as listed

    uploads = listed(_quarantine())
    lines = [f"{upload.identity}: {upload.sentence}" for upload in uploads]
    _print_untrusted(lines or ["nothing waits."], [asdict(upload) for upload in uploads], as_json=as_json)


@app.command()
def accept(identity: IdentityArgument, by: By = None) -> None:
    """Store a waiting bundle in the database, completely or not at all."""
    from tmflow.contributions import review

    report = review.accept(_quarantine(), database(), identity, by or _user())
    stored = f"{several(report.runs_new, 'run')} stored, {report.runs_known} known"
    _print_untrusted([f"{report.identity} is accepted: {stored}.{_describe_withdrawal(report)}"])


@app.command()
def reject(
    identity: IdentityArgument,
    reason: Annotated[str, typer.Option(help="The reason, for later reference.")],
    by: By = None,
) -> None:
    """Reject a waiting bundle: its file is removed, and it is not accepted again."""
    from tmflow.contributions import review

    typer.echo(f"{review.reject(_quarantine(), identity, reason, by or _user())} was rejected.")


@app.command()
def compare(
    identity: IdentityArgument,
    run: Annotated[str | None, typer.Option(help="The uid of a run; default: the first runs that differ.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the runs whose content differs from the database: both versions of each differing field."""
    from tmflow.contributions import review
    from tmflow.contributions.review import differences

    quarantine = _quarantine()
    full_identity = review.require_open(quarantine, identity)["identity"]
    document, lines = [], []
    for one in islice(differences(reader(), quarantine.file(full_identity), run), SHOWN):
        document.append({**one._asdict(), "fields": [field._asdict() for field in one.fields]})
        withdrawn = f", withdrawn from the database with {one.withdrawn}" if one.withdrawn else ""
        lines.append(f"run {one.uid}{withdrawn}")
        lines += [f"{field.field}: bundle {field.bundle}, database {field.database}" for field in one.fields]
    _print_untrusted(lines or ["no run of this bundle differs from the database."], document, as_json=as_json)


@app.command()
def preview(identity: IdentityArgument, as_json: JsonOption = False) -> None:
    """Show what accepting a waiting bundle would change: new and known runs, and verdicts on claims."""
    from tmflow.contributions import review
    from tmflow.contributions.overlap import STATES
    from tmflow.reports.bundle_preview import preview

    quarantine = _quarantine()
    upload = review.require_open(quarantine, identity)
    previewed = preview(database(), quarantine.file(upload["identity"]), upload["name"])
    lines = [previewed.overlap.sentence]
    for row in previewed.overlap.experiments:
        counts = ", ".join(f"{row[state]} {state}" for state in STATES)
        lines.append(f"{row['experiment']}, {row['scale']}, strategies: {row['strategies']}; runs: {counts}")
    lines.append(previewed.sentence)
    for change in previewed.changes:
        lines.append(
            f"{change.claim}, {change.evidence}: {change.of_bundle}; claims show {change.before}, then {change.after}"
        )
    _print_untrusted(lines, previewed.as_json(), as_json=as_json)


@app.command()
def audit(
    last: Annotated[int, typer.Option(min=1, help="The number of newest entries.")] = 100, as_json: JsonOption = False
) -> None:
    """List the actions in the quarantine, the newest last."""
    from tmflow.contributions.quarantine import audit as listed

    rows = listed(_quarantine(), last)
    lines = ["  ".join(str(value) for value in row.values() if value is not None) for row in rows]
    _print_untrusted(lines, rows, as_json=as_json)


@contextmanager
def _audited_action(action: Action, identity: str, reason: str | None = None) -> Iterator[None]:
    """Record an action on a contribution in the audit; the action does not start if the audit cannot be written."""
    quarantine = _quarantine()
    with quarantine.begin() as connection:
        yield
        quarantine.note(connection, action, "done", _user(), identity, reason)


def _quarantine() -> Quarantine:
    from tmflow.contributions.quarantine import Quarantine, folder

    return Quarantine(folder())


def _user() -> str:
    return f"user {getpass.getuser()}"


def _print_untrusted(lines: list[str], document: Any = None, *, as_json: bool = False) -> None:
    """As `print_result`, for lines with untrusted text."""
    from tmflow.base.text import one_line

    print_result(as_json, document, map(one_line, lines))
