"""The format of a bundle: its members, manifest and limits, and the error for violations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import from_json

from tmflow.base.canonical_json import canonical_json
from tmflow.base.documents import first_of
from tmflow.base.errors import BadInput

FORMAT = "tmflow-bundle"
VERSION = 1
PLAIN = 0  # a zip of run files without a manifest, from before bundles existed

MANIFEST, PLATFORM, PROBE, CONFIG, CAMPAIGN = (
    "manifest.json", "platform.json", "probe.json", "config.yaml", "campaign.json",
)  # fmt: skip
SIGNATURE = "manifest.json.sig"  # signs the manifest, which therefore does not list it
DOCUMENTS = (CAMPAIGN, PLATFORM, PROBE)  # the JSON documents except the manifest

# Names in a bundle: no part begins with a dot, so no name leads outside.
_WORD = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
WORD = re.compile(_WORD, re.ASCII)
RUNS = re.compile(rf"runs/{_WORD}/[0-9a-f]{{12}}/round-\d{{3,6}}(\.[0-9a-f]{{8}})?\.jsonl", re.ASCII)
ALLOWED = (
    "allowed are manifest.json, manifest.json.sig, platform.json, probe.json, config.yaml, campaign.json, "
    "runs/<experiment>/<definition>/round-NNN.jsonl and logs/<name>."
)
LOGS = re.compile(rf"logs/({_WORD}/)*{_WORD}", re.ASCII)
PLAIN_RUNS = re.compile(rf"({_WORD}/)*{_WORD}\.jsonl", re.ASCII)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# Limits above any study of a single machine: a million runs are 12 GB (500 MB compressed) in ten thousand members.
# Decoded JSON takes up to twenty times its size in memory, so the units of decoding are small.
MAX_FILE = GIB
MAX_MEMBERS = 60_000
MAX_NAME = 200
MAX_EXTRA = 512  # bytes of extra fields per directory entry: times and owners, if the packer writes them
MAX_RUNS = 2_000_000
MAX_TOTAL = 24 * GIB
MAX_RUN_FILE = GIB
MAX_LINE = 8 * MIB  # a run of 1,024 threads has 2 MB
MAX_PARTS = 150_000  # lists and objects of a line or a document; each has three bytes or more, and seventy in memory
MAX_FIELDS = 450_000  # colons of a line or a document; a wrong field takes half a kilobyte of memory
MAX_MANIFEST = 9 * MIB  # 150 bytes for each member
MAX_DOCUMENT = MIB
MAX_SIGNATURE = 16 * KIB  # the longest keys in use make less than a tenth of it
MAX_RATIO = 500  # uncompressed over compressed size of a member; 30 for real runs
MAX_LZMA_WINDOW = 16 * MIB  # memory of a decoder


def is_allowed_name(name: str) -> bool:
    """Whether a bundle of this version may have a member with this name."""
    fixed = (MANIFEST, CONFIG, *DOCUMENTS)
    return len(name) <= MAX_NAME and (name in fixed or any(kind.fullmatch(name) for kind in (RUNS, LOGS)))


def is_run_file(name: str) -> bool:
    return name.endswith(".jsonl") and not name.startswith("logs/")


def max_bytes(name: str) -> int:
    """The largest size in bytes of a member with this name."""
    if is_run_file(name):
        return MAX_RUN_FILE
    return {MANIFEST: MAX_MANIFEST, SIGNATURE: MAX_SIGNATURE}.get(name, MAX_DOCUMENT)


def require_few_parts(text: str, where: str) -> None:
    """Raise Refused if there are so many lists, objects or fields that they, or their errors, could exhaust memory."""
    if len(text) <= MAX_PARTS:
        return
    n = text.count("[") + text.count("{")
    if n > MAX_PARTS:
        raise Refused(f"{where} has {n} lists and objects; the most allowed is {MAX_PARTS}.")
    if (n := text.count(":")) > MAX_FIELDS:
        raise Refused(f"{where} has {n} fields, or colons; the most allowed is {MAX_FIELDS}.")


def decode_object(data: bytes, where: str) -> dict[str, Any]:
    """Decode a JSON document to an object. Raises Refused if it is not JSON, or not an object."""
    try:
        text = data.decode()
        require_few_parts(text, where)
        value = from_json(text, allow_inf_nan=False)  # bounds the depth, and the digits of a number
        canonical_json(value)  # 1e400 is read as infinite
    except ValueError as error:
        raise Refused(f"{where} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Refused(f"{where} is not a JSON object.")
    return value


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _File(_Closed):
    path: Annotated[str, Field(max_length=MAX_NAME)]
    bytes: Annotated[int, Field(ge=0, le=MAX_RUN_FILE)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Manifest(_Closed):
    format: Literal["tmflow-bundle"]
    version: Annotated[int, Field(ge=1)]
    files: Annotated[list[_File], Field(max_length=MAX_MEMBERS), FailFast()]


def parse(data: bytes, where: str) -> tuple[Entry, ...]:
    """Parse the entries of a manifest. Raises Refused if it is wrong, or not serialised as by `text`."""
    value = decode_object(data, where)
    version = value.get("version")
    if value.get("format") == FORMAT and type(version) is int and version > VERSION:
        raise Refused(
            f"{where}: version {version} of bundles is newer than {VERSION}, the newest that this tmflow reads; "
            "install a newer tmflow (git pull, then make setup)."
        )
    try:
        manifest = _Manifest.model_validate(value)
    except ValidationError as error:
        first = first_of(error)
        raise Refused(f"{where}: {'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}.") from error
    entries = tuple(Entry(file.path, file.bytes, file.sha256) for file in manifest.files)
    if text(entries) != data or len({entry.path for entry in entries}) != len(entries):
        raise Refused(f"{where} is not canonical JSON with its files in order, each once.")
    if (strange := next((entry.path for entry in entries if not is_allowed_name(entry.path)), None)) is not None:
        raise Refused(f"{where} lists {strange!r}; {ALLOWED}")
    if sum(entry.bytes for entry in entries) > MAX_TOTAL:
        raise Refused(f"{where} lists more than {MAX_TOTAL >> 30} GiB in all, which is the most allowed.")
    return entries


class Entry(NamedTuple):
    """An entry of the manifest: a member with its size and hash."""

    path: str
    bytes: int
    sha256: str


def text(entries: Sequence[Entry], version: int = VERSION) -> bytes:
    """Serialise a manifest canonically: bundles with equal content have equal manifests."""
    files = [entry._asdict() for entry in sorted(entries)]
    return canonical_json({"files": files, "format": FORMAT, "version": version}).encode()


def identity(data: bytes) -> str:
    """The identity of a bundle: the hex SHA-256 of its manifest."""
    return hashlib.sha256(data).hexdigest()


class Refused(BadInput):
    """A bundle, or a member, that is rejected without further checks. The message is one sentence."""
