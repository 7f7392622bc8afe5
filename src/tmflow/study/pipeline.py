"""Running the DAG: Snakemake, once at a time on a results folder, resumable after any kind of end."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tmflow.data import mnist
from tmflow.errors import BadInput
from tmflow.native.build import find_compiler
from tmflow.paths import project_root
from tmflow.store import engine, schema
from tmflow.study import campaign
from tmflow.study.plan import Plan, dataset_path, resolved_dataset
from tmflow.study.status import status

DONE = """
The {scale} study is complete: {trials_ok} of {trials_planned} trials ok, {trials_failed} failed, \
{trials_unsupported} unsupported, in {wall_s:.0f} s ({timed_s:.1f} s inside timed loops).
  figures   {results}/figures/
  report    {results}/report.html
  database  {database}
Open the portal with:     make portal
"""
THEN_STUDY = "Run all of it with:       make study   (quick is too small to conclude from)\n"


class PipelineFailed(Exception):
    """Snakemake ended with an error, which it has printed."""


def run(plan: Plan, arguments: Sequence[str] = ()) -> None:
    """Run what is missing of the study, then make the report; finished trials are never run again.

    Raises BadInput for what would only fail after hours of measuring: no compiler, no TensorFlow, an unusable database.
    """
    _check_before(plan)
    with _results_to_itself(plan.results) as lock:
        if {"-n", "--dry-run", "--dryrun"} & set(arguments):
            snakemake(plan, arguments, lock)
            return
        its_campaign = campaign.begin(plan.results, plan.scale)
        finished = False
        try:
            snakemake(plan, arguments, lock)
            snakemake(plan, ["--quiet", "all", "--report", str(plan.results / "report.html")], lock)
            finished = True
        finally:
            campaign.end(plan.results, its_campaign, finished=finished)
    url = engine.url_from_env(plan.results / "study.db")
    print(DONE.format(**status(plan), results=plan.results, database=url.render_as_string(hide_password=True)))
    if plan.scale == "quick":
        print(THEN_STUDY)


def build(plan: Plan) -> None:
    """Build the native strategies, where that is not done yet. Raises BadInput without a compiler."""
    variants = plan.results / "build" / "variants.json"
    if not variants.exists():
        find_compiler()
    try:
        snakemake(plan, [os.path.relpath(variants, project_root()), "--quiet", "progress", "rules", "host", "reason"])
    except PipelineFailed:
        log = plan.results / "logs" / "build.log"
        print(log.read_text(encoding="utf-8")[-4000:] if log.exists() else "", file=sys.stderr)
        raise


def snakemake(plan: Plan, arguments: Sequence[str], lock: int | None = None) -> None:
    """Call Snakemake on the study. `lock` is a file descriptor that stays open for as long as it lives."""
    command = [sys.executable, "-m", "snakemake", "--nolock", *arguments, "--config", f"scale={plan.scale}"]
    inherited = () if lock is None else (lock,)
    child = subprocess.Popen(command, cwd=project_root(), pass_fds=inherited)
    try:
        code = child.wait()
    except KeyboardInterrupt:
        child.wait()  # the terminal has interrupted it too; it ends its jobs first
        raise
    if code != 0:
        raise PipelineFailed("the study stopped early; its messages are above, those of its steps in results/logs/.")


def _check_before(plan: Plan) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        raise BadInput("TensorFlow is not installed, and the session driver needs it: run `make setup`.")
    if not (plan.results / "build" / "variants.json").exists():
        find_compiler()
    schema.require_usable(engine.url_from_env(plan.results / "study.db"))
    _drop_stand_in(plan)


def _drop_stand_in(plan: Plan) -> None:
    """Where the digits stood in for MNIST and MNIST has come since, let the data step settle on it now."""
    path = dataset_path(plan.results)
    if plan.study.dataset == "auto" and path.exists() and resolved_dataset(plan.results) == "digits" and mnist.find():
        path.unlink()


@contextmanager
def _results_to_itself(results: Path) -> Iterator[int]:
    """Hold the lock of the results folder. Snakemake inherits it: an orphan of a killed invocation still holds it."""
    results.mkdir(parents=True, exist_ok=True)
    handle = os.open(results / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"tmflow: another study runs on {results}; waiting for it to end.", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)
