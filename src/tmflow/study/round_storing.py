"""Storing a round as soon as it is measured, so that portal and claims show it while the study goes on."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from tmflow.errors import BadInput
from tmflow.runner.lock import machine_to_itself
from tmflow.store import engine
from tmflow.store.ingest import ingest


def store_round(results: Path, run_file: Path) -> None:
    """Store a complete run file, between two rounds: nobody's timed work begins before this ends.

    A failure is no reason to stop measuring. It is reported into the log of the round; the run file stays, and the step
    that stores the whole experiment meets the same failure and stops the study with it.
    """
    try:
        with machine_to_itself():
            ingest(engine.url_from_env(results / "study.db"), [run_file])
    except (BadInput, OSError) as error:
        print(f"tmflow: {run_file} is complete, but not stored yet: {error}", file=sys.stderr)
    except Exception:
        traceback.print_exc()
        print(f"tmflow: {run_file} is complete, but not stored yet.", file=sys.stderr)
