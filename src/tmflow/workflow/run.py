"""Execution of the DAG by Snakemake: one at a time per results folder, resumable after any interruption."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import URL

from tmflow.base.errors import BadInput, PipelineFailed, Stopped
from tmflow.base.files import require_writable, write_bytes
from tmflow.base.paths import project_root
from tmflow.base.processes import adopt_orphans, end_children
from tmflow.datasets import mnist
from tmflow.native.build import is_current
from tmflow.native.tools import find_compiler
from tmflow.runner.machine_load import look
from tmflow.store import engine, schema
from tmflow.store.ingest import ingest
from tmflow.study import adaptive_rounds, campaign
from tmflow.study.plan import Plan, dataset_path, resolved_dataset
from tmflow.workflow.closing_message import print_closing, stopped
from tmflow.workflow.locking import machine_lock, results_lock
from tmflow.workflow.progress import Progress, build_log, snakemake_log, watch, watch_until
from tmflow.workflow.request import Request, parse_request
from tmflow.workflow.spare_time import SpareTime
from tmflow.workflow.stored_rounds import already_stored, complete_rounds, store_complete_rounds

# The second option ends the list of names of the first one, so that it does not include targets that follow.
ROUNDS_ONLY = ["--until", "round", "--nolock"]
QUIET = ["--quiet", "progress", "rules", "host", "reason"]
# Folders of the results, in addition to the runs.
FOLDERS = ("build", "data", "figures", "ingested", "logs", "notebooks", "tables")
SHOWN = 8000  # characters from the end of Snakemake's log


def run(plan: Plan, arguments: Sequence[str] = (), *, fresh: bool = False, hours: float | None = None) -> None:
    """Run the missing part of the study, then make the report; a measured round is never measured again.

    `fresh` first moves the existing run files to the archive. `hours`: after the planned rounds, claims that need more
    of them get some, until about so many hours after the call. Raises BadInput for an unknown experiment, and for
    problems that would otherwise appear after hours: no compiler, no TensorFlow for a session, an altered file of
    MNIST, a folder that cannot be written, an unusable database, a machine that another study holds. Raises Stopped on
    ctrl-C and SIGTERM, after all child processes have ended; processes of an earlier study continue.
    """
    request = parse_request(plan, arguments)
    if fresh and not request.is_whole_study:
        raise BadInput("--fresh measures the whole study again: name no experiment or file with it.")
    if hours is not None and request.targets:
        raise BadInput("--hours adds rounds to the whole study or to named experiments: name no file or rule with it.")
    database = engine.url_from_env(plan.results / "study.db")
    _check_before(plan, database)
    if request.is_dry_run:
        _snakemake(plan, request.arguments(plan))
        return
    spare_time = None if hours is None else SpareTime(plan, request, database, hours)

    def watch_others(ended: Callable[[float], bool]) -> None:
        watch_until(ended, Progress(plan, request.sources(plan)))

    try:
        with (
            machine_lock(plan.results, watch_others) as machine,
            results_lock(plan.results, watch_others) as lock,
        ):
            try:
                _run(plan, request, database, (machine, lock), fresh=fresh, spare_time=spare_time)
            except (KeyboardInterrupt, SystemExit, PipelineFailed):
                store_complete_rounds(plan)
                raise
    except (KeyboardInterrupt, SystemExit) as stop:
        raise Stopped(stopped(plan, request, database), stop) from None


def _run(
    plan: Plan,
    request: Request,
    database: URL,
    locks: tuple[int, ...],
    *,
    fresh: bool,
    spare_time: SpareTime | None,
) -> None:
    began_ns = time.time_ns()
    _drop_stale_build(plan)
    _drop_stand_in(plan)
    _drop_stale_marks(plan, database)
    if fresh and (archive := campaign.set_aside(plan.results, plan.scale)):
        print(f"tmflow: the run files so far are in {archive}.")
    if notice := already_stored(plan, database):
        print(f"tmflow: {notice}", flush=True)
        campaign.close(plan.results, plan.scale)  # a campaign has a round once, and the database already has it
    write_bytes(snakemake_log(plan.results), b"")
    _measure(plan, request, locks, spare_time)
    print("tmflow: evaluating the claims.", file=sys.stderr, flush=True)
    # The database may have lost runs since their files were stored; runs that it still holds are not changed.
    ingest(database, complete_rounds(plan))
    print_closing(plan, request, database, began_ns)
    if spare_time is not None:
        print(f"\n{spare_time.summary()}")


def build(plan: Plan) -> None:
    """Build the native strategies unless they are up to date. Raises BadInput without a compiler."""
    variants = _variants(plan)
    if not is_current(variants):
        find_compiler()
    try:
        with results_lock(plan.results) as lock:
            _drop_stale_build(plan)
            _snakemake(plan, [os.path.relpath(variants, project_root()), *QUIET], (lock,))
    except PipelineFailed:
        log = build_log(plan.results)
        print(log.read_text(encoding="utf-8")[-4000:] if log.exists() else "", file=sys.stderr)
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        raise Stopped(
            "the build was stopped; what is done is kept, and `make build` goes on from there.", stop
        ) from None


def lint(plan: Plan) -> None:
    """Check the workflow with Snakemake's own linter."""
    _snakemake(plan, ["--lint"])


def _measure(plan: Plan, request: Request, locks: tuple[int, ...], spare_time: SpareTime | None) -> None:
    """Run the DAG, as part of a campaign if there is anything to measure."""
    if _is_finished(plan) and not (spare_time and spare_time.next_wish()):
        campaign.close(plan.results, plan.scale)
        _snakemake_logged(plan, request, locks)
        return
    if (now := look()).busy:
        print(f"tmflow: the machine is busy, so times will be unreliable ({now}).", file=sys.stderr, flush=True)
    sources = request.sources(plan)
    current = campaign.begin(plan.results, plan.scale)
    try:
        if adaptive_rounds.may_add(plan, sources):  # run the rounds first, then others until no experiment needs more
            wanting = adaptive_rounds.wanting(plan, sources)
            while True:
                plan.allot(current, wanting)
                _snakemake_logged(plan, request, locks, first=ROUNDS_ONLY)
                if not (wanting := adaptive_rounds.wanting(plan, sources)):
                    break
                added = ", ".join(f"{name} ({number})" for name, number in wanting.items())
                print(f"tmflow: some intervals are still wider than 5 %; one more round of {added}.", flush=True)
        if spare_time:
            _add_rounds_of_claims(plan, request, locks, current, spare_time)
        _snakemake_logged(plan, request, locks)
    finally:
        campaign.end(plan.results, current, finished=_is_finished(plan))


def _add_rounds_of_claims(
    plan: Plan, request: Request, locks: tuple[int, ...], current: campaign.Campaign, spare_time: SpareTime
) -> None:
    """Measure the planned rounds, then rounds for the claims that want them, while the next ones fit in the time."""
    if not all(path.exists() for name in request.sources(plan) for path in plan.run_files(name)):
        _snakemake_logged(plan, request, locks, first=ROUNDS_ONLY)
    while wish := spare_time.next_wish():
        plan.allot_to_claims(current, {name: plan.rounds(name) + 1 for name in wish.rounds})
        print(f"tmflow: {spare_time.describe(wish)}", flush=True)
        _snakemake_logged(plan, request, locks, first=ROUNDS_ONLY)
        spare_time.record(wish)


def _is_finished(plan: Plan) -> bool:
    return plan.is_measured() and not adaptive_rounds.wanting(plan)


def _snakemake_logged(plan: Plan, request: Request, locks: tuple[int, ...], *, first: Sequence[str] = ()) -> None:
    """Call Snakemake with a progress bar; its output goes to a log, which is shown if it fails.

    `first`: options that come before those of the request.
    """
    log = snakemake_log(plan.results)
    progress = Progress(plan, request.sources(plan))
    try:
        with log.open("ab") as file:
            _snakemake(plan, [*first, *request.arguments(plan)], locks, output=file, progress=progress)
    except PipelineFailed:
        print(log.read_text(encoding="utf-8", errors="replace")[-SHOWN:], file=sys.stderr)
        raise


def _snakemake(
    plan: Plan,
    arguments: Sequence[str],
    locks: tuple[int, ...] = (),
    *,
    output: BinaryIO | None = None,
    progress: Progress | None = None,
) -> None:
    """Call Snakemake on the study. `locks` are file descriptors that stay open while it runs."""
    command = [sys.executable, "-m", "snakemake", "--nolock", *arguments, "--config", f"scale={plan.scale}"]
    adopt_orphans()
    child = subprocess.Popen(command, cwd=project_root(), pass_fds=locks, stdout=output, stderr=output)
    try:
        code = watch(child, progress) if progress else child.wait()
    except BaseException:
        end_children()
        raise
    if code != 0:
        raise PipelineFailed("the study stopped early; its messages are above, those of its steps in results/logs/.")


def _check_before(plan: Plan, database: URL) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        # The points of the session driver do not depend on the dataset.
        sessions = [n for n in plan.experiments if any(p.driver == "session" for p in plan.points(n, "mnist"))]
        if sessions:
            named = ", ".join(sessions)
            raise BadInput(f"TensorFlow is not installed, and the session driver needs it ({named}): run `make setup`.")
    if not is_current(_variants(plan)):
        find_compiler()
    if plan.study.dataset != "digits":
        mnist.find_verified()
    for folder in ("", "runs", f"runs/{plan.scale}", *FOLDERS):
        require_writable(plan.results / folder)
    schema.require_usable(database)


def _variants(plan: Plan) -> Path:
    return plan.results / "build" / "variants.json"


def _drop_stale_build(plan: Plan) -> None:
    """Delete variants.json if its libraries are gone or stale: Snakemake checks only this file."""
    if not is_current(_variants(plan)):
        _variants(plan).unlink(missing_ok=True)


def _drop_stale_marks(plan: Plan, database: URL) -> None:
    """Delete the marks of stored experiments if the database is gone: Snakemake checks only these marks."""
    if (marks := plan.results / "ingested").exists() and not schema.exists(database):
        shutil.rmtree(marks)


def _drop_stand_in(plan: Plan) -> None:
    """Let the data step choose again if it chose digits in place of MNIST and MNIST is now available."""
    path = dataset_path(plan.results)
    if plan.study.dataset == "auto" and path.exists() and resolved_dataset(plan.results) == "digits" and mnist.find():
        path.unlink()
