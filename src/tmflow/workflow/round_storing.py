"""Storing rounds while the study goes on, so that portal and claims show them."""

from __future__ import annotations

import sys
import traceback

from tmflow.base.errors import BadInput
from tmflow.base.locks import machine_to_itself
from tmflow.base.text import several
from tmflow.store import engine
from tmflow.store.ingest import ingest, not_stored
from tmflow.study.plan import Plan


def store_complete_rounds(plan: Plan) -> None:
    """Store the complete run files that the database does not hold yet; nobody's timed work begins before this ends.

    The step of a round calls this before it measures, so it stores the rounds before its own. It must not store its
    own: Snakemake deletes the run file of a step that fails, so a step that was killed after storing would leave a
    round in the database that is measured again.

    A failure is no reason to stop measuring. It is reported; the run files stay, and the step that stores the whole
    experiment meets the same failure and stops the study with it.
    """
    complete = [path for name in plan.experiments for path in plan.run_files(name) if path.exists()]
    database = engine.url_from_env(plan.results / "study.db")
    try:
        if missing := not_stored(database, complete):
            with machine_to_itself():
                ingest(database, missing)
    except (BadInput, OSError) as error:
        print(f"tmflow: {several(len(complete), 'round')} complete, but not all stored yet: {error}", file=sys.stderr)
    except Exception:
        traceback.print_exc()
        print(f"tmflow: {several(len(complete), 'round')} complete, but not all stored yet.", file=sys.stderr)
