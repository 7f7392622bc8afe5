"""Invalid or harmful files are refused with one sentence each; no exception escapes."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from tests.bundle.zips import Members, bundled, members_of, zipped
from tests.support.raw_zips import Entry, zip_file
from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.base.canonical_json import canonical_json
from tmflow.bundle import format
from tmflow.bundle.verify import verify

RUNS = "runs/fig_4_1/"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Members:
    """The members of a valid bundle."""
    return members_of(sample_bundle(tmp_path_factory.mktemp("good"), sample_runs(threads=(1, 2), rounds=2)))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The path for the bundle of a test."""
    return tmp_path / "bundle.zip"


def refusal(path: Path, data: bytes) -> str:
    """Check the bytes as a bundle; return its errors, and require that there are no other problems."""
    path.write_bytes(data)
    (problem,) = verify(path).problems
    assert problem.severity == "error"
    return problem.sentence


def run_file(members: Members) -> str:
    return next(name for name in members if name.startswith("runs/"))


def test_the_good_one_is_good(good: Members, bundle: Path) -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        bundle.write_bytes(bundled(good, compression))
        assert verify(bundle).problems == []


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("size", [0, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, (1 << 16) + 100, (1 << 17) + 1])
def test_members_of_every_size(good: Members, bundle: Path, size: int, compression: int) -> None:
    bundle.write_bytes(bundled(good | {"logs/x": bytes(size)}, compression))  # they are decompressed 64 KiB at a time
    assert verify(bundle).problems == []


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../up.jsonl", "runs/../../up.jsonl", "runs\\up.jsonl", "C:up.jsonl", ".hidden", "logs//x",
     "logs/..", "runs/fig/0123456789ab/round-1.jsonl", "nested.zip", "manifest.json.bak", "logs/\u00e9"],
)  # fmt: skip
def test_names(good: Members, bundle: Path, name: str) -> None:
    assert "allowed are manifest.json, manifest.json.sig, platform.json," in refusal(
        bundle, bundled({**good, name: b"{}"})
    )
    assert "allowed are manifest.json" in refusal(bundle, with_manifest_of(good, {**good, name: b"{}"}))


def with_manifest_of(listed: Members, inside: Members) -> bytes:
    """A bundle whose manifest lists members that differ from those inside."""
    with zipfile.ZipFile(io.BytesIO(bundled(listed))) as archive:
        return zipped({**inside, format.MANIFEST: archive.read(format.MANIFEST)})


def test_members_that_the_manifest_lacks_or_that_lack(good: Members, bundle: Path) -> None:
    without = {name: data for name, data in good.items() if name != run_file(good)}
    assert "which its manifest does not list" in refusal(bundle, with_manifest_of(without, good))
    assert "which its manifest lists" in refusal(bundle, with_manifest_of(good, without))


def test_a_member_without_a_name(good: Members, bundle: Path) -> None:
    """The member, and everything else that the manifest lists or lacks, is reported."""
    without = {name: data for name, data in good.items() if name != format.PLATFORM}
    unnamed = {**good, "": b"{}"}
    for listed in (good, without, unnamed):
        assert "has a member without a name" in refusal(bundle, with_manifest_of(listed, unnamed))
    for inside in (good, without):
        assert "lists ''; allowed are" in refusal(bundle, with_manifest_of(unnamed, inside))
    assert "has a member without a name" in refusal(bundle, zipped({"": b"{}"}))


def test_a_list_without_the_platform(good: Members, bundle: Path) -> None:
    without = {name: data for name, data in good.items() if name != format.PLATFORM}
    assert "'platform.json', which its manifest does not list" in refusal(bundle, with_manifest_of(without, good))
    assert "lacks 'platform.json', which its manifest lists" in refusal(bundle, with_manifest_of(good, without))
    (said,) = [text for text in refusals(bundle, bundled(without)) if text.startswith(format.PLATFORM)]
    assert "it is missing" in said


def test_names_and_extra_fields_have_greatest_lengths(good: Members, bundle: Path) -> None:
    def of(name: int, extra: int) -> bytes:
        return zip_file([Entry(b"x" * name, b""), Entry(b"y", b"", central={"extra": bytes(extra)})])

    for name, extra in ((format.MAX_NAME + 1, 0), (1, format.MAX_EXTRA + 1)):
        assert "of extra fields; the most allowed are 200 and 512" in refusal(bundle, of(name, extra))
    assert "no manifest.json" in refusal(bundle, of(format.MAX_NAME, format.MAX_EXTRA))
    assert "has a directory of" in refusal(bundle, of(format.MAX_NAME, 2000))


def test_other_content_than_the_manifest_says(good: Members, bundle: Path) -> None:
    name = run_file(good)
    other = good[name].replace(b'"round": 1', b'"round": 2')
    said = refusals(bundle, with_manifest_of(good, {**good, name: other}))
    assert any("is not the file that the manifest lists" in text for text in said)
    assert any("is not the file" in t for t in refusals(bundle, with_manifest_of(good, {**good, name: good[name] * 2})))


def refusals(path: Path, data: bytes) -> list[str]:
    path.write_bytes(data)
    found = verify(path)
    assert not found.ok
    return [problem.sentence for problem in found.problems]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_names(good: Members, bundle: Path) -> None:
    data = io.BytesIO(bundled(good))
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr(format.PLATFORM, b"{}")
    assert "two members named 'platform.json'" in refusal(bundle, data.getvalue())


@pytest.mark.parametrize("mode", [0o120777, 0o060644, 0o010644, 0o020644, 0o140644])
def test_links_and_devices(good: Members, bundle: Path, mode: int) -> None:
    data = io.BytesIO(bundled(good))
    link = zipfile.ZipInfo("logs/link")
    link.create_system, link.external_attr = 3, mode << 16
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr(link, b"/etc/passwd")
    assert "is a link or another special file" in refusal(bundle, data.getvalue())


def patched(data: bytes, name: str, at: dict[int, bytes], at_local: dict[int, bytes] | None = None) -> bytes:
    """The zip file with bytes replaced in a member's directory entry and in its local header."""
    changed = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        header = archive.getinfo(name).header_offset
    entry = data.rindex(name.encode()) - 46
    for base, replaced in ((entry, at), (header, at_local or {})):
        for offset, new in replaced.items():
            changed[base + offset : base + offset + len(new)] = new
    return bytes(changed)


FLAGS, METHOD, CRC, PACKED, SIZE = 8, 10, 16, 20, 24  # in the directory; two bytes earlier in the local header


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (FLAGS, struct.pack("<H", 1), "is encrypted"),
        (FLAGS, struct.pack("<H", 64), "is encrypted"),
        (METHOD, struct.pack("<H", 12), "is compressed by method 12; allowed: stored"),
        (METHOD, struct.pack("<H", 99), "is compressed by method 99"),
        (SIZE, struct.pack("<L", 2**32 - 1), "says it has 4294967295 bytes; the most allowed is"),
        (SIZE, struct.pack("<L", 10), "is larger than the 10 bytes that its zip file says"),
        (SIZE, struct.pack("<L", 2000), "bytes, but its zip file says 2000"),
    ],
)
def test_headers(good: Members, bundle: Path, field: int, value: bytes, said: str) -> None:
    data = bundled(good)
    errors_found = refusals(bundle, patched(data, format.PLATFORM, {field: value}, {field - 2: value}))
    assert said in errors_found[0]
    assert "the directory and the header of member 'platform.json' disagree" in refusal(
        bundle, patched(data, format.PLATFORM, {field: value})
    )


def test_names_that_disagree_or_are_no_text(good: Members, bundle: Path) -> None:
    data = bundled(good)
    other = patched(data, format.PLATFORM, {46: b"Platform.json"})
    assert "disagree" in refusal(bundle, other)
    wrong = patched(data, format.PLATFORM, {46: b"\xff\xfe"}, {30: b"\xff\xfe"})
    assert "of a member is not UTF-8" in refusal(bundle, wrong)


@pytest.mark.parametrize("left", [0, 1, 21, 22, 1000, -1, -22, -30])
def test_cut_off(good: Members, bundle: Path, left: int) -> None:
    refusal(bundle, bundled(good)[:left])


def test_hidden_bytes(good: Members, bundle: Path) -> None:
    data = bundled(good)
    commented = io.BytesIO(data)
    with zipfile.ZipFile(commented, "a") as archive:
        archive.comment = b"hello"
    assert "ends in a comment" in refusal(bundle, commented.getvalue())
    assert "does not end where its end begins" in refusal(bundle, b"#!/bin/sh\n" + data)
    gap = data.index(b"PK\1\2")
    hidden = bytearray(data[:gap] + b"hidden" + data[gap:])
    assert "does not end where its end begins" in refusal(bundle, hidden)
    hidden[-6:-2] = struct.pack("<L", gap + len(b"hidden"))  # start of the directory
    assert "6 bytes before its directory belong to no member" in refusal(bundle, hidden)


def test_a_directory_that_readers_would_look_for_elsewhere(good: Members, bundle: Path) -> None:
    """The last bytes of the directory, here of an extra field, look like the locator of a ZIP64 directory."""
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    extra = struct.pack("<2H", 0x7ACC, len(locator)) + locator
    data = zip_file(
        [*(Entry(name.encode(), text) for name, text in good.items()), Entry(b"z", b"", central={"extra": extra})]
    )
    assert "its directory contains more than its entries" in refusal(bundle, data)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_another_number_of_members_than_the_end_says(bundle: Path, n: int) -> None:
    data = zip_file([Entry(b"a.jsonl", b""), Entry(b"b.jsonl", b"")], end={"here": n, "all": n})
    assert "members" in refusal(bundle, data) if n == 0 else f"and its end says {n}" in refusal(bundle, data)


def test_members_that_share_their_bytes(good: Members, bundle: Path) -> None:
    """As in a bomb of overlapping members: all directory entries point to the first member."""
    data = bundled(good)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
    assert "starts at byte 0, where byte" in refusal(bundle, patched(data, names[-1], {42: struct.pack("<L", 0)}))


def test_bombs(good: Members, bundle: Path) -> None:
    name, other = run_file(good), "logs/zeros"
    bomb = bundled({**good, name: bytes(64 * format.MIB)}, zipfile.ZIP_DEFLATED)
    assert "says it grows more than 500 times" in refusal(bundle, bomb)
    bomb = bundled({**good, other: bytes(2 * format.MIB)})
    assert "says it has 2097152 bytes; the most allowed is 1048576" in refusal(bundle, bomb)
    # A member that is larger than its header says is not decompressed beyond that size.
    small = patched(bomb := bundled({**good, other: bytes(format.MIB)}, zipfile.ZIP_DEFLATED), other,
                    {SIZE: struct.pack("<L", 1000)}, {SIZE - 2: struct.pack("<L", 1000)})  # fmt: skip
    assert len(small) == len(bomb)
    assert any("is larger than the 1000 bytes" in text for text in refusals(bundle, small))


def test_window_of_lzma_that_takes_all_memory(good: Members, bundle: Path) -> None:
    data = bytearray(bundled({format.PLATFORM: good[format.PLATFORM]}, zipfile.ZIP_LZMA))
    window = data.index(format.PLATFORM.encode()) + len(format.PLATFORM) + 5
    data[window : window + 4] = b"\xff\xff\xff\xff"
    assert any("needs a window of 4294967295 bytes" in text for text in refusals(bundle, bytes(data)))


def test_bytes_behind_the_end_of_what_was_packed(good: Members, bundle: Path) -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    text = good[format.PLATFORM]
    packed = packer.compress(text) + packer.flush() + b"hidden"
    data = bundled({**good, format.PLATFORM: text, "logs/a": packed})
    method = struct.pack("<H", 8)
    errors_found = refusals(bundle, patched(data, "logs/a", {METHOD: method}, {METHOD - 2: method}))
    assert any("something follows its end" in sentence or "its zip file says" in sentence for sentence in errors_found)


@pytest.mark.parametrize("data", [b"", b"hello", bytes(100), b"PK\5\6" + bytes(18)])
def test_no_bundle_at_all(bundle: Path, data: bytes) -> None:
    refusal(bundle, data)


@pytest.mark.parametrize(
    ("name", "says"),
    [("none.zip", "cannot be read: No such file or directory."), ("", "is a folder; a bundle is a single zip file.")],
)
def test_file_that_is_not_there_and_folder(tmp_path: Path, name: str, says: str) -> None:
    (problem,) = verify(tmp_path / name).problems
    assert says in problem.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[]", "is not a JSON object"),
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b'{"a":' * 5000, "is not JSON: recursion limit exceeded"),
        (b'{"files":[],"format":"tmflow-bundle","version":1e400}', "is not JSON"),
        (b'{"files":[],"format":"tmflow-bundle","version":NaN}', "is not JSON"),
        (b'{"files":[],"format":"other","version":1}', "format: Input should be 'tmflow-bundle'"),
        (b'{"files":[],"format":"tmflow-bundle","version":0}', "version: Input should be greater"),
        (b'{"files":[],"format":"tmflow-bundle","version":true}', "version: Input should be a valid integer"),
        (b'{"files":[],"format":"tmflow-bundle","version":1,"more":1}', "more: Extra inputs"),
        (b'{"format":"tmflow-bundle","version":1,"files":[]}', "is not canonical JSON"),
        (b'{"files": [],"format":"tmflow-bundle","version":1}', "is not canonical JSON"),
        (
            b'{"files":[{"bytes":18446744073709551616,"path":"a","sha256":""}],"format":"tmflow-bundle","version":1}',
            "files.0.bytes: Input should be less than",
        ),
        (b'{"files":[],"format":"tmflow-bundle","version":2}', "version 2 of bundles is newer than 1, the newest that"),
    ],
)
def test_manifests(good: Members, bundle: Path, text: bytes, said: str) -> None:
    assert said in refusal(bundle, zipped({**good, format.MANIFEST: text}))


def test_manifest_with_a_name_twice(good: Members, bundle: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(bundled(good))) as archive:
        listed = json.loads(archive.read(format.MANIFEST))
    listed["files"].append(listed["files"][-1])
    data = zipped({**good, format.MANIFEST: canonical_json(listed).encode()})
    assert "each once" in refusal(bundle, data)


def test_zip_of_run_files_alone_is_read_as_the_oldest_version(good: Members, bundle: Path) -> None:
    bundle.write_bytes(zipped({name.removeprefix("runs/"): data for name, data in good.items() if "runs/" in name}))
    found = verify(bundle)
    assert found.version == 0
    assert found.ok
    assert found.runs == len(sample_runs(threads=(1, 2), rounds=2))
    assert "should be a zip of run files (*.jsonl) alone" in refusal(bundle, zipped(good))
    assert "and it has nothing in it" in refusal(bundle, zipped({}))


def test_damaged_zip_of_run_files(good: Members, bundle: Path) -> None:
    name = run_file(good)
    data = bytearray(zipped({name: good[name]}))
    data[1000] ^= 1
    assert "is damaged: its CRC-32 is" in refusal(bundle, bytes(data))


def test_any_damage_is_told(good: Members, bundle: Path) -> None:
    """Bits are flipped, and parts removed, duplicated or swapped anywhere: no traceback, and no acceptance as valid."""
    rng = random.Random(7)
    originals = [bundled(good, compression) for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)]
    bundle.write_bytes(originals[0])
    identity = verify(bundle).identity
    for number in range(300):
        data = bytearray(originals[number % 2])
        at, n = rng.randrange(len(data)), rng.randrange(1, 200)
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + n]
            case 2:
                data[at:at] = data[at : at + n] or b"x"
            case 3:
                data[at : at + n] = rng.randbytes(len(data[at : at + n]))
        bundle.write_bytes(data)
        found = verify(bundle)
        assert not found.ok or found.identity == identity, number  # where only a date was changed
