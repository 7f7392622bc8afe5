"""What the doctor finds out about a machine, as lines of its diagnosis."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tmflow.base.errors import BadInput
from tmflow.datasets import mnist
from tmflow.native import registry, self_test
from tmflow.platform.facts import display_name, platform_facts


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis. `missing` stops something; `limited` is worth knowing.

    Of a strategy: whether it is built, whether it runs here, and how that was found out. Of what to run next: the
    claims that wait for it.
    """

    name: str
    state: Literal["ok", "limited", "missing"]
    text: str
    advice: str | None = None
    built: bool | None = None
    runnable: bool | None = None
    how: str | None = None
    adds: list[str] | None = None


MARKS = {"ok": "ok  ", "limited": "note", "missing": "MISS"}


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """The diagnosis for people."""
    width = max(len(finding.name) for finding in found)
    for finding in found:
        yield f"{MARKS[finding.state]}  {finding.name:<{width}}  {finding.text}"
        if finding.how:
            yield f"{'':<{width + 8}}{finding.how}"
        if finding.advice:
            yield f"{'':<{width + 8}}-> {finding.advice}"


def exit_code(found: Sequence[Finding]) -> int:
    """1 if something is missing that stops a study; a strategy that cannot run here stops none."""
    return int(any(finding.state == "missing" and finding.runnable is None for finding in found))


def machine() -> Finding:
    return Finding("machine", "ok", display_name(platform_facts()))


def tm() -> Finding:
    name = "hardware TM"
    capability = platform_facts()["tm_capability"]
    if capability in ("none", "unknown"):
        return Finding(name, "limited", f"{capability}: this CPU does not report hardware transactions")
    probe = registry.tm_probe()
    if probe is None:
        return Finding(name, "limited", f"{capability} reported; whether it commits is not probed", "run `make build`")
    committed = f"{probe['committed']} of {probe['tried']} trial transactions committed"
    return Finding(name, "ok" if probe["committed"] else "limited", f"{capability} reported; {committed}")


def python() -> Finding:
    return Finding("Python", "ok", sys.version.split()[0])


def data() -> Finding:
    try:
        found = mnist.find_verified()
    except BadInput as error:
        return Finding("MNIST", "missing", str(error), "delete or replace that file")
    if found is None:
        return Finding("MNIST", "limited", "not on this machine yet", "the study downloads it; or set TMFLOW_DATA_DIR")
    return Finding("MNIST", "ok", f"found in {found}, every file the official one")


def strategies() -> list[Finding]:
    variants = registry.variants()
    trials = self_test.try_each([variant.name for variant in variants if variant.built])
    return [_strategy(variant, trials.get(variant.name)) for variant in variants]


def _strategy(variant: registry.Variant, tried: self_test.Trial | None) -> Finding:
    name = f"strategy {variant.name}"
    if tried is None:
        how = "not tried: there is nothing to try"
        return Finding(name, "missing", variant.why_not or "", built=False, runnable=False, how=how)
    state: Literal["ok", "missing"] = "ok" if tried.why_not is None else "missing"
    text = tried.why_not or variant.summary or ""
    return Finding(name, state, text, built=True, runnable=tried.why_not is None, how=tried.how)
