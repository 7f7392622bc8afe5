"""The registry of strategies: which are built and run here, what each guarantees, and its parameters."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tmflow.base.errors import BadInput, unknown
from tmflow.base.extras import requires_extra
from tmflow.base.files import write_json
from tmflow.base.paths import native_sources
from tmflow.native import loader
from tmflow.platform.software import tensorflow_version
from tmflow.spec.strategies import (
    STRATEGY_PARAMETERS,
    WITHOUT_LOCK_TIMES,
    Value,
    mechanism_of,
    parameters_of,
)

if TYPE_CHECKING:
    from tmflow.native import _core
    from tmflow.platform.profiles import Profile

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Parameter:
    """A parameter of a native strategy; `fallback` is its default value, `allowed` describes the valid ones."""

    name: str
    fallback: str
    allowed: str
    summary: str


@dataclass(frozen=True)
class Variant:
    """A strategy and whether it runs here.

    Before the build, the summary and the consistency of a native strategy are None, and its parameters are not listed.
    """

    name: str
    provider: Literal["stock", "native"]
    summary: str | None
    update_consistency: str | None
    read_consistency: str | None
    snapshot_consistency: str | None  # of a read through the strategy; "none": it has no such read
    built: bool
    runnable: bool
    why_not: str | None
    parameters: list[Parameter] = field(default_factory=list)
    keeps_elsewhere: bool = False  # between updates the variable is in separate memory


@dataclass(frozen=True)
class BuildInfo:
    """The compiler and flags of the native library; None if no library loads."""

    compiler: str | None
    cflags: str | None


def variants() -> list[Variant]:
    """All strategies, the stock pair first; works without TensorFlow and without a build."""
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
    """The result of trial hardware transactions; None if no native library loads.

    Keys: `reported` (by the processor), `tried`, `committed`, and `statuses`, the number of aborts by raw status.
    """
    core, _ = _library()
    return dict(core.tm_probe()) if core else None


def build_info() -> BuildInfo:
    """Compiler and flags of the native library."""
    core, _ = _library()
    return BuildInfo(**core.build_info()) if core else BuildInfo(None, None)


def write_variants(path: Path) -> None:
    """Write variants.json: the strategies, their compiler, and the result of trial transactions on this machine.

    Raises BadInput if the native library is not built or does not load, because a study needs it.
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
    here: dict[str, Any] = {"built": is_installed, "runnable": is_installed, "why_not": why_not}
    return [
        Variant(name, "stock", f"TensorFlow's own update with {summary}", updates, "element", "none", **here)
        for name, summary, updates in (
            ("tf_lock", "use_locking=True: the study's Lock", "tensor"),
            ("tf_nolock", "use_locking=False: the study's NoLock", "none"),
        )
    ]


def _native() -> list[Variant]:
    """The strategies of the built library, and those that only have a source because it is older or absent."""
    core, why_not = _library()
    built = {row["name"]: _built(row) for row in (core.strategies() if core else ())}
    return [*built.values()] + [
        Variant(name, "native", None, None, None, None, built=False, runnable=False, why_not=why_not)
        for name in source_names()
        if name not in built
    ]


REMOVED_FIELDS = ("updates_rows",)  # which older libraries have

# The names of these fields in libraries that were built before they were renamed.
OLD_FIELDS = {
    "promise_updates": "update_consistency",
    "promise_reads": "read_consistency",
    "promise_snapshots": "snapshot_consistency",
}


def _built(row: _core.StrategyRow) -> Variant:
    facts: dict[str, Any] = {"snapshot_consistency": None}  # the oldest libraries have no such field
    facts |= {OLD_FIELDS.get(field, field): value for field, value in row.items()}
    rows = facts.pop("parameters", [])  # nor are there parameters in one built before strategies had them
    facts = {name: value for name, value in facts.items() if name not in REMOVED_FIELDS}
    return Variant(provider="native", built=True, parameters=[Parameter(**parameter) for parameter in rows], **facts)


def _library() -> tuple[_core.Core | None, str]:
    """The native library, or None, and the reason why a strategy of the sources is not in it."""
    try:
        return loader.core(), "the native library is older than its sources: run `make build`"
    except BadInput as error:
        return None, str(error).removesuffix(".")


def source_names() -> list[str]:
    """The names of the native strategies, from their sources: each strategy has one file of that name."""
    sources = native_sources() / "include" / "tmflow" / "strategies"
    return sorted(source.stem for source in sources.glob("*.hpp"))


# The same as in the registry of the core; tests/native/test_registry.py compares the two.
UPDATE_CONSISTENCY = {
    "tf_lock": "tensor",
    "tf_nolock": "none",
    "lock": "tensor",
    "nolock": "none",
    "lock_pthread": "tensor",
    "spin": "tensor",
    "spin_then_mutex": "tensor",
    "htm": "tensor",
    "htm_if_fits": "block",
    "itm": "tensor",
    "stm": "tensor",
    "tle": "tensor",
    "striped": "block",
    "combining": "block",
    "atomic": "element",
    "block_stm": "tensor",
    "leashed": "tensor",
    "local_steps": "tensor",
    "adaptive": "tensor",
}


@cache
def consistency_by_strategy() -> dict[str, str | None]:
    """The consistency of the updates of each strategy: those listed above, and any other that is built."""
    built = {row.name: row.update_consistency for row in variants() if row.update_consistency}
    return {**UPDATE_CONSISTENCY, **built}


@dataclass(frozen=True)
class ResolvedStrategy:
    """A strategy with its parameters, resolved once: its guarantees, and the arguments for the native library.

    entry: the facts of the registry. parameters: those that were given, and the defaults of the others.
    native_arguments: those that were given, in the form that the native library takes. mechanism: the transactions that
    it tries, a key of `abort_codes.FAMILIES`, or None. An emulator reports aborts as its machine does.
    """

    entry: Variant
    parameters: Mapping[str, Value]
    native_arguments: tuple[str, ...]
    mechanism: str | None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def is_stock(self) -> bool:
        """Whether it is TensorFlow's own update."""
        return self.entry.provider == "stock"

    @property
    def is_emulated(self) -> bool:
        return self.parameters.get("provider") == "emulated"

    @property
    def is_fused(self) -> bool:
        """Whether updates are to be fused with the gradients of dense layers."""
        return self.parameters.get("kernel") == "fused"

    @property
    def times_locks(self) -> bool:
        """Whether it measures how long it waits for locks and holds them."""
        return self.name not in WITHOUT_LOCK_TIMES


def resolve_text(variant: str) -> ResolvedStrategy:
    """Look up a variant as it is written: a strategy and its parameters, such as "stm:design=wt:manager=delay".

    Raises BadInput as `resolve`, and for a parameter that is given twice or is not of the form name=value.
    """
    name, *given = variant.split(":")
    return resolve(name, assignments(variant, given))


def assignments(variant: str, given: Sequence[str]) -> dict[str, Value]:
    """Split the assignments "name=value" of a variant, which messages of BadInput name."""
    pairs: dict[str, Value] = {}
    for assignment in given:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise BadInput(f"parameter '{assignment}' is not of the form name=value.")
        if name in pairs:
            raise BadInput(f"'{variant}' has the parameter '{name}' twice: once is enough.")
        pairs[name] = int(value) if value.isdecimal() else value
    return pairs


def resolve(name: str, given: Mapping[str, Value] = MappingProxyType({})) -> ResolvedStrategy:
    """Look up a strategy and its parameters; nothing needs to be built.

    Raises BadInput for an unknown strategy, for a parameter of a stock one, for an unknown or invalid profile, and for
    an emulated provider without a profile or a profile without an emulated provider. The native library checks all
    other parameters, when the strategy is used.
    """
    entry = require(name)
    if entry.provider == "stock" and given:
        raise BadInput(f"strategy '{name}' has no parameter '{next(iter(given))}'; it has: none.")
    declared = {parameter.name for parameter in entry.parameters}
    is_emulated = given.get("provider") == "emulated"
    if "provider" in declared and ("profile" in given) != is_emulated:
        raise BadInput("profile belongs to provider emulated, and provider emulated needs one.")
    machine = _machine(str(given["profile"])) if is_emulated and "profile" in given else None
    parameters = {**parameters_of(name, given.get("spending")), **given}
    native: dict[str, Value] = {}
    if "budget" in declared and "spending" in given:
        native["budget"] = parameters["budget"]
    for parameter, value in given.items():
        if parameter == "profile" and machine and "machine" in declared:
            native["machine"] = machine.machine_text()
        elif parameter in declared or parameter not in STRATEGY_PARAMETERS.get(name, {}):
            native[parameter] = value  # the library rejects unknown parameters
    return ResolvedStrategy(
        entry=entry,
        parameters=parameters,
        native_arguments=tuple(f"{parameter}={value}" for parameter, value in native.items()),
        mechanism=machine.provider if machine else mechanism_of(name, given),
    )


def _machine(profile: str) -> Profile:
    with requires_extra("an emulated machine"):  # to check its profile; nothing else of a strategy needs a package
        from tmflow.platform.profiles import load_profile
    return load_profile(profile)
