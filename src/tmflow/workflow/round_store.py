"""Storing of complete rounds while the study runs, so that the portal and the claims show them."""

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
    """Store the complete run files that the database does not hold yet; no timed work starts before this ends.

    The step of a round calls this before it measures, so it stores the earlier rounds. It must not store its own round:
    Snakemake deletes the run file of a step that fails, so a step that is killed after storing would leave a round in
    the database that is then measured again.

    A failure is reported but does not stop measuring. The run files stay, and the step that stores the entire
    experiment meets the same failure and stops the study.
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
