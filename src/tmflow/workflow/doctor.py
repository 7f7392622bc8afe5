"""The checks of `tmflow doctor`. Only the trials of TensorFlow's strategies import it, each in a separate process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root, results_dir
from tmflow.datasets import mnist
from tmflow.native import build, registry, self_test
from tmflow.platform.facts import display_name, platform_facts
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.runner.busy_machine import look
from tmflow.store import engine, schema


def diagnose() -> list[Finding]:
    """Check everything that decides what can run here: machine, database, each strategy, and what to run next."""
    checks: list[Callable[[], Finding]] = [
        machine,
        tm,
        _profiles,
        python,
        _compiler,
        _tensorflow,
        data,
        _database,
    ]
    load = _load()  # before the strategies are tried, because that keeps the machine busy
    with ThreadPoolExecutor(1) as meanwhile:
        tried = meanwhile.submit(strategies)
        findings, last = [check() for check in checks], _next()
        return [findings[0], load, *findings[1:], *tried.result(), last]


def _load() -> Finding:
    name, now = "quiet", look()
    if now.busy:
        return Finding(
            name, "limited", f"no: {now}", "measure when these processes have ended, or the times are unreliable"
        )
    return Finding(name, "ok", f"yes: {now}")


def _profiles() -> Finding:
    name = "emulated TM"
    try:
        profiles = [load_profile(name).name for name in profile_names()]
    except BadInput as error:
        return Finding(name, "missing", str(error))
    return Finding(name, "ok", f"strategy htm with provider emulated runs here too; profiles: {', '.join(profiles)}")


def _compiler() -> Finding:
    try:
        return Finding("compiler", "ok", build.compiler_version())
    except BadInput as error:
        return Finding("compiler", "missing", str(error), "run `make setup`")


def _tensorflow() -> Finding:
    for package in ("tensorflow-cpu", "tensorflow"):
        try:
            return Finding("TensorFlow", "ok", f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return Finding(
        "TensorFlow", "missing", "not installed: the session driver cannot run; the native side can", "run `make setup`"
    )


def _database() -> Finding:
    url = engine.url_from_env(results_dir() / "study.db")
    try:
        schema.require_usable(url)
    except BadInput as error:
        return Finding("database", "missing", str(error))
    return Finding("database", "ok", url.render_as_string(hide_password=True))


def _next() -> Finding:
    from tmflow.claims import next_run  # imports pandas for a second, while the strategies are tried
    from tmflow.claims.schema import load_claims

    name, facts = "run here", platform_facts()
    probe = registry.tm_probe()
    machine = next_run.machine_of(facts, probe["committed"] if probe else None)
    try:
        machines = next_run.find_known_machines(
            engine.url_from_env(results_dir() / "study.db"), project_root() / "contrib", facts
        )
    except BadInput as error:
        text = f"the runs of other machines cannot be read: {error}"
        return Finding(name, "limited", text, next_run.WITH_TENSORFLOW)
    step = next_run.next_step(load_claims(), machine, machines, tensorflow=registry.tensorflow_version() is not None)
    return Finding(name, "ok", step.why, step.command, adds=step.adds)


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis. `missing` prevents something; `limited` is a note.

    For a strategy: `built`, `runnable`, and `how` this was tested. For the next run: `adds`, the claims that wait for
    it.
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


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Format the diagnosis as text."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        yield f"{MARKS[finding.state]}  {finding.name:<{width}}  {finding.text}"
        if finding.how:
            yield f"{'':<{width + 8}}{finding.how}"
        if finding.advice:
            yield f"{'':<{width + 8}}-> {finding.advice}"


def exit_code(findings: Sequence[Finding]) -> int:
    """1 if anything is missing that a study needs; a strategy that cannot run here does not count."""
    return int(any(finding.state == "missing" and finding.runnable is None for finding in findings))


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
        folder = mnist.find_verified()
    except BadInput as error:
        return Finding("MNIST", "missing", str(error), "delete or replace that file")
    if folder is None:
        return Finding("MNIST", "limited", "not on this machine yet", "the study downloads it; or set TMFLOW_DATA_DIR")
    return Finding("MNIST", "ok", f"found in {folder}, every file the official one")


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
