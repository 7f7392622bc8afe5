"""What the manifest of a stranger's bundle lists."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from tmflow.base.validation import first_of
from tmflow.bundle import format as layout
from tmflow.bundle.json_text import decoded
from tmflow.bundle.manifest import Entry, text
from tmflow.bundle.refused import Refused


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _File(_Closed):
    path: Annotated[str, Field(max_length=layout.MAX_NAME)]
    bytes: Annotated[int, Field(ge=0, le=layout.MAX_RUN_FILE)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Manifest(_Closed):
    format: Literal["tmflow-bundle"]
    version: Annotated[int, Field(ge=1)]
    files: Annotated[list[_File], Field(max_length=layout.MAX_MEMBERS), FailFast()]


def parse(data: bytes, where: str) -> tuple[Entry, ...]:
    """The members that a manifest lists. Raises Refused for one that is wrong, or spelt as `text` would not."""
    told = decoded(data, where)
    version = told.get("version")
    if told.get("format") == layout.FORMAT and type(version) is int and version > layout.VERSION:
        raise Refused(
            f"{where}: version {version} of bundles is newer than {layout.VERSION}, the newest that this tmflow reads; "
            "install a newer tmflow (git pull, then make setup)."
        )
    try:
        manifest = _Manifest.model_validate(told)
    except ValidationError as error:
        first = first_of(error)
        raise Refused(f"{where}: {'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}.") from error
    entries = tuple(Entry(file.path, file.bytes, file.sha256) for file in manifest.files)
    if text(entries) != data or len({entry.path for entry in entries}) != len(entries):
        raise Refused(f"{where} is not spelt as canonical JSON with its files in order, each once.")
    if (strange := next((entry.path for entry in entries if not layout.is_known(entry.path)), None)) is not None:
        raise Refused(f"{where} lists {strange!r}; {layout.ALLOWED}")
    if sum(entry.bytes for entry in entries) > layout.MAX_TOTAL:
        raise Refused(f"{where} lists more than {layout.MAX_TOTAL >> 30} GiB in all, which is the most allowed.")
    return entries
