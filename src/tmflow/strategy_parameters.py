"""Which strategy has which parameters, and the value of each where none is given.

The native library says the same (`_core.strategies()`), and a test holds the two together: a spec is checked where
nothing is built.
"""

from __future__ import annotations

import platform

Value = str | int

# The processor's own transactions; where it has none, the provider that says why.
_OWN_PROVIDER = "power" if platform.machine() == "ppc64le" else "rtm"

STRATEGY_PARAMETERS: dict[str, dict[str, Value]] = {
    "htm": {"provider": _OWN_PROVIDER, "budget": 5, "spending": "study_tsx", "chunk": 0},
}
# The parameters of all strategies, each once.
PARAMETERS: tuple[str, ...] = tuple(dict.fromkeys(name for own in STRATEGY_PARAMETERS.values() for name in own))


def parameters_of(strategy: str) -> dict[str, Value]:
    """The parameters of a strategy, with the values that they have where none is given; most have none."""
    return dict(STRATEGY_PARAMETERS.get(strategy, {}))


def owners(parameter: str) -> list[str]:
    """The strategies that have this parameter; none if it is another kind of factor."""
    return [strategy for strategy, own in STRATEGY_PARAMETERS.items() if parameter in own]
