"""Which strategy has which parameters, and the value of each where none is given.

The native library says the same (`_core.strategies()`), and a test holds the two together: a spec is checked where
nothing is built.
"""

from __future__ import annotations

import platform
from functools import cache

Value = str | int

# The processor's own transactions; where it has none, the provider that says why.
_OWN_PROVIDER = "power" if platform.machine() == "ppc64le" else "rtm"

# The loop of the update, of every strategy that runs it as it is.
_KERNEL: dict[str, Value | None] = {"kernel": "plain", "optimisation": "O3"}

# None: there is no value where none is given.
STRATEGY_PARAMETERS: dict[str, dict[str, Value | None]] = {
    "lock": _KERNEL,
    "nolock": _KERNEL,
    "lock_pthread": _KERNEL,
    "spin": _KERNEL,
    "spin_then_mutex": _KERNEL,
    "htm": {
        "provider": _OWN_PROVIDER,
        "profile": None,
        "budget": 5,
        "spending": "study_tsx",
        "subscription": "variable",
        "chunk": 0,
        **_KERNEL,
    },
    "tle": {"tunables": "default", **_KERNEL},
    "stm": {
        "design": "wb_etl",
        "manager": "suicide",
        "instrumentation": "shared",
        "chunk": 0,
        "optimisation": "O3",
    },
    "itm": {"method": "ml_wt", "library": None, "optimisation": "O3"},
    "striped": {"block": 2048, **_KERNEL},
    "combining": {"block": 2048, **_KERNEL},
    "block_stm": {"block": 4096, "manager": "backoff", **_KERNEL},
    "leashed": _KERNEL,
    "adaptive": {"promise": "tensor", **_KERNEL},
}

# Strategies that hold locks inside of the library, or on words, and do not tell how long.
LOCKS_UNTOLD = ("itm", "stm")

# The budget that belongs to a way of spending it: those of the study, and for `tuned` a first guess, not yet measured.
BUDGETS: dict[str, int] = {"study_tsx": 5, "study_power": 100, "tuned": 10}

# The parameters of all strategies, each once.
PARAMETERS: tuple[str, ...] = tuple(
    dict.fromkeys(name for parameters in STRATEGY_PARAMETERS.values() for name in parameters)
)


def parameters_of(strategy: str, spending: object = None) -> dict[str, Value]:
    """The parameters of a strategy, with the values that they have where none is given; most have none.

    spending: the way of spending the budget, if one is given; the budget follows it.
    """
    parameters = {name: value for name, value in STRATEGY_PARAMETERS.get(strategy, {}).items() if value is not None}
    if "budget" in parameters and isinstance(spending, str):
        parameters["budget"] = BUDGETS.get(spending, parameters["budget"])
    return parameters


@cache
def owners(parameter: str) -> tuple[str, ...]:
    """The strategies that have this parameter; none if it is another kind of factor."""
    return tuple(strategy for strategy, parameters in STRATEGY_PARAMETERS.items() if parameter in parameters)
