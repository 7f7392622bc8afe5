"""Closed schema of data/figures.yaml: the figures of the study, and the numbers that its text gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from tmflow.base.documents import document, kept, read_yaml
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.charts.marks import Published
from tmflow.claims.measures import Closed
from tmflow.claims.schema import Claim, check_factors

NUMBER = r"\d+\.\d+"
CONCLUSIONS = "conclusions"
DISTRIBUTED_STUDY = (
    "M. Gaina, B. Lombardi, Apprendimento Distribuito e un Caso di Studio: TensorFlow. University of Bologna"
)
HPX_STUDY = "L. Troska, A HPX backend for TensorFlow. University of Bonn, 2017"
PREFIX = "fig-"  # of the experiments that repeat a figure


Platform = Literal["TSX", "POWER8"]


class Thesis(Closed):
    """The bibliographic data of the study."""

    author: str = Field(min_length=3)
    title: str = Field(min_length=10)
    published: str = Field(min_length=10, description="kind, school and year")

    def citation(self) -> str:
        return f"{self.author}, {self.title}. {self.published}"


class PublishedNumber(Closed):
    """A number that the study's text gives: a number of workers, or a value on the figure's axis."""

    words: str = Field(min_length=5, description="what it is, with the number")
    workers: int | None = Field(None, ge=1, le=1024)
    value: float | None = Field(None, gt=0, allow_inf_nan=False, description="in the unit of the figure's axis")


# The kind of our figures (a key of `charts.figures.DRAWINGS`) that shows what a figure of this caption shows.
KINDS_OF_CAPTIONS = {
    "Speedup": "speedup", "Commits": "commits", "Conflicts": "failures", "Failures": "failures",
    "Accuracy": "accuracy", "STM": "speedup", "Global TLE": "speedup",
}  # fmt: skip


OF_CAPTION = {"manager": "STM", "tunables": "Global TLE"}  # factors of figures with this caption alone
ON_AN_AXIS = {"Speedup": 1024.0, "Commits": 1.0, "Accuracy": 1.0}  # captions with an axis of values, and its largest


class Original(Closed):
    """A figure of the study; a value that its text does not state is None, and its factor is listed in `assumed`."""

    caption: Literal["Speedup", "Commits", "Conflicts", "Failures", "Accuracy", "STM", "Global TLE"]
    title: str = Field(min_length=10)
    platform: Platform
    model: Literal["mnist_softmax", "mnist_deep"]
    batch: int | None = Field(ge=1)
    matrix: int | None = Field(ge=1, le=784, description="pixels of an image")
    iterations: int | None = Field(ge=1)
    manager: Literal["suicide", "backoff"] | None = Field(None, description="contention manager of STM")
    tunables: Literal["default", "custom"] | None = Field(None, description="setting of glibc's elision")
    assumed: list[str] = Field(default=[], description="factors that the text does not state")
    numbers: list[PublishedNumber] = Field(default=[], description="evidence published: they are quoted, not measured")
    finding: str = Field(min_length=10, description="in our own words")


class Originals(Closed):
    """The content of figures.yaml; `figures` are in the study's order."""

    study: Thesis
    machines: dict[Platform, str]
    assumed: list[str] = Field(description="factors that the text states for no figure")
    figures: dict[str, Original] = Field(min_length=1)
    conclusions: str = Field(min_length=10)

    def assumptions(self, figure: str) -> list[str]:
        """The factors that the text does not state for the figure."""
        return [*self.figures[figure].assumed, *self.assumed]

    def published_by(self, experiment: str) -> Callable[[str], list[Published]]:
        """For a kind of figure of an experiment, the numbers of the study's text; none for other experiments."""
        original = self.figures.get(experiment.removeprefix(PREFIX)) if experiment.startswith(PREFIX) else None

        def published(kind: str) -> list[Published]:
            if original is None or KINDS_OF_CAPTIONS[original.caption] != kind:
                return []
            return [Published(number.words, number.workers, number.value) for number in original.numbers]

        return published

    @field_validator("figures")
    @classmethod
    def _numbered(cls, value: dict[str, Original]) -> dict[str, Original]:
        for number in value:
            if not re.fullmatch(NUMBER, number):
                raise ValueError(f"figure {number!r} should be a number such as '4.1'")
        return value

    def figures_of_claim(self, claim: Claim) -> list[str]:
        """The figures of the 2017 study that a claim is about; empty also for the claims of others."""
        return self.figures_of(claim.source) if claim.report == "2017 study" else []

    def figures_of(self, source: str) -> list[str]:
        """The figures that the source of a claim names, such as "figures 4.13 to 4.16"; empty for the conclusions.

        Raises BadInput for any other source.
        """
        numbers, all_numbers = re.findall(NUMBER, source), list(self.figures)
        words = source.removeprefix("figures ").removeprefix("figure ")
        for number in numbers:
            if number not in all_numbers:
                raise BadInput(f"the source '{source}' names figure {number}, which the study does not have.")
        match numbers:
            case [first, last] if words == f"{first} to {last}":
                return all_numbers[all_numbers.index(first) : all_numbers.index(last) + 1]
            case [first, last] if words == f"{first} and {last}":
                return numbers
            case [number] if words == number:
                return numbers
            case [] if source == CONCLUSIONS:
                return []
        raise BadInput(f"the source '{source}' names neither figures nor the conclusions.")


def experiment_of(figure: str) -> str:
    """The experiment of config.yaml that repeats a figure."""
    return f"{PREFIX}{figure}"


def load_originals() -> Originals:
    """Load and check figures.yaml; the result is cached until the file changes."""
    return _load_originals(project_root() / "data" / "figures.yaml")


@kept
def _load_originals(path: Path) -> Originals:
    return check_originals(read_yaml(path))


def check_originals(raw: Any) -> Originals:
    """Check a parsed figures.yaml. Raises BadInput that names the fault, its place and what is allowed."""
    originals = document(Originals, raw, "figures.yaml")
    check_factors(originals.assumed, "figures.yaml: assumed")
    for number, original in originals.figures.items():
        if original.platform not in originals.machines:
            raise BadInput(f"figures.yaml: machines: {original.platform} is missing, which figure {number} names.")
        check_factors(original.assumed, f"figures.yaml: figures.{number}.assumed")
        for fault in (*_faults_of_factors(original, originals.assumptions(number)), *_faults_of_numbers(original)):
            raise BadInput(f"figures.yaml: figures.{number}: {fault}.")
    return originals


def _faults_of_factors(original: Original, assumptions: Sequence[str]) -> Iterator[str]:
    for factor in assumptions:
        if assumptions.count(factor) > 1:
            yield f"{factor} is listed as assumed twice"
    for factor, caption in {"batch": None, "matrix": None, "iterations": None, **OF_CAPTION}.items():
        stated, assumed = getattr(original, factor) is not None, factor in assumptions
        if caption in (None, original.caption):
            if stated == assumed:
                yield f"{factor} is either stated or listed in 'assumed'"
        elif stated or assumed:
            yield f"{factor} belongs to figures with the caption {caption}, not {original.caption}"


def _faults_of_numbers(original: Original) -> Iterator[str]:
    for quoted in original.numbers:
        if original.caption not in ON_AN_AXIS:
            yield f"numbers belong to figures with the caption {' or '.join(ON_AN_AXIS)}, not {original.caption}"
        elif (quoted.workers is None) == (quoted.value is None):
            yield "each of the numbers has either workers or a value"
        elif quoted.value is not None and quoted.value > ON_AN_AXIS[original.caption]:
            yield f"the value {quoted.value:g} of a number is beyond {ON_AN_AXIS[original.caption]:g}"
