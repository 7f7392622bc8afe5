"""A strategy's parameters as the native library takes them."""

from __future__ import annotations

from collections.abc import Mapping

from tmflow.native import registry
from tmflow.platform.profiles import load_profile
from tmflow.strategy_parameters import STRATEGY_PARAMETERS, Value


def native_parameters(strategy: str, parameters: Mapping[str, Value]) -> list[str]:
    """The parameters as "name=value", in their order.

    The profile of a machine becomes its numbers, and what the project knows of the strategy but the library has no
    use for is left out. Everything else is passed on, so that the library refuses what it does not know. Raises
    BadInput for an unknown strategy and for a profile that is unknown or wrong.
    """
    known = {parameter.name for parameter in registry.require(strategy).parameters}
    native: dict[str, Value] = {}
    for name, value in parameters.items():
        if name == "profile":
            native["machine"] = load_profile(str(value)).machine_text()
        elif name in known or name not in STRATEGY_PARAMETERS.get(strategy, {}):
            native[name] = value
    return [f"{name}={value}" for name, value in native.items()]
