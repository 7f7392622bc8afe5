"""The study of the static program: data/native/study.jsonl, which is compiled into the program.

It holds every experiment whose points all use the native driver, at every scale, with MNIST. Everything that follows
from config.yaml is decided here: the spec of each point, the environment of its process, and the number of hardware
threads from which it runs. The program runs each point once in a round, whatever `repeats` is: that belongs to no
definition, so its rounds and those of tmflow are rounds of the same experiment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tmflow.base.errors import BadInput
from tmflow.base.files import write_text
from tmflow.base.paths import project_root
from tmflow.datasets import mnist_files
from tmflow.native import loader
from tmflow.native.registry import resolve
from tmflow.runner.round import backend_of
from tmflow.spec.factors import Dataset
from tmflow.spec.trial import TrialSpec
from tmflow.study.config import SCALES, Scale, Study
from tmflow.training.measurement import graph_key
from tmflow.training.native_driver import fused_variables

DATASET: Dataset = "mnist"
MOST_PROCESSORS = 1024  # a machine with this many runs every number of threads that a spec allows


def write(study: Study, path: Path) -> None:
    """Write the file. Raises BadInput if the native library, which defines the parameters, is not built."""
    loader.core()
    write_text(path, "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines(study)))


def compiled_experiments() -> set[str]:
    """The names of the static program's experiments. Raises BadInput if the file cannot be read."""
    path = project_root() / "data" / "native" / "study.jsonl"
    try:
        compiled = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise BadInput(f"{path}, the study of the static program, cannot be read: {error.strerror}.") from error
    return {line["experiment"]["name"] for line in compiled if line["kind"] == "experiment"}


def lines(study: Study) -> Iterator[dict[str, Any]]:
    """Yield the lines of the file: the study, the emulated machines, and each experiment followed by its points."""
    yield {"kind": "study", "dataset": _dataset(), "spec_fields": sorted(TrialSpec.model_fields)}
    experiments = [(name, scale) for scale in SCALES for name in study.at(scale) if is_native(study, name, scale)]
    points = [point for name, scale in experiments for point in study.points(name, scale, DATASET)]
    for profile in sorted({point.profile for point in points if point.profile is not None}):
        backend = backend_of(profile)
        assert backend is not None, "there is a profile"
        yield {"kind": "backend", "profile": profile, "backend": backend.model_dump(mode="json")}
    for name, scale in experiments:
        yield from _experiment(study, name, scale)


def _dataset() -> dict[str, Any]:
    """MNIST's files by role, and its hash."""
    official = mnist_files.catalogue()
    files = {
        role: {"name": file.name, "items": file.items, "sha256": file.sha256} for role, file in official.files.items()
    }
    return {"files": files, "sha256": official.sha256}


def is_native(study: Study, name: str, scale: Scale) -> bool:
    """Whether all runs of an experiment use the native driver and MNIST."""
    points = study.points(name, scale, DATASET)
    return bool(points) and all((point.driver, point.dataset) == ("native", DATASET) for point in points)


def _experiment(study: Study, name: str, scale: Scale) -> Iterator[dict[str, Any]]:
    yield {
        "kind": "experiment",
        "experiment": study.reference(name, scale, DATASET).model_dump(mode="json"),
        "definition_id": study.definition_id(name, scale),
        "rounds": study.rounds_of(name, scale),
        "trial_timeout_s": study.trial_timeout_s,
    }
    points = study.points(name, scale, DATASET)
    variants = list(dict.fromkeys(map(graph_key, points)))
    needed = _processors_needed(study, name, scale, points)
    for point in points:
        yield {"kind": "point", "from_processors": needed[point.sha256], **_point(point, variants)}


def _processors_needed(study: Study, name: str, scale: Scale, points: Sequence[TrialSpec]) -> dict[str, int]:
    """The fewest hardware threads of a machine that runs a spec, by the hash of the spec."""
    needed: dict[str, int] = {}
    for processors in range(1, MOST_PROCESSORS + 1):
        for point in study.points(name, scale, DATASET, processors):
            needed.setdefault(point.sha256, processors)
        if len(needed) == len(points):
            break
    return needed


def _point(point: TrialSpec, variants: Sequence[str]) -> dict[str, Any]:
    strategy = resolve(point.strategy, point.parameters())
    return {
        "parameters": strategy.native_arguments,
        "mechanism": strategy.mechanism,
        "fused": fused_variables(point),
        "times_locks": point.measures == "full" and strategy.times_locks,
        "environment": point.process_env(base={}),
        "evidence": point.evidence,
        "spec": point.factors(),
        "spec_sha256": point.sha256,
        "variant": variants.index(graph_key(point)),
    }
