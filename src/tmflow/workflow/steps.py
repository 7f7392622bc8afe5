"""What the DAG is doing, from Snakemake's own log: for what takes long and leaves nothing to count, as drawing does."""

from __future__ import annotations

import re
from pathlib import Path

_BEGUN = re.compile(r"^(?:local)?rule (\w+):$", re.MULTILINE)
_OF = re.compile(r"^    wildcards: (?:experiment|notebook)=([^,\s]+)", re.MULTILINE)
_DONE = re.compile(r"^\d+ of \d+ steps", re.MULTILINE)

_WORDS = {
    "ingest": "storing {}",
    "contributions": "storing the runs of others",
    "figures": "drawing {}",
    "notebook": "executing notebook {}",
    "report": "writing the report",
}
_TAIL = 30_000  # bytes: the last steps, with the lists of their inputs


def snakemake_log(results: Path) -> Path:
    """All that Snakemake said in an invocation of the study."""
    return results / "logs" / "snakemake.log"


class Steps:
    """The steps of one call of Snakemake, which appends to the log."""

    def __init__(self, results: Path) -> None:
        self._log = snakemake_log(results)
        self._begins = self._log.stat().st_size if self._log.exists() else 0

    def look(self) -> str:
        """In words the step that has begun last, and how many are done."""
        text = self._tail()
        begun = list(_BEGUN.finditer(text))
        if not begun or begun[-1][1] not in _WORDS:
            return "storing and drawing"
        of = _OF.search(text, begun[-1].end())
        doing = _WORDS[begun[-1][1]].format(of[1] if of else "")
        done = _DONE.findall(text)
        return f"{doing} ({done[-1]} done)" if done else doing

    def _tail(self) -> str:
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(max(self._begins, self._log.stat().st_size - _TAIL))
            return file.read().decode("utf-8", errors="replace")
