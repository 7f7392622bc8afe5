"""What a bundle consists of: the names of its members, and how large it may be."""

from __future__ import annotations

import re

FORMAT = "tmflow-bundle"
VERSION = 1
PLAIN = 0  # a zip of run files without a manifest, as people carried them before there were bundles

MANIFEST, PLATFORM, PROBE, CONFIG, CAMPAIGN = (
    "manifest.json", "platform.json", "probe.json", "config.yaml", "campaign.json",
)  # fmt: skip
SIGNATURE = "manifest.json.sig"  # of the manifest, which therefore does not list it
DOCUMENTS = (CAMPAIGN, PLATFORM, PROBE)  # those that are JSON, but for the manifest

# Of names in a bundle; their parts begin with no dot, so none leads out of it.
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

# More than any study of one machine is: a million runs are 12 GB, of 500 MB compressed, in some ten thousand members.
# JSON becomes objects of up to twenty times its size, so what is decoded at once is kept small.
MAX_FILE = GIB
MAX_MEMBERS = 60_000
MAX_NAME = 200
MAX_EXTRA = 512  # bytes of extra fields that a directory has of a member: times and owners, where a packer writes them
MAX_RUNS = 2_000_000
MAX_TOTAL = 24 * GIB
MAX_RUN_FILE = GIB
MAX_LINE = 8 * MIB  # a run of 1,024 threads has 2 MB
MAX_PARTS = 150_000  # lists and objects of a line or a document; of three bytes each, they are seventy in memory
MAX_FIELDS = 450_000  # colons of a line or a document; a wrong field takes half a kilobyte of memory
MAX_MANIFEST = 9 * MIB  # 150 bytes for each member
MAX_DOCUMENT = MIB
MAX_SIGNATURE = 16 * KIB  # the longest keys in use make less than a tenth of it
MAX_RATIO = 500  # of a member's bytes to its compressed ones; those of real runs are 30
MAX_LZMA_WINDOW = 16 * MIB  # what a decoder takes in memory


def is_known(name: str) -> bool:
    """Whether a bundle of this version may have a member of that name."""
    fixed = (MANIFEST, CONFIG, *DOCUMENTS)
    return len(name) <= MAX_NAME and (name in fixed or any(kind.fullmatch(name) for kind in (RUNS, LOGS)))


def is_run_file(name: str) -> bool:
    return name.endswith(".jsonl") and not name.startswith("logs/")


def largest(name: str) -> int:
    """How many bytes a member of that name may have."""
    if is_run_file(name):
        return MAX_RUN_FILE
    return {MANIFEST: MAX_MANIFEST, SIGNATURE: MAX_SIGNATURE}.get(name, MAX_DOCUMENT)
