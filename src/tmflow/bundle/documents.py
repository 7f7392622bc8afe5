"""Checks the documents of a bundle that describe its machine: platform.json and probe.json."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import document, first_of
from tmflow.base.errors import BadInput
from tmflow.bundle import format
from tmflow.bundle.format import Refused
from tmflow.bundle.problems import Problem
from tmflow.bundle.reader import Bundle
from tmflow.bundle.rules.expectations import Limits, limits_of
from tmflow.probe.document import Probe
from tmflow.runfile.record import EnvironmentFacts, PlatformFacts

Facts = dict[str, object]


class _Platform(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    environment: Facts
    facts: Facts
    name: str = Field(min_length=1, max_length=500)
    sha256: str


class Machine(NamedTuple):
    """The hash of the machine's facts, None if absent; its speed limits, None if not probed; and the problems."""

    platform_sha256: str | None
    limits: Limits | None
    problems: tuple[Problem, ...]


def machine(bundle: Bundle) -> Machine:
    """Read and check the description of a bundle's machine, and that its other documents can be read."""
    problems: list[Problem] = []

    @contextmanager
    def collecting(member: str) -> Iterator[None]:
        """Turn the error of a member into a problem."""
        try:
            yield
        except Refused as error:
            problems.append(bundle.problem(member, error))
        except ValidationError as error:
            first = first_of(error)
            problems.append(Problem(f"{first['msg']}.", member, field=".".join(map(str, first["loc"]))))
        except ValueError as error:
            problems.append(Problem(f"{error}.", member))

    platform_sha256 = limits = None
    with collecting(format.PLATFORM):
        platform_sha256 = _platform_sha256(bundle)
    with collecting(format.PROBE):
        if (probe := _probe(bundle, platform_sha256)) is None:
            text = "it is missing, so speeds are not checked against it; run `probe` before the export if you can."
            problems.append(Problem(text, format.PROBE, severity="note"))
        elif (limits := limits_of(probe)) is None:
            text = "it has no speed limits of this machine, so the speeds of the runs are not checked against them."
            problems.append(Problem(text, format.PROBE, field="limits", severity="note"))
    with collecting(format.CAMPAIGN):
        bundle.document(format.CAMPAIGN)
    for name in (entry.path for entry in bundle.manifest if not format.is_run_file(entry.path)):
        if name not in format.DOCUMENTS:
            with collecting(name):
                for _ in bundle.chunks(name):
                    pass
    return Machine(platform_sha256, limits, tuple(problems))


def _platform_sha256(bundle: Bundle) -> str | None:
    if bundle.version == format.PLAIN:
        return None
    value = bundle.document(format.PLATFORM)
    if value is None:
        raise ValueError("it is missing; a bundle names the machine of its runs")
    platform = _Platform.model_validate(value)
    PlatformFacts.model_validate(platform.facts)
    EnvironmentFacts.model_validate(platform.environment)
    if platform.sha256 != sha256_of(platform.facts):
        raise ValueError(f"sha256 is {platform.sha256}, but the hash of its facts is {sha256_of(platform.facts)}")
    return platform.sha256


def _probe(bundle: Bundle, platform_sha256: str | None) -> Probe | None:
    value = bundle.document(format.PROBE)
    if value is None:
        return None
    try:
        probe = document(Probe, value, format.PROBE)
    except BadInput as error:
        raise ValueError(str(error).removeprefix(f"{format.PROBE}: ").removesuffix(".")) from error
    if None not in (probe.platform_sha256, platform_sha256) and probe.platform_sha256 != platform_sha256:
        raise ValueError(
            f"platform_sha256 is {probe.platform_sha256}, but the platform of the bundle is {platform_sha256}"
        )
    return probe
