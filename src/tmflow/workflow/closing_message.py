"""The closing message of the study: what it measured, what it wrote, and how to view it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine

from tmflow.base.errors import BadInput
from tmflow.base.text import several
from tmflow.claims.heading import heading
from tmflow.claims.judge import Judged, verdicts
from tmflow.claims.render import as_text
from tmflow.reports import headline
from tmflow.store import engine
from tmflow.store.ingest import not_stored
from tmflow.study.plan import Plan
from tmflow.workflow.request import Request
from tmflow.workflow.status import status

WHY = "Why, and with what numbers: `tmflow claims`, and the report."
WHY_OF_SOME = "Why, and with what numbers: `tmflow claims`."
THEN_STUDY = "Run all of it with:       make study   (quick is too small to conclude from)\n"


def print_closing(plan: Plan, request: Request, database: URL, began_ns: int) -> None:
    """Print the trials of the request, the files that it made, and the results."""
    sources = request.sources(plan)
    state = status(plan, sources)
    print(f"\n{_counts(plan, request, state)}")
    for label, path in _files(plan, request, began_ns):
        print(f"  {label:<9} {path}")
    print(f"  {'database':<9} {database.render_as_string(hide_password=True)}")
    print("Open the portal with:     make portal\n")
    reader = engine.open_reader(database)
    for sentence in headline.summarise_study(plan, reader, sources):
        print(f"- {sentence}")
    if plan.scale == "quick":
        print(THEN_STUDY if request.is_whole_study else "")
        return
    print(_verdicts(plan, request, reader, sources))


def _verdicts(plan: Plan, request: Request, reader: Engine, experiments: Sequence[str]) -> str:
    """A line for each claim about the requested experiments, evaluated on the runs of this study's machine."""
    platform = headline.measured_platform(plan, reader)
    if platform is None:
        return "\nNo run of this study's machine is stored, so no claim is judged."
    judged = verdicts(reader, platform=platform)
    if not request.is_whole_study:
        judged = _about(judged, experiments)
    if not judged:
        return ""
    why = WHY if request.is_whole_study else WHY_OF_SOME
    return f"\n{as_text(judged, heading(reader, platform), brief=True)}\n{why}"


def stopped(plan: Plan, request: Request, database: URL) -> str:
    """The message of a stopped study: what is kept, how to continue, and how to view it."""
    again = f"`make {'quick' if plan.scale == 'quick' else 'study'}`"
    if not request.is_whole_study:
        scale = " --scale quick" if plan.scale == "quick" else ""
        again = f"`tmflow study run{scale} {' '.join((*request.experiments, *request.targets))}`"
    return f"the study was stopped; what is done is kept, and {again} goes on from there.{_stored(plan, database)}"


def _stored(plan: Plan, database: URL) -> str:
    """Describe how many complete rounds are stored, how to view them, and how many are not stored."""
    complete = [path for name in plan.experiments for path in plan.run_files(name) if path.exists()]
    if not complete:
        return " No round is complete yet."
    try:
        missing = not_stored(database, complete)
    except (BadInput, OSError):
        missing = complete
    n = len(complete) - len(missing)
    stored = f" {several(n, 'complete round')} can be seen with `make portal` and `tmflow claims`." if n else ""
    are = "is" if len(missing) == 1 else "are"
    later = (
        f" {several(len(missing), 'complete round')} {are} not stored yet; `tmflow ingest FILE...` stores run files."
    )
    return stored + (later if missing else "")


def _counts(plan: Plan, request: Request, state: dict[str, Any]) -> str:
    trials = (
        f"{state['trials_ok']} of {state['trials_planned']} trials ok, {state['trials_failed']} failed, "
        f"{state['trials_unsupported']} unsupported"
    )
    missing = sum(state["missing"].values())
    is_complete = f"not complete, {several(missing, 'trial')} missing" if missing else "complete"
    if request.is_by_name:
        are = "are" if len(request.experiments) > 1 else "is"
        return f"{_named(plan, request)} {are} {is_complete}: {trials}. No other experiment was run."
    summary = f"The {plan.scale} study is {is_complete}: {trials}."
    if missing:
        return summary
    time = f"{state['wall_s']:.0f} s, {state['timed_s']:.1f} s of that inside timed loops"
    return f"{summary} Its last campaign took {time}."


def _named(plan: Plan, request: Request) -> str:
    """The requested experiments, with the experiments whose runs they use."""
    sources = {name: plan.source(name) for name in request.experiments}
    return ", ".join(name if source == name else f"{name} (the runs of {source})" for name, source in sources.items())


def _files(plan: Plan, request: Request, began_ns: int) -> Iterator[tuple[str, str]]:
    """The requested files that are up to date; with options or targets of Snakemake only files that this call wrote."""
    results = plan.results
    of_study = [("figures", "figures"), ("report", "report.html"), ("notebooks", "notebooks")]
    of_names = [
        place
        for name in request.experiments
        for place in (("figures", f"figures/{name}"), ("table", f"tables/{name}.html"))
    ]
    for label, name in of_names if request.is_by_name else of_study:
        path = results / name
        up_to_date = not (request.options or request.targets)
        if path.exists() and (up_to_date or _newest_ns(path) >= began_ns):
            yield label, f"{path}/" if path.is_dir() else str(path)


def _newest_ns(path: Path) -> int:
    """The modification time of a file, or of the newest file in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return max((file.stat().st_mtime_ns for file in files), default=0)


def _about(judged: Sequence[Judged], experiments: Sequence[str]) -> list[Judged]:
    """The verdicts on claims about any of these experiments."""
    return [verdict for verdict in judged if not set(experiments).isdisjoint(verdict.claim.experiments())]
