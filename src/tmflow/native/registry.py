"""Every strategy that tmflow knows: which are built and run here, what each guarantees, and its parameters."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tmflow.base.errors import BadInput, unknown
from tmflow.base.files import write_json
from tmflow.base.paths import project_root
from tmflow.native import loader
from tmflow.platform.profiles import load_profile
from tmflow.spec.strategies import STRATEGY_PARAMETERS, Value, parameters_of

if TYPE_CHECKING:
    from tmflow.native import _core

SCHEMA_VERSION = 1
TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a native strategy; `fallback` is its value where none is given, `allowed` says which there are."""

    name: str
    fallback: str
    allowed: str
    summary: str


@dataclass(frozen=True)
class Variant:
    """A strategy and whether it runs here.

    Before the build the summary and the promises of a native one are None, and its parameters are not listed.
    """

    name: str
    provider: Literal["stock", "native"]
    summary: str | None
    promise_updates: str | None
    promise_reads: str | None
    promise_snapshots: str | None  # of a read by way of the strategy; "none": it has no such read
    built: bool
    runnable: bool
    why_not: str | None
    parameters: list[Parameter] = field(default_factory=list)
    keeps_elsewhere: bool = False  # the variable, between updates, in other memory than its own


@dataclass(frozen=True)
class BuildInfo:
    """What built the native library; None where there is none that loads."""

    compiler: str | None
    cflags: str | None


def variants() -> list[Variant]:
    """All strategies, the stock pair first; needs neither TensorFlow nor a build that loads."""
    return [*_stock(), *_native()]


def names() -> list[str]:
    """The names of all strategies, built or not."""
    return [variant.name for variant in variants()]


def require(name: str) -> Variant:
    """The strategy of that name. Raises BadInput, with the valid names, if there is none."""
    variant_of = {variant.name: variant for variant in variants()}
    if name not in variant_of:
        raise unknown("strategy", name, variant_of)
    return variant_of[name]


def tm_probe() -> dict[str, Any] | None:
    """What the processor reports and does about hardware transactions; None without a native library that loads.

    `reported`, `tried`, `committed`, and in `statuses` how often each raw abort status was seen.
    """
    core, _ = _library()
    return dict(core.tm_probe()) if core else None


def build_info() -> BuildInfo:
    """Compiler and flags of the native library."""
    core, _ = _library()
    return BuildInfo(**core.build_info()) if core else BuildInfo(None, None)


def tensorflow_version() -> str | None:
    """The version of the installed TensorFlow, without importing it; None if there is none."""
    for package in TENSORFLOW_PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def write_variants(path: Path) -> None:
    """Write variants.json: the strategies, what built them, and the probe of this machine's transactions.

    Raises BadInput if the native library is not built or does not load: a study would run without it.
    """
    loader.core()
    build = build_info()
    document = {
        "schema_version": SCHEMA_VERSION,
        "tensorflow": tensorflow_version(),
        "compiler": build.compiler,
        "cflags": build.cflags,
        "tm_probe": tm_probe(),
        "strategies": [asdict(variant) for variant in variants()],
    }
    write_json(path, document)


def _stock() -> list[Variant]:
    """TensorFlow's own ApplyGradientDescent on reference variables."""
    is_installed = importlib.util.find_spec("tensorflow") is not None
    why_not = None if is_installed else "TensorFlow is not installed"
    return [
        Variant(
            name,
            "stock",
            summary,
            updates,
            "element",
            "none",
            built=is_installed,
            runnable=is_installed,
            why_not=why_not,
        )
        for name, summary, updates in (
            ("tf_lock", "TensorFlow's own update with use_locking=True: the study's Lock", "tensor"),
            ("tf_nolock", "TensorFlow's own update with use_locking=False: the study's NoLock", "none"),
        )
    ]


def _native() -> list[Variant]:
    """The strategies of the built library, and those whose source it is too old for, or that is all there is."""
    core, why_not = _library()
    built = core.strategies() if core else []
    built_names = {row["name"] for row in built}
    return [_built(row) for row in built] + [
        Variant(name, "native", None, None, None, None, built=False, runnable=False, why_not=why_not)
        for name in source_names()
        if name not in built_names
    ]


def _built(row: _core.StrategyRow) -> Variant:
    facts: dict[str, Any] = {"promise_snapshots": None, **row}  # a library built before they were promised has none
    rows = facts.pop("parameters", [])  # nor are there parameters in one built before strategies had them
    return Variant(provider="native", built=True, parameters=[Parameter(**parameter) for parameter in rows], **facts)


def _library() -> tuple[_core.Core | None, str]:
    """The native library, or None; and why a strategy of the sources is not in it."""
    try:
        return loader.core(), "the native library is older than its sources: run `make build`"
    except BadInput as error:
        return None, str(error).removesuffix(".")


def source_names() -> list[str]:
    """The native strategies by their sources: each has one file, and the file has its name."""
    sources = project_root() / "native_ops" / "include" / "tmflow" / "strategies"
    return sorted(source.stem for source in sources.glob("*.hpp"))


# As the registry of the core has it; tests/native/test_registry.py holds the two together.
UPDATES = {
    "tf_lock": "tensor",
    "tf_nolock": "none",
    "lock": "tensor",
    "nolock": "none",
    "lock_pthread": "tensor",
    "spin": "tensor",
    "spin_then_mutex": "tensor",
    "htm": "tensor",
    "itm": "tensor",
    "stm": "tensor",
    "tle": "tensor",
    "striped": "block",
    "combining": "block",
    "atomic": "element",
    "block_stm": "tensor",
    "leashed": "tensor",
    "adaptive": "tensor",
}


@cache
def promises_of_updates() -> dict[str, str | None]:
    """The promise of each strategy that is known here: of ours, and of those that are built."""
    return {**UPDATES, **{built.name: built.promise_updates for built in variants() if built.promise_updates}}


def native_parameters(strategy: str, parameters: Mapping[str, Value]) -> list[str]:
    """The parameters as "name=value", in their order.

    The profile of a machine becomes its numbers, a way of spending brings the budget that belongs to it, and what the
    project knows of the strategy but the library has no use for is left out. Everything else is passed on, so that the
    library refuses what it does not know. Raises BadInput for an unknown strategy, for a profile that is unknown or
    wrong, and for an emulated provider without one or a profile without that.
    """
    declared = {parameter.name for parameter in require(strategy).parameters}
    native: dict[str, Value] = {}
    if "budget" in declared and "spending" in parameters:
        native["budget"] = parameters_of(strategy, parameters["spending"])["budget"]
    if "provider" in declared and ("profile" in parameters) != (parameters.get("provider") == "emulated"):
        raise BadInput("profile belongs to provider emulated, and provider emulated needs one.")
    for name, value in parameters.items():
        if name == "profile" and "machine" in declared:
            native["machine"] = load_profile(str(value)).machine_text()
        elif name in declared or name not in STRATEGY_PARAMETERS.get(strategy, {}):
            native[name] = value
    return [f"{name}={value}" for name, value in native.items()]


def mechanism_of(strategy: str, parameters: Mapping[str, Value]) -> str | None:
    """Whose transactions a strategy tries, a key of `abort_codes.FAMILIES`; None if it tries none.

    Those that are emulated report as their machine does. Raises BadInput for a profile that is unknown or wrong.
    """
    if strategy in ("itm", "stm", "tle"):
        return strategy
    if strategy == "block_stm":  # it counts by the causes of `stm`
        return "stm"
    given = {**parameters_of(strategy), **parameters}
    provider = given.get("provider")
    if provider == "emulated":
        return load_profile(str(given["profile"])).provider
    return None if provider is None else str(provider)
