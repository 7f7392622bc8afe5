"""Verdicts for one platform use only its runs."""

from __future__ import annotations

import pytest
from sqlalchemy import URL, Connection

from tests.support.claim_worlds import CLAIMS, SPEED, set_world
from tmflow.base.errors import BadInput
from tmflow.claims.origins import verdicts
from tmflow.store import engine, queries


def slugs(connection: Connection) -> dict[str, str]:
    """The platform of each experiment."""
    counts = queries.counts(connection)
    return dict(zip(counts["experiment"], counts["platform"], strict=True))


def test_a_platform_speaks_of_what_it_ran_and_of_nothing_else(claims_db: Connection) -> None:
    set_world(claims_db, CLAIMS, CLAIMS.claims[SPEED], "holds")
    set_world(claims_db, CLAIMS, CLAIMS.claims["power-capacity"], "holds")
    of = slugs(claims_db)
    assert of["fig-4.1"] != of["fig-4.7"]
    every = {judged.id: judged for judged in verdicts(claims_db, "measured")}
    for decided, other, experiment in ((SPEED, "power-capacity", "fig-4.1"), ("power-capacity", SPEED, "fig-4.7")):
        here = {judged.id: judged for judged in verdicts(claims_db, "measured", of[experiment])}
        assert here[decided].as_json() == every[decided].as_json()
        assert here[decided].finding.verdict == "holds here"
        assert here[other].machine is None
        assert "There is no measured run of" in here[other].finding.why


def test_an_unknown_platform_is_one_sentence_with_those_that_are_there(claims_url: URL) -> None:
    with pytest.raises(BadInput, match=r"^unknown platform 'nope'; valid: [^\n]*\.$"):
        verdicts(engine.open_reader(claims_url), platform="nope")


def test_claims_are_judged_alone_as_among_all(claims_db: Connection) -> None:
    set_world(claims_db, CLAIMS, CLAIMS.claims[SPEED], "fails")
    (alone,) = verdicts(claims_db, "measured", claims=[SPEED])
    (among,) = (judged for judged in verdicts(claims_db, "measured") if judged.id == SPEED)
    assert alone.as_json() == among.as_json()
    with pytest.raises(BadInput, match=r"^unknown claim 'nope'; valid: "):
        verdicts(claims_db, claims=["nope"])
