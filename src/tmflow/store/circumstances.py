"""What the hashes and names in tables of runs stand for: all facts of machines, their settings, and software."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select

from tmflow.base.json_objects import parse_object
from tmflow.platform.key import slug_of
from tmflow.store.frames import Source, fetch
from tmflow.store.models import Base, Environment, Platform, Software

Facts = dict[str, Any]
"""The facts of one thing by their names; None is a fact that could not be read."""


def platforms(source: Source, keys: Iterable[str]) -> dict[str, Facts]:
    """The facts of platforms by their keys (`tmflow.platform.key`): all that were recorded, known or not.

    They are the same whatever the source: a platform is the hash of its facts.
    """
    slugs = {key: slug_of(key) for key in keys}
    facts = _facts_json(source, Platform, "slug", slugs.values())
    return {key: facts[slug] for key, slug in slugs.items() if slug in facts}


def environments(source: Source, hashes: Iterable[str]) -> dict[str, Facts]:
    """The settings of these hashes, by hash: all that were recorded, known to this version or not."""
    return _facts_json(source, Environment, "env_sha256", hashes)


def software(source: Source, hashes: Iterable[str]) -> dict[str, Facts]:
    """The versions of these hashes, by hash."""
    columns = [column for column in Software.__table__.columns if column.name != "id"]
    found = fetch(source, select(*columns).where(Software.software_sha256.in_(sorted(hashes))))
    rows = (dict(row._mapping) for row in found)
    return {row.pop("software_sha256"): row for row in rows}


def _facts_json(source: Source, model: type[Base], key: str, values: Iterable[str]) -> dict[str, Facts]:
    name, facts = (model.__table__.columns[column] for column in (key, "facts_json"))
    found = fetch(source, select(name, facts).where(name.in_(sorted(values))))
    return {name: parse_object(text, f"what is known of {model.__tablename__} {name}") for name, text in found}
