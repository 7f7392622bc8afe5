"""data/figures.yaml: the figures of the 2017 study with their configurations and findings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tmflow.base.documents import document, kept, read_yaml
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root

NUMBER = r"\d+\.\d+"
CONCLUSIONS = "conclusions"


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Original(_Closed):
    """A figure of the study; unknown values are None."""

    title: str = Field(min_length=10)
    platform: Literal["TSX", "POWER8"]
    model: Literal["mnist_softmax", "mnist_deep"]
    batch: int = Field(ge=1)
    matrix: int | None = Field(None, ge=1, le=784, description="pixels of an image")
    iterations: int | None = Field(None, ge=1)
    finding: str = Field(min_length=10, description="in our own words")


class Originals(_Closed):
    """The content of figures.yaml; `figures` are in the study's order."""

    figures: dict[str, Original] = Field(min_length=1)
    conclusions: str = Field(min_length=10)

    @field_validator("figures")
    @classmethod
    def _numbered(cls, value: dict[str, Original]) -> dict[str, Original]:
        for number in value:
            if not re.fullmatch(NUMBER, number):
                raise ValueError(f"figure {number!r} should be a number such as '4.1'")
        return value

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
    return f"fig-{figure}"


def load_originals(path: Path | None = None) -> Originals:
    """Load and check figures.yaml; the result is cached until the file changes."""
    return _loaded(path or project_root() / "data" / "figures.yaml")


@kept
def _loaded(path: Path) -> Originals:
    return check_originals(read_yaml(path), path.name)


def check_originals(raw: Any, where: str = "figures.yaml") -> Originals:
    """Check a parsed figures.yaml. Raises BadInput that names the fault and its place."""
    return document(Originals, raw, where)
