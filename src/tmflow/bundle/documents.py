"""Checks the documents of a bundle that describe its machine: platform.json and probe.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import document, first_of
from tmflow.base.errors import BadInput
from tmflow.bundle import format
from tmflow.bundle.format import Refused
from tmflow.bundle.problems import Problem
from tmflow.bundle.reader import Bundle
from tmflow.bundle.rules.speed_limits import Limits, limits_of
from tmflow.probe.document import Probe
from tmflow.runfile.validate import EnvironmentFacts, PlatformFacts

Facts = dict[str, object]


class _Platform(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    environment: Facts
    facts: Facts
    name: str = Field(min_length=1, max_length=500)
    sha256: str


class Machine(NamedTuple):
    """The hash of the machine's facts, None if absent; its speed limits, None if not probed; and problems."""

    platform_sha256: str | None
    limits: Limits | None
    problems: tuple[Problem, ...]


def machine(bundle: Bundle) -> Machine:
    """Read and check the description of a bundle's machine."""
    problems: list[Problem] = []
    platform_sha256 = limits = None
    try:
        platform_sha256 = _platform_sha256(bundle)
    except (ValueError, Refused) as error:
        problems.append(_problem(bundle, format.PLATFORM, error))
    try:
        limits = _limits(bundle, platform_sha256)
    except (ValueError, Refused) as error:
        problems.append(_problem(bundle, format.PROBE, error))
    else:
        if limits is None:
            problems.append(_unlimited(bundle))
    return Machine(platform_sha256, limits, (*problems, *_other_documents(bundle)))


def _unlimited(bundle: Bundle) -> Problem:
    if bundle.document(format.PROBE) is None:
        text = "it is missing, so speeds are not checked against it; run `probe` before the export if you can."
        return Problem(format.PROBE, None, None, None, text, "note")
    text = "it has no speed limits of this machine, so the speeds of the runs are not checked against them."
    return Problem(format.PROBE, None, None, "limits", text, "note")


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


def _limits(bundle: Bundle, platform_sha256: str | None) -> Limits | None:
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
    return limits_of(probe)


def _other_documents(bundle: Bundle) -> Iterator[Problem]:
    """Check that the other documents can be read."""
    try:
        bundle.document(format.CAMPAIGN)
    except Refused as error:
        yield bundle.problem(format.CAMPAIGN, error)
    for name in (entry.path for entry in bundle.manifest if not format.is_run_file(entry.path)):
        if name not in format.DOCUMENTS:
            try:
                for _ in bundle.chunks(name):
                    pass
            except Refused as error:
                yield bundle.problem(name, error)


def _problem(bundle: Bundle, member: str, error: ValueError | Refused) -> Problem:
    if isinstance(error, Refused):
        return bundle.problem(member, error)
    if isinstance(error, ValidationError):
        first = first_of(error)
        return Problem(member, None, None, ".".join(map(str, first["loc"])), f"{first['msg']}.")
    return Problem(member, None, None, None, f"{error}.")
