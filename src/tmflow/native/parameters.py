"""A strategy's parameters as the native library takes them."""

from __future__ import annotations

from collections.abc import Mapping

from tmflow.base.errors import BadInput
from tmflow.native import registry
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
            from tmflow.platform.profiles import load_profile  # needs more than NumPy, which emulation alone does

            native["machine"] = load_profile(str(value)).machine_text()
        elif name in known or name not in STRATEGY_PARAMETERS.get(strategy, {}):
            native[name] = value
    return [f"{name}={value}" for name, value in native.items()]
