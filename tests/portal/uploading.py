"""Helpers of the upload tests: tokens, and how to enter them and press buttons."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import TextInput

from tmflow.contributions import quarantine as listed
from tmflow.contributions import quarantine as place
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine

UPLOAD_TOKEN, MAINTAINER_TOKEN = "a-token-for-uploads", "a-token-for-maintainers"


def quarantine_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Quarantine:
    """The quarantine of a portal with both tokens."""
    monkeypatch.setenv(place.VARIABLE, str(folder / "quarantine"))
    monkeypatch.setenv(Role.UPLOADER, UPLOAD_TOKEN)
    monkeypatch.setenv(Role.MAINTAINER, MAINTAINER_TOKEN)
    return Quarantine(folder / "quarantine")


def asked(app: AppTest) -> list[TextInput]:
    """The input of a token."""
    return [field for field in app.text_input if "token" in field.label]


def give(app: AppTest, token: str) -> AppTest:
    asked(app)[0].set_value(token)
    return click(app, "Go on")


def click(app: AppTest, label: str) -> AppTest:
    """Press the first button whose label begins with this text."""
    next(button for button in app.button if button.label.startswith(label)).click().run(timeout=60)
    assert not app.exception, app.exception
    return app


def actions(quarantine: Quarantine) -> list[tuple[str, str]]:
    """Action and outcome of each audit entry."""
    return [(row["action"], row["outcome"]) for row in listed.audit(quarantine, 1000)]
