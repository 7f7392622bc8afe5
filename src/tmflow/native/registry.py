"""Every strategy that tmflow knows: TensorFlow's own pair and the native ones; which are built, and which run here."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tmflow.base.errors import BadInput, unknown
from tmflow.base.files import write_json
from tmflow.base.paths import project_root
from tmflow.native import loader

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
    known = {variant.name: variant for variant in variants()}
    if name not in known:
        raise unknown("strategy", name, known)
    return known[name]


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
    found = importlib.util.find_spec("tensorflow") is not None
    why_not = None if found else "TensorFlow is not installed"
    return [
        Variant(name, "stock", summary, updates, "element", "none", built=found, runnable=found, why_not=why_not)
        for name, summary, updates in (
            ("tf_lock", "TensorFlow's own update with use_locking=True: the study's Lock", "tensor"),
            ("tf_nolock", "TensorFlow's own update with use_locking=False: the study's NoLock", "none"),
        )
    ]


def _native() -> list[Variant]:
    """The strategies of the built library, and those whose source it is too old for, or that is all there is."""
    core, why_not = _library()
    built = core.strategies() if core else []
    known = {row["name"] for row in built}
    return [_built(row) for row in built] + [
        Variant(name, "native", None, None, None, None, built=False, runnable=False, why_not=why_not)
        for name in source_names()
        if name not in known
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
