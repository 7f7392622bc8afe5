"""What notebooks share: the records of an experiment and its figures, or a sentence on what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tmflow.analysis.experiment_records import Records
from tmflow.charts import figures
from tmflow.charts.figures import DRAWINGS, Figure
from tmflow.store import queries
from tmflow.store.frames import Source

SCALES = ("full", "quick", "adhoc")  # the fullest first


class Note(str):
    """A sentence that a notebook shows as text."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


def experiments(database: Source, prefix: str = "") -> dict[str, str]:
    """The experiments that the database holds whose names begin so, each with the fullest scale that it has."""
    held = queries.counts(database)
    names = dict.fromkeys(name for name in held["experiment"] if name.startswith(prefix))
    return {name: min(set(held.loc[held["experiment"] == name, "scale"]), key=SCALES.index) for name in names}


def records(database: Source, experiment: str) -> Records | Note:
    """What the runs of an experiment recorded, at its fullest scale; where there is none, how to get it."""
    scale = experiments(database).get(experiment)
    if scale is None:
        return Note(f"**There are no runs of `{experiment}` here.** `make study` makes them, if config.yaml has it.")
    return queries.records(database, experiment=experiment, scale=scale)


def drawn(database: Source, experiment: str, kinds: Sequence[str]) -> Iterator[Figure | Note]:
    """The figures of an experiment, `kinds` of `figures.DRAWINGS`; for what cannot be drawn, why."""
    its = records(database, experiment)
    if isinstance(its, Note):
        yield its
        return
    revision = queries.revision(database)
    for kind in kinds:
        summary = DRAWINGS[kind].summarise(its)
        yield from (figure for _, figure in figures.figures_of(kind, summary, revision))
        for label, reasons in figures.gaps_of(kind, summary):
            what = ", ".join(filter(None, (kind.replace("_", " "), label)))
            yield Note(f"Not drawn for `{experiment}`: {what}: {'; '.join(reasons)}.")
