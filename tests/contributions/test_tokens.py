"""Tokens: who is admitted, and how many attempts are allowed."""

from __future__ import annotations

import os

import pytest
from staged import ADDRESS, Clock, done

from tmflow.base.errors import BadInput
from tmflow.contributions import access, staging
from tmflow.contributions import access as rates
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine

UPLOAD, MAINTAINER = "an-upload-token-of-25-bytes", "a-maintainers-token-är"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Role.UPLOADER, UPLOAD)
    monkeypatch.setenv(Role.MAINTAINER, MAINTAINER)


def test_each_token_opens_its_own_door_alone(quarantine: Quarantine) -> None:
    access.check_token(quarantine, Role.UPLOADER, UPLOAD, ADDRESS)
    access.check_token(quarantine, Role.MAINTAINER, MAINTAINER, ADDRESS)
    for role, wrong in ((Role.UPLOADER, MAINTAINER), (Role.MAINTAINER, UPLOAD), (Role.UPLOADER, "\ud800")):
        with pytest.raises(BadInput, match="not the token"):
            access.check_token(quarantine, role, wrong, ADDRESS)
    assert [outcome for _, outcome, _ in done(quarantine)] == ["right", "right", "wrong", "wrong", "wrong"]


@pytest.mark.parametrize("token", ["", "   "])
def test_without_a_token_it_is_off_whatever_is_given(
    quarantine: Quarantine, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv(Role.UPLOADER, token)
    assert not access.is_on(Role.UPLOADER)
    assert access.token_problem(Role.UPLOADER) is None
    for given in ("", token):
        with pytest.raises(BadInput, match="not the token"):
            access.check_token(quarantine, Role.UPLOADER, given, ADDRESS)


def test_a_token_that_is_easily_guessed_is_not_used(quarantine: Quarantine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Role.UPLOADER, "x" * 15)
    assert access.token_problem(Role.UPLOADER) == (
        "TMFLOW_UPLOAD_TOKEN has 15 bytes, and at least 16 are needed: uploads are off."
    )
    with pytest.raises(BadInput, match="not the token"):
        access.check_token(quarantine, Role.UPLOADER, "x" * 15, ADDRESS)
    monkeypatch.setenv(Role.UPLOADER, "x" * 16)
    assert access.is_on(Role.UPLOADER)


def test_who_uploads_must_not_be_able_to_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Role.MAINTAINER, UPLOAD)
    assert "is the same as TMFLOW_UPLOAD_TOKEN" in (access.token_problem(Role.MAINTAINER) or "")
    assert not access.is_on(Role.MAINTAINER)
    assert access.is_on(Role.UPLOADER)


def guess(quarantine: Quarantine, by: str) -> str:
    with pytest.raises(BadInput) as refused:
        access.check_token(quarantine, Role.UPLOADER, "a guess", by)
    return str(refused.value)


def test_after_a_few_wrong_tokens_not_even_the_right_one_passes(quarantine: Quarantine, clock: Clock) -> None:
    for _ in range(rates.WRONG_TOKENS.of_one):
        assert "not the token" in guess(quarantine, ADDRESS)
    for _ in range(3):
        with pytest.raises(BadInput, match=r"too many wrong tokens from 192\.0\.2\.1: at most 5 in 15 minutes"):
            access.check_token(quarantine, Role.UPLOADER, UPLOAD, ADDRESS)
    access.check_token(quarantine, Role.UPLOADER, UPLOAD, "192.0.2.2")  # another visitor
    clock.forward(minutes=15, seconds=1)
    access.check_token(quarantine, Role.UPLOADER, UPLOAD, ADDRESS)
    limited = [entry for entry in done(quarantine) if entry[0] == "limit"]
    assert limited == [("limit", "wrong tokens", ADDRESS)]  # once, however many attempts there were


def test_many_addresses_guess_no_more_than_all_together_may(quarantine: Quarantine, clock: Clock) -> None:
    for number in range(rates.WRONG_TOKENS.of_all):
        assert "not the token" in guess(quarantine, f"192.0.2.{number}")
    for number in range(100, 110):
        assert "too many wrong tokens in all: at most 50" in guess(quarantine, f"192.0.2.{number}")
    assert len(done(quarantine)) == rates.WRONG_TOKENS.of_all + 1  # further attempts do not fill the disk
    clock.forward(minutes=16)
    assert "not the token" in guess(quarantine, ADDRESS)


def test_uploads_are_counted_when_they_begin(quarantine: Quarantine, clock: Clock) -> None:
    for _ in range(rates.UPLOADS.of_one):
        staging.receive(quarantine, ADDRESS, "a.zip", 1)
    with pytest.raises(BadInput, match=r"too many uploads from 192\.0\.2\.1: at most 10 in 60 minutes"):
        staging.receive(quarantine, ADDRESS, "a.zip", 1)
    staging.receive(quarantine, "192.0.2.2", "a.zip", 1)
    clock.forward(minutes=61)
    staging.receive(quarantine, ADDRESS, "a.zip", 1)


def test_a_restart_forgives_nothing(quarantine: Quarantine, clock: Clock) -> None:
    for _ in range(rates.WRONG_TOKENS.of_one):
        guess(quarantine, ADDRESS)
    assert "too many" in guess(Quarantine(quarantine.folder, now=clock), ADDRESS)


def test_all_who_come_at_once_are_written_down(quarantine: Quarantine) -> None:
    """Each is a process, as with several portals; the first creates the tables."""
    children = []
    for number in range(16):
        if (child := os.fork()) == 0:
            code = 1
            try:
                access.check_token(quarantine, Role.UPLOADER, UPLOAD, f"192.0.2.{number}")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 16
    assert sorted(by for _, _, by in done(quarantine)) == sorted(f"192.0.2.{number}" for number in range(16))
