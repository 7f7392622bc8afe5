"""A strategy's parameters as the native library takes them, and whose transactions they ask for."""

from __future__ import annotations

from collections.abc import Mapping

from tmflow.base.errors import BadInput
from tmflow.native import registry
from tmflow.platform.profiles import load_profile
from tmflow.spec.strategies import STRATEGY_PARAMETERS, Value, parameters_of


def native_parameters(strategy: str, parameters: Mapping[str, Value]) -> list[str]:
    """The parameters as "name=value", in their order.

    The profile of a machine becomes its numbers, a way of spending brings the budget that belongs to it, and what the
    project knows of the strategy but the library has no use for is left out. Everything else is passed on, so that the
    library refuses what it does not know. Raises BadInput for an unknown strategy, for a profile that is unknown or
    wrong, and for an emulated provider without one or a profile without that.
    """
    known = {parameter.name for parameter in registry.require(strategy).parameters}
    native: dict[str, Value] = {}
    if "budget" in known and "spending" in parameters:
        native["budget"] = parameters_of(strategy, parameters["spending"])["budget"]
    if "provider" in known and ("profile" in parameters) != (parameters.get("provider") == "emulated"):
        raise BadInput("profile belongs to provider emulated, and provider emulated needs one.")
    for name, value in parameters.items():
        if name == "profile" and "machine" in known:
            native["machine"] = load_profile(str(value)).machine_text()
        elif name in known or name not in STRATEGY_PARAMETERS.get(strategy, {}):
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
