"""Profiles of machines with hardware transactions, for the emulator: data/platforms/*.yaml.

Each number has a unit and a source: a citation, or an estimate with its method.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import document, read_yaml
from tmflow.base.errors import BadInput, unknown
from tmflow.base.paths import project_root


def _power_of_two(value: int) -> int:
    if value.bit_count() != 1:
        raise ValueError(f"{value} is not a power of two")
    return value


MOST_LINES = 2**20  # cache lines of a core: the emulator allocates memory for each
PowerOfTwo = Annotated[int, Field(ge=1, le=MOST_LINES), AfterValidator(_power_of_two)]
Count = Annotated[int, Field(ge=1, le=MOST_LINES)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Value = TypeVar("Value")
Unit = TypeVar("Unit")


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Quantity(_Closed, Generic[Value, Unit]):
    """A value with its unit and where it is from."""

    source: str = Field(min_length=10, description="a citation, or 'estimate: ' and the method")
    value: Value
    unit: Unit


class Cache(_Closed):
    """A set-associative cache that must hold all written lines of a transaction."""

    sets: Quantity[PowerOfTwo, Literal["set"]]
    ways: Quantity[Count, Literal["way"]]
    reads_fill: Quantity[bool, Literal["truth"]] = Field(description="whether lines that are only read take room, too")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (lines := self.sets.value * self.ways.value) > MOST_LINES:
            raise ValueError(f"sets x ways is {lines} lines, but should be at most {MOST_LINES}")
        return self


class Profile(_Closed):
    """A machine with hardware transactions; the capacity per core is a `cache` or a number of `entries`."""

    name: str
    describes: str = Field(min_length=1, description="the machine, for people")
    provider: Literal["rtm", "power"] = Field(description="the source of its raw statuses")
    line: Quantity[Annotated[PowerOfTwo, Field(ge=8, le=4096)], Literal["byte"]]
    cache: Cache | None = None
    entries: Quantity[Count, Literal["entry"]] | None = Field(
        None, description="lines that a core's transactions may read and write together"
    )
    siblings: Quantity[Annotated[int, Field(ge=1, le=64)], Literal["hardware thread"]] = Field(
        description="the hardware threads that share the capacity of a core"
    )
    asynchronous: Quantity[Probability, Literal["probability per touched line"]] = Field(
        description="aborts that no access causes"
    )

    @model_validator(mode="after")
    def _one_capacity(self) -> Self:
        if (self.cache is None) == (self.entries is None):
            raise ValueError("a machine has either a cache or entries")
        return self

    def as_dict(self) -> dict[str, Any]:
        """The profile with its sources, as JSON types."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def sha256(self) -> str:
        """The identity of the profile: hex SHA-256 of its canonical JSON."""
        return sha256_of(self.as_dict())

    def machine_text(self) -> str:
        """The numbers in the format of the native emulator."""
        numbers: dict[str, Any] = {"provider": self.provider, "line_bytes": self.line.value}
        if self.cache is not None:
            numbers |= {"sets": self.cache.sets.value, "ways": self.cache.ways.value}
            numbers |= {"reads_fill": int(self.cache.reads_fill.value)}
        if self.entries is not None:
            numbers["entries"] = self.entries.value
        numbers |= {"siblings": self.siblings.value, "asynchronous": self.asynchronous.value}
        return ";".join(f"{name}={value}" for name, value in numbers.items())


def profile_names() -> list[str]:
    """The names of all profiles: their file names without the extension."""
    return sorted(path.stem for path in (project_root() / "data" / "platforms").glob("*.yaml"))


def load_profile(name: str) -> Profile:
    """Load the profile of this name.

    Raises BadInput with the valid names if there is none, and with the field if the file has an impossible number.
    """
    if name not in profile_names():
        raise unknown("profile", name, profile_names())
    path = project_root() / "data" / "platforms" / f"{name}.yaml"
    where = f"data/platforms/{path.name}"
    profile = document(Profile, read_yaml(path), where)
    if profile.name != name:
        raise BadInput(f"{where}: name is '{profile.name}', but should be that of the file, '{name}'.")
    return profile
