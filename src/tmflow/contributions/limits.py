"""How much the quarantine takes."""

from __future__ import annotations

from tmflow.base.errors import BadInput

MIB = 1 << 20
UPLOAD_MIB = 64  # Streamlit keeps an upload in memory
MOST_RUNS = 100_000
MOST_WAITING = 20  # so that at most 1.3 GB wait
CHECK_S = 120.0  # MOST_RUNS took 46 s on a machine that others used (docs/uploads.md)


def require_size(n_bytes: int) -> None:
    """Raise BadInput for a file that is too large to be taken."""
    if n_bytes > UPLOAD_MIB * MIB:
        raise BadInput(
            f"the file is larger than {UPLOAD_MIB} MiB, the most that the quarantine takes: export less at once, or "
            "have it stored with `tmflow bundle import`."
        )


def require_runs(n_runs: int) -> None:
    """Raise BadInput for a bundle of too many runs."""
    if n_runs > MOST_RUNS:
        raise BadInput(
            f"the bundle has {n_runs:,} runs, and the quarantine takes at most {MOST_RUNS:,}: export less at once, or "
            "have it stored with `tmflow bundle import`."
        )


def require_room(n_waiting: int) -> None:
    """Raise BadInput while too many wait already."""
    if n_waiting >= MOST_WAITING:
        raise BadInput(
            f"as many bundles as there is room for ({n_waiting}) wait for a maintainer already: try again when some "
            "are decided."
        )
