"""What `tmflow doctor` finds. TensorFlow is imported only by the trials of its own strategies, each in a process of its
own, so everything works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root, results_dir
from tmflow.native import build, registry
from tmflow.platform.facts import platform_facts
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.runner.busy_machine import look
from tmflow.store import engine, schema
from tmflow.workflow import findings
from tmflow.workflow.findings import Finding


def diagnose() -> list[Finding]:
    """All that decides what can be run here, from the machine up to the database, each strategy, and what to run."""
    looks: list[Callable[[], Finding]] = [
        findings.machine,
        findings.tm,
        _profiles,
        findings.python,
        _compiler,
        _tensorflow,
        findings.data,
        _database,
    ]
    load = _load()  # before the strategies are tried, which keeps the machine busy
    with ThreadPoolExecutor(1) as meanwhile:
        strategies = meanwhile.submit(findings.strategies)
        found, last = [find() for find in looks], _next()
        return [found[0], load, *found[1:], *strategies.result(), last]


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
    from tmflow.claims import next_run  # pandas takes a second, in which strategies are tried
    from tmflow.claims.schema import load_claims

    name, facts = "run here", platform_facts()
    probe = registry.tm_probe()
    machine = next_run.machine_of(facts, probe["committed"] if probe else None)
    try:
        others = next_run.known(engine.url_from_env(results_dir() / "study.db"), project_root() / "contrib", facts)
    except BadInput as error:
        text = f"what other machines have measured cannot be told: {error}"
        return Finding(name, "limited", text, next_run.WITH_TENSORFLOW)
    step = next_run.next_step(load_claims(), machine, others, tensorflow=registry.tensorflow_version() is not None)
    return Finding(name, "ok", step.why, step.command, adds=step.adds)
