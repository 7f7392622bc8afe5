"""Rounds that the database holds and the study measures all the same, because their run files are gone."""

from __future__ import annotations

from sqlalchemy import URL

from tmflow.base.canonical_json import sha256_of
from tmflow.base.text import several
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.store import engine, queries, schema
from tmflow.store.url import shown
from tmflow.study.plan import Plan, dataset_path, resolved_dataset

NAMED = 3  # experiments, before they are only counted


def already_stored(plan: Plan, database: URL) -> str | None:
    """How many these are, and what comes of it, in a sentence; None if there are none.

    The database forgets nothing: who deletes a run file gets its round twice.
    """
    if not dataset_path(plan.results).exists() or not schema.exists(database):
        return None
    again = _again(plan, database)
    if not again:
        return None
    rounds = several(sum(map(len, again.values())), "round")
    what = ", ".join(again) if len(again) <= NAMED else f"{len(again)} experiments"
    return (
        f"{shown(database)} holds {rounds} of {what} whose run files are gone; they are measured again, and what is "
        "drawn and judged will rest on both; to forget the old ones, stop, move the database away, and run this again."
    )


def _again(plan: Plan, database: URL) -> dict[str, list[int]]:
    """The rounds by experiment, of this machine and of the definition as it is."""
    stored = queries.rounds(engine.open_reader(database))
    stored = stored[stored["platform_sha256"] == platform_sha256(platform_facts())]
    known = set(zip(stored["experiment"], stored["definition_sha256"], stored["round"], strict=True))
    dataset = resolved_dataset(plan.results)
    again = {}
    for name in plan.experiments:
        definition = sha256_of(plan.study.definition(name, plan.scale, dataset))
        missing = [n for n, path in enumerate(plan.run_files(name), start=1) if not path.exists()]
        if numbers := [n for n in missing if (name, definition, n) in known]:
            again[name] = numbers
    return again
