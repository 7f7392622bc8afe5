"""The error of a file that is not a bundle that can be read."""

from __future__ import annotations

from tmflow.base.errors import BadInput


class Refused(BadInput):
    """A bundle, or a member of one, that is not looked at any further. The message is one sentence."""
