"""The profiles of machines that nobody has at hand: data/platforms/*.yaml, as far as the emulator needs them.

Each number comes with its unit and its source: a citation, or an estimate that says how it was made.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import keys_at, read_yaml, sentence
from tmflow.base.errors import BadInput, unknown
from tmflow.base.paths import project_root


def _power_of_two(value: int) -> int:
    if value.bit_count() != 1:
        raise ValueError(f"{value} is no power of two")
    return value


MOST_LINES = 2**20  # of a core: the emulator has memory for each
PowerOfTwo = Annotated[int, Field(ge=1, le=MOST_LINES), AfterValidator(_power_of_two)]
Count = Annotated[int, Field(ge=1, le=MOST_LINES)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Sourced(_Closed):
    source: str = Field(min_length=10, description="who says so, or 'estimate: ' and how it was made")


class LineBytes(_Sourced):
    value: Annotated[PowerOfTwo, Field(ge=8, le=4096)]
    unit: Literal["byte"]


class Sets(_Sourced):
    value: PowerOfTwo
    unit: Literal["set"]


class Ways(_Sourced):
    value: Count
    unit: Literal["way"]


class Truth(_Sourced):
    value: bool
    unit: Literal["truth"]


class Entries(_Sourced):
    value: Count
    unit: Literal["entry"]


class Siblings(_Sourced):
    value: Annotated[int, Field(ge=1, le=64)]
    unit: Literal["hardware thread"]


class Rate(_Sourced):
    value: float = Field(ge=0, le=1, allow_inf_nan=False)
    unit: Literal["probability per touched line"]


class Cache(_Closed):
    """A set-associative cache in which what is written must stay."""

    sets: Sets
    ways: Ways
    reads_fill: Truth = Field(description="whether a line that is only read takes room too")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (lines := self.sets.value * self.ways.value) > MOST_LINES:
            raise ValueError(f"sets x ways is {lines} lines, but should be at most {MOST_LINES}")
        return self


class Profile(_Closed):
    """A machine with hardware transactions. Its capacity is a `cache` or a number of `entries`, per core."""

    name: str
    describes: str = Field(min_length=1, description="the machine, for people")
    provider: Literal["rtm", "power"] = Field(description="whose raw statuses it reports")
    line: LineBytes
    cache: Cache | None = None
    entries: Entries | None = Field(None, description="lines that a core's transactions may read and write together")
    siblings: Siblings = Field(description="the hardware threads that share the capacity of a core")
    asynchronous: Rate = Field(description="aborts that no access causes")

    @model_validator(mode="after")
    def _one_capacity(self) -> Self:
        if (self.cache is None) == (self.entries is None):
            raise ValueError("a machine has either a cache or entries")
        return self

    def as_dict(self) -> dict[str, Any]:
        """All that the profile says, sources included: JSON types only."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def sha256(self) -> str:
        """The identity of the profile: hex SHA-256 of its canonical JSON."""
        return sha256_of(self.as_dict())

    def machine_text(self) -> str:
        """The numbers alone, as the native emulator reads them."""
        numbers: dict[str, Any] = {"provider": self.provider, "line_bytes": self.line.value}
        if self.cache is not None:
            numbers |= {"sets": self.cache.sets.value, "ways": self.cache.ways.value}
            numbers |= {"reads_fill": int(self.cache.reads_fill.value)}
        if self.entries is not None:
            numbers["entries"] = self.entries.value
        numbers |= {"siblings": self.siblings.value, "asynchronous": self.asynchronous.value}
        return ";".join(f"{name}={value}" for name, value in numbers.items())


def profile_names() -> list[str]:
    """The names of all profiles: their files, without the ending."""
    return sorted(path.stem for path in (project_root() / "data" / "platforms").glob("*.yaml"))


def load_profile(name: str) -> Profile:
    """The profile of that name.

    Raises BadInput with the valid names if there is none, and with the field if its file holds an impossible number.
    """
    if name not in profile_names():
        raise unknown("profile", name, profile_names())
    path = project_root() / "data" / "platforms" / f"{name}.yaml"
    where = f"data/platforms/{path.name}"
    try:
        profile = Profile.model_validate(read_yaml(path))
    except ValidationError as error:
        raise sentence(error, where, keys_at(Profile, error)) from error
    if profile.name != name:
        raise BadInput(f"{where}: name is '{profile.name}', but should be that of the file, '{name}'.")
    return profile
