"""The checks of `tmflow doctor`. Only the trials of TensorFlow's strategies import it, each in a separate process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root, results_dir
from tmflow.datasets import mnist
from tmflow.native import registry, self_test, tools
from tmflow.platform.facts import display_name, platform_facts
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.platform.software import tensorflow_version
from tmflow.runner.machine_load import look
from tmflow.store import engine, schema


@dataclass(frozen=True)
class Check:
    """One line of the diagnosis. `missing` prevents something; `limited` is a note.

    For a strategy: `built`, `runnable`, and `how` this was tested. For the next run: `adds`, the claims that need it.
    """

    name: str
    state: Literal["ok", "limited", "missing"]
    text: str
    advice: str | None = None
    built: bool | None = None
    runnable: bool | None = None
    how: str | None = None
    adds: list[str] | None = None


def diagnose() -> list[Check]:
    """Check everything that decides what can run here: machine, database, each strategy, and what to run next."""
    load = _load()  # before the strategies are tried, because that keeps the machine busy
    with ThreadPoolExecutor(1) as meanwhile:
        tried = meanwhile.submit(_strategies)
        checks = [
            Check("machine", "ok", display_name(platform_facts())),
            load,
            _tm(),
            _attempt("emulated TM", _profiles),
            Check("Python", "ok", sys.version.split()[0]),
            _attempt("compiler", tools.compiler_version, "run `make setup`"),
            _tensorflow(),
            _data(),
            _attempt("database", _database),
        ]
        following = _next()
        return [*checks, *tried.result(), following]


def _load() -> Check:
    now = look()
    if now.busy:
        advice = "measure when these processes have ended, or the times are unreliable"
        return Check("quiet", "limited", f"no: {now}", advice)
    return Check("quiet", "ok", f"yes: {now}")


def _attempt(name: str, describe: Callable[[], str], advice: str | None = None) -> Check:
    """The check that `describe` finds something; the text of its BadInput says what is missing."""
    try:
        return Check(name, "ok", describe())
    except BadInput as error:
        return Check(name, "missing", str(error), advice)


def _profiles() -> str:
    profiles = ", ".join(load_profile(name).name for name in profile_names())
    return f"strategy htm with provider emulated runs here too; profiles: {profiles}"


def _tensorflow() -> Check:
    for package in ("tensorflow-cpu", "tensorflow"):
        with suppress(PackageNotFoundError):
            return Check("TensorFlow", "ok", f"{package} {version(package)}")
    text = "not installed: the session driver cannot run; the native side can"
    return Check("TensorFlow", "missing", text, "run `make setup`")


def _database() -> str:
    url = engine.url_from_env(results_dir() / "study.db")
    schema.require_usable(url)
    return url.render_as_string(hide_password=True)


def _next() -> Check:
    from tmflow.claims import next_run  # imports pandas for a second, while the strategies are tried
    from tmflow.claims.schema import load_claims

    name, facts, probe = "run here", platform_facts(), registry.tm_probe()
    machine = next_run.machine_of(facts, probe["committed"] if probe else None)
    database = engine.url_from_env(results_dir() / "study.db")
    try:
        machines = next_run.find_known_machines(database, project_root() / "contrib", facts)
    except BadInput as error:
        text = f"the runs of other machines cannot be read: {error}"
        return Check(name, "limited", text, next_run.WITH_TENSORFLOW)
    step = next_run.next_step(load_claims(), machine, machines, tensorflow=tensorflow_version() is not None)
    return Check(name, "ok", step.why, step.command, adds=step.adds)


MARKS = {"ok": "ok  ", "limited": "note", "missing": "MISS"}


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """Format the diagnosis as text."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{MARKS[check.state]}  {check.name:<{width}}  {check.text}"
        if check.how:
            yield f"{'':<{width + 8}}{check.how}"
        if check.advice:
            yield f"{'':<{width + 8}}-> {check.advice}"


def exit_code(checks: Sequence[Check]) -> int:
    """1 if anything is missing that a study needs; a strategy that cannot run here does not count."""
    return int(any(check.state == "missing" and check.runnable is None for check in checks))


def _tm() -> Check:
    name = "hardware TM"
    capability = platform_facts()["tm_capability"]
    if capability in ("none", "unknown"):
        return Check(name, "limited", f"{capability}: this CPU does not report hardware transactions")
    probe = registry.tm_probe()
    if probe is None:
        return Check(name, "limited", f"{capability} reported; whether it commits is not probed", "run `make build`")
    committed = f"{probe['committed']} of {probe['tried']} trial transactions committed"
    return Check(name, "ok" if probe["committed"] else "limited", f"{capability} reported; {committed}")


def _data() -> Check:
    try:
        folder = mnist.find_verified()
    except BadInput as error:
        return Check("MNIST", "missing", str(error), "delete or replace that file")
    if folder is None:
        return Check("MNIST", "limited", "not on this machine yet", "the study downloads it; or set TMFLOW_DATA_DIR")
    return Check("MNIST", "ok", f"found in {folder}, every file the official one")


def _strategies() -> list[Check]:
    variants = registry.variants()
    trials = self_test.try_each([variant.name for variant in variants if variant.built])
    checks = []
    for variant in variants:
        name, tried = f"strategy {variant.name}", trials.get(variant.name)
        if tried is None:
            how = "not tried: there is nothing to try"
            checks.append(Check(name, "missing", variant.why_not or "", built=False, runnable=False, how=how))
        else:
            runs, text = tried.why_not is None, tried.why_not or variant.summary or ""
            checks.append(Check(name, "ok" if runs else "missing", text, built=True, runnable=runs, how=tried.how))
    return checks
