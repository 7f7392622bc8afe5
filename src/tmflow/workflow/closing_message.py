"""The closing message of the study: what it measured, what it wrote, and how to view it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine

from tmflow.base.text import several
from tmflow.claims.origins import verdicts
from tmflow.claims.render import as_text, heading
from tmflow.reports import study_summary
from tmflow.store import engine
from tmflow.study.plan import Plan
from tmflow.workflow.request import Request
from tmflow.workflow.status import status
from tmflow.workflow.stored_rounds import describe_stored_rounds

WHY = "Why, and with what numbers: `tmflow claims`"
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
    for sentence in study_summary.summarise_study(plan, reader, sources):
        print(f"- {sentence}")
    if plan.scale == "quick":
        print(THEN_STUDY if request.is_whole_study else "")
        return
    print(_verdicts(plan, request, reader, sources))


def _verdicts(plan: Plan, request: Request, reader: Engine, experiments: Sequence[str]) -> str:
    """A line for each claim about the requested experiments, evaluated on the runs of this study's machine."""
    platform = study_summary.measured_platform(plan, reader)
    if platform is None:
        return "\nNo run of this study's machine is stored, so no claim is judged."
    judged = verdicts(reader, platform=platform)
    if not request.is_whole_study:
        judged = [verdict for verdict in judged if not set(experiments).isdisjoint(verdict.claim.experiments())]
    if not judged:
        return ""
    and_report = ", and the report" if request.is_whole_study else ""
    return f"\n{as_text(judged, heading(reader, platform), brief=True)}\n{WHY}{and_report}."


def stopped(plan: Plan, request: Request, database: URL) -> str:
    """The message of a stopped study: what is kept, how to continue, and how to view it."""
    again = f"make {'quick' if plan.scale == 'quick' else 'study'}"
    if not request.is_whole_study:
        scale = " --scale quick" if plan.scale == "quick" else ""
        again = f"tmflow study run{scale} {' '.join((*request.experiments, *request.targets))}"
    kept = f"the study was stopped; what is done is kept, and `{again}` goes on from there."
    return kept + describe_stored_rounds(plan, database)


def _counts(plan: Plan, request: Request, state: dict[str, Any]) -> str:
    trials = (
        f"{state['trials_ok']} of {state['trials_planned']} trials ok, {state['trials_failed']} failed, "
        f"{state['trials_unsupported']} unsupported"
    )
    missing = sum(state["missing"].values())
    is_complete = f"not complete, {several(missing, 'trial')} missing" if missing else "complete"
    if request.is_by_name:
        sources = {name: plan.source(name) for name in request.experiments}
        named = [name if name == source else f"{name} (the runs of {source})" for name, source in sources.items()]
        are = "are" if len(named) > 1 else "is"
        return f"{', '.join(named)} {are} {is_complete}: {trials}. No other experiment was run."
    summary = f"The {plan.scale} study is {is_complete}: {trials}."
    if missing:
        return summary
    time = f"{state['wall_s']:.0f} s, {state['timed_s']:.1f} s of that inside timed loops"
    return f"{summary} Its last campaign took {time}."


def _files(plan: Plan, request: Request, began_ns: int) -> Iterator[tuple[str, str]]:
    """The requested files that are up to date; with options or targets of Snakemake only files that this call wrote."""
    files = [("figures", "figures"), ("report", "report.html"), ("notebooks", "notebooks")]
    if request.is_by_name:
        names = request.experiments
        files = [file for name in names for file in (("figures", f"figures/{name}"), ("table", f"tables/{name}.html"))]
    for label, name in files:
        path = plan.results / name
        up_to_date = not (request.options or request.targets)
        if path.exists() and (up_to_date or _newest_ns(path) >= began_ns):
            yield label, f"{path}/" if path.is_dir() else str(path)


def _newest_ns(path: Path) -> int:
    """The modification time of a file, or of the newest file in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return max((file.stat().st_mtime_ns for file in files), default=0)
