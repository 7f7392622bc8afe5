"""Shapes of variables as text."""

from __future__ import annotations

import pytest

from tmflow.base.errors import BadInput
from tmflow.spec.shapes import Shape, parse_shapes


def test_shapes_are_those_of_arrays() -> None:
    assert parse_shapes("3136x1024, 1024") == [Shape((3136, 1024)), Shape((1024,))]


def test_rows_are_those_that_a_step_updates() -> None:
    (embedding,) = parse_shapes("100000x16:64")
    assert embedding == Shape((100_000, 16), rows=64)
    assert (embedding.elements, embedding.updated) == (1_600_000, 1024)


@pytest.mark.parametrize("text", ["3136x1024", "10", "100000x16:64"])
def test_the_text_of_a_shape_is_read_again(text: str) -> None:
    assert [str(shape) for shape in parse_shapes(text)] == [text]


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ("3136x1024,", "'' is no shape"),
        ("10x0", "'10x0' is no shape"),
        ("10x2:0", "'10x2:0' is no shape"),
        ("ten", "'ten' is no shape of a variable; shapes are like 3136x1024,1024 or, for an embedding"),
        ("100x16:101", "'100x16:101' updates 101 rows of a variable that has 100."),
        ("100000x100000", "have 10,000,000,000 elements, more than 1,000,000,000"),
    ],
)
def test_shapes_that_are_none_are_named(shapes: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        parse_shapes(shapes)
