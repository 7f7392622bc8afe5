"""Probes this machine, or an emulated one in its place."""

from __future__ import annotations

from tmflow._version import __version__
from tmflow.base.errors import BadInput
from tmflow.native import loader
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.platform.profiles import Profile
from tmflow.probe.document import Probe, parse


def probe(seconds: float, emulate: Profile | None = None) -> Probe:
    """What is found out in at most about so many seconds.

    Raises BadInput for a number of seconds that is not allowed, and if the native library is not built.
    """
    require_seconds(seconds)
    machine = emulate.machine_text() if emulate else None
    findings = parse(loader.core().probe(seconds, machine, __version__), "the probe")
    if emulate is not None:
        return findings  # it says nothing about this machine
    return findings.model_copy(update={"platform_sha256": platform_sha256(platform_facts())})


LEAST_S, MOST_S = 5.0, 600.0  # as the native library takes them


def require_seconds(seconds: float) -> None:
    """Raise BadInput for a time that a probe cannot take."""
    if not LEAST_S <= seconds <= MOST_S:
        raise BadInput(f"--seconds is {seconds:g}, but should be {LEAST_S:g} to {MOST_S:g}.")
