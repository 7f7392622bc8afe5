"""The study as it was compiled: data/native/study.jsonl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

from tmflow.base.errors import BadInput, unknown
from tmflow.base.paths import project_root
from tmflow.spec.strategies import PARAMETERS, Value
from tmflow.training.native_trial import Asked

Json = dict[str, Any]


class Spec(SimpleNamespace):
    """The factors of a trial, in place of a TrialSpec; None are those that do not apply."""

    def parameters(self) -> dict[str, Value]:
        """The strategy's parameters that have a value."""
        return {name: value for name, value in vars(self).items() if value is not None and name in PARAMETERS}


@dataclass(frozen=True)
class Point:
    """A point of an experiment, with all that was decided when the study was compiled."""

    factors: Json
    spec: Any  # a `Spec`, which everything that takes a TrialSpec takes here
    sha256: str
    variant: int  # the points of an experiment with the same number are warmed up together
    environment: dict[str, str]  # what its process is started with
    evidence: str
    backend: Json | None
    from_processors: int  # a machine with fewer does not run it
    asked: Asked


@dataclass(frozen=True)
class Experiment:
    reference: Json
    definition_id: str
    rounds: int
    trial_timeout_s: float
    points: list[Point] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.reference["name"])

    @property
    def scale(self) -> str:
        return str(self.reference["scale"])

    def points_for(self, processors: int) -> list[Point]:
        """Those that a machine with so many hardware threads runs."""
        return [point for point in self.points if point.from_processors <= processors]


@dataclass(frozen=True)
class Study:
    dataset_sha256: str
    experiments: list[Experiment]

    def at(self, scale: str, names: Sequence[str] = ()) -> list[Experiment]:
        """The experiments of a scale, or those of these names. Raises BadInput for a name that it has not."""
        found = {one.name: one for one in self.experiments if one.scale == scale}
        for name in names:
            if name not in found:
                raise unknown(f"experiment at scale {scale}", name, found)
        return [one for name, one in found.items() if not names or name in names]


@cache
def study() -> Study:
    """The study. Raises BadInput where it has not been compiled."""
    path = project_root() / "data" / "native" / "study.jsonl"
    try:
        head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise BadInput(
            f"{path}, the study for machines without TensorFlow, cannot be read: {error.strerror}."
        ) from error
    nothing = dict.fromkeys(head["spec_fields"])
    backends: dict[str | None, Json] = {}
    experiments: list[Experiment] = []
    for line in lines:
        if line["kind"] == "backend":
            backends[line["profile"]] = line["backend"]
        elif line["kind"] == "experiment":
            own = (line["experiment"], line["definition_id"], line["rounds"], line["trial_timeout_s"])
            experiments.append(Experiment(*own))
        else:
            experiments[-1].points.append(_point(line, nothing, backends))
    return Study(head["dataset"]["sha256"], experiments)


def _point(line: Json, nothing: Json, backends: dict[str | None, Json]) -> Point:
    return Point(
        factors=line["spec"],
        spec=Spec(**nothing | line["spec"]),
        sha256=line["spec_sha256"],
        variant=line["variant"],
        environment=line["environment"],
        evidence=line["evidence"],
        backend=backends.get(line["spec"].get("profile")),
        from_processors=line["from_processors"],
        asked=Asked(*(line[name] for name in Asked._fields)),
    )
