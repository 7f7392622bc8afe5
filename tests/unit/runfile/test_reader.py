"""A struct is derived from a model only if it can check everything that the model checks."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from annotated_types import MaxLen
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tmflow.runfile.reader import struct_of


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class OpenOne(BaseModel):
    n: int


class WithPattern(Closed):
    code: str = Field(pattern="^[0-9]+$")


class WithLength(Closed):
    code: Annotated[str, MaxLen(3)]


class OfAnything(Closed):
    facts: dict[str, Any]


class WithStep(Closed):
    n: int = Field(multiple_of=2)


class ListOfSome(Closed):
    entries: list[int] = Field(min_length=1)


class WithFieldRule(Closed):
    n: int

    @field_validator("n")
    @classmethod
    def _is_even(cls, n: int) -> int:
        return n


class WithEarlyRule(Closed):
    n: int

    @model_validator(mode="before")
    @classmethod
    def _halved(cls, given: Any) -> Any:
        return given


class Holder(Closed):
    inner: WithPattern | None


MODELS = [OpenOne, WithPattern, WithLength, OfAnything, WithStep, ListOfSome, WithFieldRule, WithEarlyRule, Holder]


@pytest.mark.parametrize("model", MODELS)
def test_no_struct_asks_less_than_its_model(model: type[BaseModel]) -> None:
    with pytest.raises(TypeError):
        struct_of(model)
