"""The pages of a large database as visitors open them, and their next choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import pandas as pd
from sqlalchemy import Engine

from tmflow.store import queries
from tmflow.store.run_filter import RunFilter

Query = Mapping[str, str | Sequence[str]]

AT_ONCE = 4  # platforms that are shown side by side
CHANGES = 5  # choices of a visitor, one after another
CLAIM = "deep-htm-double"


class Visit(NamedTuple):
    """A page: the address that opens it, and those of the visitor's next choices, each of which needs other data."""

    name: str
    page: str
    opens: str
    changes: tuple[str, ...]


def visits(reader: Engine) -> list[Visit]:
    """Typical views of every page, for the platforms and experiments with the most runs."""
    counts = queries.counts(reader)
    full = counts[(counts["scale"] == "full") & (counts["evidence"] == "measured")]
    platforms = _most(full, "platform")
    of_figure = _most(full[full["experiment"] == "fig-4.10"], "platform")
    own = full[full["platform"].isin(platforms[:AT_ONCE])]
    experiments = _most(own, "experiment")
    first, second, *_ = platforms
    uids = list(queries.page(reader, RunFilter(statuses=("ok",)), rows=CHANGES + 1)["uid"])
    # A different choice for each page that judges all claims, because verdicts are cached.
    others, of_index, of_claims = (
        [{"platform": name} for name in platforms[at + 1 : at + CHANGES + 1]] for at in (0, CHANGES, 2 * CHANGES)
    )
    side_by_side = {
        "experiment": experiments[0],
        "scale": "full",
        "platform": platforms[:AT_ONCE],
        "evidence": "measured",
    }
    a_side = {"a.experiment": experiments[0], "a.scale": "full", "a.platform": first}
    return [
        _visit("overview", "", {}, others),
        _visit("figures", "figures", {}, of_index),
        _visit("a figure", "figures", {"figure": "4.10", "platform": of_figure[0]}, [
            {"figure": "4.10", "platform": name} for name in of_figure[1 : CHANGES + 1]
        ]),
        _visit("explore", "explore", {"experiment": experiments[0], "scale": "full", "platform": first}, [
            {"experiment": experiments[0], "scale": "full", "platform": first, "metric": "accuracy"},
            {"experiment": experiments[0], "scale": "full", "platform": second},
            *({"experiment": name, "scale": "full", "platform": first} for name in experiments[1:4]),
        ]),
        _visit(f"explore, {AT_ONCE} platforms", "explore", side_by_side, [
            {**side_by_side, "metric": "step_time"},
            {**side_by_side, "colour": "platform"},
            *({**side_by_side, "experiment": name} for name in experiments[1:4]),
        ]),
        _visit("compare", "compare", a_side, [
            {**a_side, "b.strategy": "atomic"},
            {**a_side, "b.platform": second},
            *({**a_side, "a.experiment": name} for name in experiments[1:4]),
        ]),
        _visit("advise", "advise", {}, [
            {"step_us": "200"}, {"workers": "4"}, {"consistency": "tensor"}, {"shapes": "100000x16:64"},
            {"platform": first},
        ]),
        _visit("trends", "trends", {"experiment": experiments[0], "platform": first}, [
            {"experiment": experiments[0], "platform": first, "metric": "accuracy"},
            {"experiment": experiments[0], "platform": second},
            *({"experiment": name, "platform": first} for name in experiments[1:4]),
        ]),
        _visit("claims", "claims", {}, of_claims),
        _visit("a claim", "claims", {"claim": CLAIM, "platform": first}, [
            {"claim": CLAIM, **choice} for choice in others
        ]),
        _visit("platforms", "platforms", {}, [{"search": word} for word in ("x86_64", "rtm", "large", "none", "1")]),
        _visit("a platform", "platforms", {"platform": first}, others),
        _visit("runs", "runs", {}, [
            {"status": "failed"}, {"strategy": "htm"}, {"sort": "fastest"}, {"page": "2"},
            {"platform": second, "threads": "4"},
        ]),
        _visit("a run", "runs", {"run": uids[0]}, [{"run": uid} for uid in uids[1:]]),
        _visit("contribute", "contribute", {}, []),
        _visit("method", "method", {}, [{"page": "glossary"}, {"page": "concepts"}]),
    ]  # fmt: skip


def _most(counts: pd.DataFrame, column: str) -> list[str]:
    """The values of a column, the one with the most runs first."""
    return list(counts.groupby(column)["n_runs"].sum().sort_values(ascending=False, kind="stable").index)


def _visit(name: str, page: str, opens: Query, changes: Sequence[Query]) -> Visit:
    return Visit(name, page, urlencode(opens, doseq=True), tuple(urlencode(query, doseq=True) for query in changes))
