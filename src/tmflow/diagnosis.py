"""What `tmflow doctor` finds. Everything is looked at without TensorFlow being imported, so it works without it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from tmflow.data import mnist
from tmflow.errors import BadInput
from tmflow.native import build, registry
from tmflow.paths import results_dir
from tmflow.platform.facts import display_name, platform_facts
from tmflow.store import engine, schema


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis. `missing` stops something; `limited` is worth knowing."""

    name: str
    state: Literal["ok", "limited", "missing"]
    text: str
    advice: str | None = None


def diagnose() -> list[Finding]:
    """Everything that decides what can be run here, from the machine up to the database."""
    looks: list[Callable[[], Finding]] = [
        _machine,
        _tm,
        _python,
        _compiler,
        _tensorflow,
        _data,
        _database,
    ]
    return [*(look() for look in looks), *_strategies()]


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
    return [
        Finding(f"strategy {variant.name}", "ok", variant.summary or "")
        if variant.runnable
        else Finding(f"strategy {variant.name}", "missing", variant.why_not or "")
        for variant in registry.variants()
    ]
