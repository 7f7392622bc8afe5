"""What `tmflow doctor` finds. TensorFlow is imported only by the trials of its own strategies, each in a process of its
own, so everything works without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from tmflow.data import mnist
from tmflow.errors import BadInput
from tmflow.native import build, registry, trial
from tmflow.paths import results_dir
from tmflow.platform.facts import display_name, platform_facts
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.store import engine, schema


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis. `missing` stops something; `limited` is worth knowing.

    Of a strategy: whether it is built, whether it runs here, and how that was found out.
    """

    name: str
    state: Literal["ok", "limited", "missing"]
    text: str
    advice: str | None = None
    built: bool | None = None
    runnable: bool | None = None
    how: str | None = None


def diagnose() -> list[Finding]:
    """Everything that decides what can be run here, from the machine up to the database, then each strategy."""
    looks: list[Callable[[], Finding]] = [
        _machine,
        _tm,
        _profiles,
        _python,
        _compiler,
        _tensorflow,
        _data,
        _database,
    ]
    with ThreadPoolExecutor(1) as meanwhile:
        strategies = meanwhile.submit(_strategies)
        return [*(look() for look in looks), *strategies.result()]


def _machine() -> Finding:
    return Finding("machine", "ok", display_name(platform_facts()))


def _tm() -> Finding:
    name = "hardware TM"
    capability = platform_facts()["tm_capability"]
    if capability in ("none", "unknown"):
        return Finding(name, "limited", f"{capability}: this CPU does not report hardware transactions")
    probe = registry.tm_probe()
    if probe is None:
        return Finding(name, "limited", f"{capability} reported; whether it commits is not probed", "run `make build`")
    committed = f"{probe['committed']} of {probe['tried']} trial transactions committed"
    return Finding(name, "ok" if probe["committed"] else "limited", f"{capability} reported; {committed}")


def _profiles() -> Finding:
    name = "emulated TM"
    try:
        profiles = [load_profile(name).name for name in profile_names()]
    except BadInput as error:
        return Finding(name, "missing", str(error))
    return Finding(name, "ok", f"strategy htm with provider emulated runs here too; profiles: {', '.join(profiles)}")


def _python() -> Finding:
    return Finding("Python", "ok", sys.version.split()[0])


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


def _data() -> Finding:
    try:
        found = mnist.find_verified()
    except BadInput as error:
        return Finding("MNIST", "missing", str(error), "delete or replace that file")
    if found is None:
        return Finding("MNIST", "limited", "not on this machine yet", "the study downloads it; or set TMFLOW_DATA_DIR")
    return Finding("MNIST", "ok", f"found in {found}, every file the official one")


def _database() -> Finding:
    url = engine.url_from_env(results_dir() / "study.db")
    try:
        schema.require_usable(url)
    except BadInput as error:
        return Finding("database", "missing", str(error))
    return Finding("database", "ok", url.render_as_string(hide_password=True))


def _strategies() -> list[Finding]:
    variants = registry.variants()
    trials = trial.try_each([variant.name for variant in variants if variant.built])
    return [_strategy(variant, trials.get(variant.name)) for variant in variants]


def _strategy(variant: registry.Variant, tried: trial.Trial | None) -> Finding:
    name = f"strategy {variant.name}"
    if tried is None:
        how = "not tried: there is nothing to try"
        return Finding(name, "missing", variant.why_not or "", built=False, runnable=False, how=how)
    state: Literal["ok", "missing"] = "ok" if tried.why_not is None else "missing"
    text = tried.why_not or variant.summary or ""
    return Finding(name, state, text, built=True, runnable=tried.why_not is None, how=tried.how)
