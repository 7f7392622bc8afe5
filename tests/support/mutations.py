"""Bundles as nobody should make them: each is a good one with something done to it, and every layer has its kinds."""

from __future__ import annotations

from random import Random

from tests.support import byte_mutations, json_mutations
from tests.support.json_mutations import field_changed
from tests.support.raw_zips import DEFLATED, LZMA, STORED
from tests.support.repacked import Members, zipped
from tests.support.zip_mutations import ZIPS

CONTENTS = (*json_mutations.CONTENTS, *byte_mutations.CONTENTS)
# Of ten mutants: so many have another zip file, and so many a field of another type; the rest another content.
_OF_ZIPS, _OF_FIELDS = 3, 2
_OF_CONTENTS = 10 - _OF_ZIPS - _OF_FIELDS
KINDS = [kind.__name__ for kind in (*ZIPS, field_changed, *CONTENTS)]


def mutant(good: Members, seed: int, number: int) -> tuple[str, bytes]:
    """The kind of mutant that it is, and its bytes: always the same for a bundle, a seed and a number.

    What is done to a member is done before the manifest is made and all is packed (unless that is what is wrong), so
    that it comes through to what looks at the member.
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
