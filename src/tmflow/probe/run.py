"""Probes this machine, or an emulated one in its place."""

from __future__ import annotations

from tmflow._version import __version__
from tmflow.native import loader
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.platform.profiles import Profile
from tmflow.probe.document import Probe, parse
from tmflow.probe.seconds import require_seconds


def probe(seconds: float, emulate: Profile | None = None) -> Probe:
    """What is found out in at most about so many seconds.

    Raises BadInput for a number of seconds that is not allowed, and if the native library is not built.
    """
    require_seconds(seconds)
    machine = emulate.machine_text() if emulate else None
    found = parse(loader.core().probe(seconds, machine, __version__), "the probe")
    if emulate is not None:
        return found  # it says nothing about this machine
    return found.model_copy(update={"platform_sha256": platform_sha256(platform_facts())})
