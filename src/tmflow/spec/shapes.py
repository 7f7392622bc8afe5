"""The shapes of variables as text, such as "3136x1024,1024": how commands and specs name them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from tmflow.base.errors import BadInput

FEW = 4  # shapes that fit into a sentence
Shape = tuple[int, ...]
SHAPE = "[1-9][0-9]{0,9}(x[1-9][0-9]{0,9}){0,7}"  # no variable has a longer number, or more numbers
_SHAPE = re.compile(SHAPE)


def parse_shapes(text: str) -> list[Shape]:
    """Parse shapes such as "3136x1024,1024". Raises BadInput for what is none."""
    shapes = []
    for one in text.split(","):
        if not _SHAPE.fullmatch(one.strip()):
            raise BadInput(f"'{one.strip()}' is no shape of a variable; shapes are like 3136x1024,1024.")
        shapes.append(tuple(int(number) for number in one.strip().split("x")))
    return shapes


def shapes_text(shapes: Iterable[Sequence[int]]) -> str:
    """The text of shapes; a scalar is an array of one element."""
    return ",".join("x".join(map(str, shape)) or "1" for shape in shapes)


def describe_shapes(text: str) -> str:
    """A few shapes as they are, and of many only how many variables and elements they are."""
    shapes = parse_shapes(text)
    if len(shapes) <= FEW:
        return f"variables of {text}"
    return f"{len(shapes)} variables of {sum(map(math.prod, shapes)):,} elements in all"


def variable_name(number: int) -> str:
    """What the variable with this number, from 1, is called in runs, in place of its name in the user's model."""
    return f"variable {number}"
