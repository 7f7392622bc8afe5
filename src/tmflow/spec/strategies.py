"""The strategies: their parameters with default values, their transactions, and what their updates wait for.

The native library knows the parameters too (`_core.strategies()`), and a test compares the two. So a spec can be
checked without a build. Their ranges are in `tmflow.spec.factors` and in the header of each strategy (`kParameters`).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from typing import Literal

Value = str | int

# The provider of this processor's transactions, or on others the one that reports why there are none.
_HERE = "power" if platform.machine() == "ppc64le" else "rtm"

# The loop of the update, for every strategy that runs it unchanged.
_KERNEL: dict[str, Value | None] = {"kernel": "plain", "optimisation": "O3"}

# The parameters and their default values; a parameter without a default has None.
STRATEGY_PARAMETERS: dict[str, dict[str, Value | None]] = {
    "lock": {"chunk": None, **_KERNEL},
    "nolock": {"chunk": None, **_KERNEL},
    "lock_pthread": _KERNEL,
    "spin": {"chunk": None, **_KERNEL},
    "spin_then_mutex": _KERNEL,
    "htm": {
        "provider": _HERE,
        "profile": None,
        "budget": 5,
        "spending": "study_tsx",
        "subscription": "variable",
        "chunk": 0,
        **_KERNEL,
    },
    "htm_if_fits": {
        "provider": _HERE,
        "profile": None,
        "budget": 5,
        "spending": "study_tsx",
        "block": 0,
        "fits": 0,
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
    "striped": {"block": 0, **_KERNEL},
    "combining": {"block": 0, **_KERNEL},
    "block_stm": {"block": 4096, "manager": "backoff", **_KERNEL},
    "leashed": _KERNEL,
    "local_steps": {"every": 16, **_KERNEL},
    "adaptive": {"promise": "tensor", **_KERNEL},
}

# Strategies that do not measure how long they hold locks: their locks are inside a library or are single words.
WITHOUT_LOCK_TIMES = ("itm", "stm")

# Strategies that cannot update the arrays of an optimiser with a variable: they update element by element, instrument
# only the accesses to the variable, or publish copies of it.
WITHOUT_OPTIMISER_STATE = ("atomic", "itm", "leashed", "local_steps", "stm")

# Strategies that keep the variable elsewhere than in its memory, so that workers must read consistently.
KEEPING_ELSEWHERE = ("leashed", "local_steps")

# Strategies under which workers see each other's updates late. They lose none, but are no replacement of a lock for a
# model whose accuracy depends on it.
DELAYED = ("local_steps",)

# Strategies whose blocks fit the size of the variable if `block` is 0.
FITTING_BLOCKS = ("combining", "htm_if_fits", "striped")

# The transactions of strategies without a provider; `block_stm` counts by the causes of `stm`.
MECHANISMS: dict[str, str] = {"itm": "itm", "stm": "stm", "tle": "tle", "block_stm": "stm"}

# The default budget of each retry policy: those of the study, and for `tuned` a first guess, not yet measured.
BUDGETS: dict[str, int] = {"study_tsx": 5, "study_power": 100, "tuned": 10}

# The parameters of all strategies, each once.
PARAMETERS: tuple[str, ...] = tuple(
    dict.fromkeys(name for parameters in STRATEGY_PARAMETERS.values() for name in parameters)
)


def parameters_of(strategy: str, spending: object = None) -> dict[str, Value]:
    """The parameters of a strategy with their default values; without those that have none.

    spending: the retry policy, if one is given: it determines the default budget.
    """
    parameters = {name: value for name, value in STRATEGY_PARAMETERS.get(strategy, {}).items() if value is not None}
    if "budget" in parameters and isinstance(spending, str):
        parameters["budget"] = BUDGETS.get(spending, parameters["budget"])
    return parameters


def says_whole_update(strategy: str, chunk: object) -> bool:
    """Whether `chunk` is 0 for a strategy whose critical section is the whole update if it has no chunk."""
    return chunk == 0 and STRATEGY_PARAMETERS.get(strategy, {}).get("chunk", 0) is None


def mechanism_of(strategy: str, parameters: Mapping[str, Value]) -> str | None:
    """The transactions that a strategy tries: a key of `abort_codes.FAMILIES`, or "emulated"; None without any."""
    provider = parameters.get("provider", STRATEGY_PARAMETERS.get(strategy, {}).get("provider"))
    return MECHANISMS.get(strategy, None if provider is None else str(provider))


@cache
def owners(parameter: str) -> tuple[str, ...]:
    """The strategies that have this parameter; none for another kind of factor."""
    return tuple(strategy for strategy, parameters in STRATEGY_PARAMETERS.items() if parameter in parameters)


ContentionKind = Literal["retries", "failed_publications", "taken_blocks"]

# The kinds of contention: the lists of a run file, in the order of native_ops/include/tmflow/measure/counters.hpp, and
# what the rows of each list count.
CONTENTION: dict[ContentionKind, Literal["sections", "updates"]] = {
    "retries": "sections",  # critical sections, by the aborted attempts of their transactions
    "failed_publications": "updates",  # by the private copies that were not published
    "taken_blocks": "updates",  # by the blocks that another thread held when the update arrived
}

# In older runs, these strategies counted another kind in the list `retries`, which was the only list.
KIND_IN_RETRIES: dict[str, ContentionKind] = {
    "leashed": "failed_publications",
    "striped": "taken_blocks",
    "combining": "taken_blocks",
}


def kind_of_retries(strategy: str) -> ContentionKind:
    """The kind of contention in the list `retries` of a run under this strategy, whenever it was recorded."""
    return KIND_IN_RETRIES.get(strategy, "retries")
