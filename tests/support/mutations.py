"""Malformed bundles: each is a valid bundle with one change, in any layer."""

from __future__ import annotations

from random import Random

from tests.support import byte_mutations, json_mutations
from tests.support.json_mutations import field_changed
from tests.support.raw_zips import DEFLATED, LZMA, STORED
from tests.support.repacked import Members, zipped
from tests.support.zip_mutations import ZIPS

CONTENTS = (*json_mutations.CONTENTS, *byte_mutations.CONTENTS)
# Of ten mutants, so many change the zip file, and so many the type of a field; the rest change content.
_OF_ZIPS, _OF_FIELDS = 3, 2
_OF_CONTENTS = 10 - _OF_ZIPS - _OF_FIELDS
KINDS = [kind.__name__ for kind in (*ZIPS, field_changed, *CONTENTS)]


def mutant(good: Members, seed: int, number: int) -> tuple[str, bytes]:
    """The kind of a mutant and its bytes: deterministic for a bundle, a seed and a number.

    Changes of a member are made before the manifest and the zip file (unless those are changed), so that they reach the
    code that reads the member.
    """
    chance = Random(f"{seed}/{number}")
    turn, place = divmod(number, 10)
    if place < _OF_ZIPS:
        change = ZIPS[(turn * _OF_ZIPS + place) % len(ZIPS)]
        return change.__name__, change(good, chance)
    members = dict(good)
    if (place := place - _OF_ZIPS) < _OF_FIELDS:
        field_changed(members, turn * _OF_FIELDS + place)
        return field_changed.__name__, zipped(members)
    alter = CONTENTS[(turn * _OF_CONTENTS + place - _OF_FIELDS) % len(CONTENTS)]
    alter(members, chance)
    return alter.__name__, zipped(members, chance.choice((STORED, STORED, STORED, DEFLATED, LZMA)))
