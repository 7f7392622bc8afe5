"""The complete rounds on disk and in the database: storing them, and the differences between disk and database."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from pathlib import Path

from sqlalchemy import URL

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.base.locks import machine_to_itself
from tmflow.base.text import several
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.store import engine, queries, schema
from tmflow.store.engine import shown
from tmflow.store.ingest import ingest, not_stored
from tmflow.study.plan import Plan, dataset_path, resolved_dataset

NAMED = 3  # the most experiments that a message names


def complete_rounds(plan: Plan) -> list[Path]:
    """The run files of all complete rounds of the plan."""
    return [path for name in plan.experiments for path in plan.run_files(name) if path.exists()]


def store_complete_rounds(plan: Plan) -> bool:
    """Store the complete run files that the database does not hold yet; no timed work starts before this ends.

    Returns whether all are stored.

    The step of a round calls this before it measures, so it stores the earlier rounds. It must not store its own round:
    Snakemake deletes the run file of a step that fails, so a step that is killed after storing would leave a round in
    the database that is then measured again.

    A failure is reported but does not stop measuring. The run files stay, and the step that stores the entire
    experiment meets the same failure and stops the study.
    """
    complete = complete_rounds(plan)
    database = engine.url_from_env(plan.results / "study.db")
    try:
        if missing := not_stored(database, complete):
            with machine_to_itself():
                ingest(database, missing)
    except (BadInput, OSError) as error:
        print(f"tmflow: {several(len(complete), 'round')} complete, but not all stored yet: {error}", file=sys.stderr)
        return False
    except Exception:
        traceback.print_exc()
        print(f"tmflow: {several(len(complete), 'round')} complete, but not all stored yet.", file=sys.stderr)
        return False
    return True


def describe_stored_rounds(plan: Plan, database: URL) -> str:
    """Describe how many complete rounds are stored, how to view them, and how many are not stored."""
    complete = complete_rounds(plan)
    if not complete:
        return " No round is complete yet."
    try:
        missing = not_stored(database, complete)
    except (BadInput, OSError):
        missing = complete
    described = ""
    if n := len(complete) - len(missing):
        described += f" {several(n, 'complete round')} can be seen with `make portal` and `tmflow claims`."
    if n := len(missing):
        are = "is" if n == 1 else "are"
        described += f" {several(n, 'complete round')} {are} not stored yet; `tmflow ingest FILE...` stores run files."
    return described


def already_stored(plan: Plan, database: URL) -> str | None:
    """Describe the stored rounds whose run files are missing, and the consequence; None if there are none.

    The database keeps all runs: if a run file is deleted, its round is measured again and stored twice. Counts rounds
    of this machine and of the current definition.
    """
    if not dataset_path(plan.results).exists() or not schema.exists(database):
        return None
    stored = queries.rounds(engine.open_reader(database))
    stored = stored[stored["platform_sha256"] == platform_sha256(platform_facts())]
    stored_rounds = set(zip(stored["experiment"], stored["definition_sha256"], stored["round"], strict=True))
    dataset = resolved_dataset(plan.results)
    again = Counter[str]()
    for name in plan.experiments:
        definition = sha256_of(plan.study.definition(name, plan.scale, dataset))
        for number, path in enumerate(plan.run_files(name), start=1):
            if not path.exists() and (name, definition, number) in stored_rounds:
                again[name] += 1
    if not again:
        return None
    what = ", ".join(again) if len(again) <= NAMED else f"{len(again)} experiments"
    return (
        f"{shown(database)} holds {several(again.total(), 'round')} of {what} whose run files are missing; they are "
        "measured again, and figures and claims will use both, if the software is the same; to use only the new ones, "
        "stop, move the database away, and run this again."
    )
