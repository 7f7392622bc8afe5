"""The shapes of variables as text, such as "3136x1024,1024" or, of an embedding, "100000x16:64"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from tmflow.base.errors import BadInput

FEW = 4  # shapes that fit into a sentence
MAX_ELEMENTS = 1_000_000_000  # of all variables
_NUMBER = "[1-9][0-9]{0,9}"  # no variable has a longer number
SHAPE = f"({_NUMBER}(?:x{_NUMBER}){{0,7}})(?::({_NUMBER}))?"  # nor more dimensions; groups: dimensions, rows


class Shape(NamedTuple):
    """The dimensions of a variable, and how many of its rows a step updates: None for all."""

    dimensions: tuple[int, ...]
    rows: int | None = None

    def __str__(self) -> str:
        """As `parse_shapes` reads it; a scalar is an array of one element."""
        return ("x".join(map(str, self.dimensions)) or "1") + ("" if self.rows is None else f":{self.rows}")

    @property
    def elements(self) -> int:
        """Of the whole variable."""
        return math.prod(self.dimensions)

    @property
    def updated(self) -> int:
        """The elements that a step updates."""
        return self.elements if self.rows is None else self.rows * math.prod(self.dimensions[1:])


def parse_shapes(text: str) -> list[Shape]:
    """Parse shapes with commas between them; a number after a colon is of the rows that a step updates.

    Raises BadInput for what is no shape, for more rows than there are, and for too many elements.
    """
    shapes = []
    for one in map(str.strip, text.split(",")):
        match = re.fullmatch(SHAPE, one)
        if not match:
            raise BadInput(
                f"'{one}' is no shape of a variable; shapes are like 3136x1024,1024 or, for an embedding of which a "
                "step updates 64 rows, 100000x16:64."
            )
        dimensions = tuple(map(int, match[1].split("x")))
        rows = None if match[2] is None else int(match[2])
        if rows is not None and rows > dimensions[0]:
            raise BadInput(f"'{one}' updates {rows:,} rows of a variable that has {dimensions[0]:,}.")
        shapes.append(Shape(dimensions, rows))
    if (elements := sum(shape.elements for shape in shapes)) > MAX_ELEMENTS:
        raise BadInput(f"the variables have {elements:,} elements, more than {MAX_ELEMENTS:,}.")
    return shapes


def shapes_text(shapes: Iterable[Shape]) -> str:
    """The text of shapes."""
    return ",".join(map(str, shapes))


def describe_shapes(text: str) -> str:
    """A few shapes as they are, and of many only how many variables and elements they are."""
    shapes = parse_shapes(text)
    if len(shapes) <= FEW:
        return f"variables of {text}"
    return f"{len(shapes)} variables of {sum(shape.elements for shape in shapes):,} elements in all"


def variable_name(number: int) -> str:
    """What the variable with this number, from 1, is called in runs, in place of its name in the user's model."""
    return f"variable {number}"
