"""Signatures of bundles: made with OpenSSH keys, and attributed by a list of allowed signers."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.bundle.zips import members_of, zipped
from tests.support.sample_bundles import sample_bundle, write_results
from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.bundle import format
from tmflow.bundle.problems import Report
from tmflow.bundle.verify import verify
from tmflow.bundle.writer import export
from tmflow.contributions.importer import InvalidBundle, import_bundle
from tmflow.store.run_filter import RunFilter

OWNER = "ada@example.org"


def new_key(folder: Path, name: str = "key", kind: str = "ed25519") -> Path:
    key = folder / name
    command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", OWNER, "-f", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return key


def allow(folder: Path, key: Path, options: str = "") -> Path:
    """A file of allowed signers that contains only the owner of this key."""
    path = folder / "allowed_signers"
    path.write_text(f"{OWNER} {options} {key.with_suffix('.pub').read_text()}")
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path)


def signed(folder: Path, key: Path | None) -> Path:
    write_results(folder / "results", sample_runs())
    return export(folder / "results", folder / "signed.zip", RunFilter(), None, key).path


def errors(report: Report) -> list[str]:
    return [problem.sentence for problem in report.problems if problem.severity == "error"]


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_signed_bundle_says_who_signed_it(tmp_path: Path, kind: str) -> None:
    key = new_key(tmp_path, kind=kind)
    report = verify(signed(tmp_path, key), allow(tmp_path, key))
    assert report.ok
    assert report.signature is not None
    assert report.signature.signer == OWNER
    printed = subprocess.run(["ssh-keygen", "-lf", str(key)], check=True, capture_output=True, text=True).stdout
    assert report.signature.key.split()[0] in printed
    assert report.as_json()["signature"] == {"key": report.signature.key, "signer": OWNER}


def test_a_signature_is_no_part_of_the_identity(tmp_path: Path, key: Path) -> None:
    assert verify(signed(tmp_path / "a", key)).identity == verify(signed(tmp_path / "b", None)).identity


def test_without_allowed_signers_the_key_is_shown_and_no_name(tmp_path: Path, key: Path) -> None:
    report = verify(signed(tmp_path, key))
    assert report.ok
    assert report.signature is not None
    assert report.signature.signer is None
    assert "whose owner is not checked" in report.signature.sentence


def test_an_unsigned_bundle_is_none_of_the_allowed_signers(tmp_path: Path, key: Path) -> None:
    bundle = sample_bundle(tmp_path)
    assert verify(bundle).ok
    report = verify(bundle, allow(tmp_path, key))
    assert errors(report) == ["manifest.json.sig: it is missing, but the allowed signers require one."]


def test_a_key_that_is_not_allowed_is_refused(tmp_path: Path, key: Path) -> None:
    report = verify(signed(tmp_path, new_key(tmp_path, "other")), allow(tmp_path, key))
    (error,) = errors(report)
    assert "is not of the allowed signers" in error
    assert report.signature is None


def test_a_key_that_is_allowed_for_something_else_is_refused(tmp_path: Path, key: Path) -> None:
    allowed = allow(tmp_path, key, 'namespaces="git"')
    assert not verify(signed(tmp_path, key), allowed).ok


def test_a_signature_of_another_bundle_is_refused(tmp_path: Path, key: Path) -> None:
    theirs = members_of(signed(tmp_path / "theirs", key))[format.SIGNATURE]
    write_results(tmp_path / "results", sample_runs(rounds=1))
    own = export(tmp_path / "results", tmp_path / "own.zip", RunFilter(), None, key).path
    forged = tmp_path / "forged.zip"
    with zipfile.ZipFile(own) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    forged.write_bytes(zipped({**members, format.SIGNATURE: theirs}))
    for allowed in (None, allow(tmp_path, key)):
        (error,) = errors(verify(forged, allowed))
        assert "the signature is not valid" in error


@pytest.mark.parametrize("text", [b"", b"-----BEGIN SSH SIGNATURE-----\n", b"\xff" * 1000, b"A" * (17 << 10)])
def test_what_is_no_signature_is_refused_in_a_sentence(tmp_path: Path, key: Path, text: bytes) -> None:
    bundle = signed(tmp_path, key)
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    bundle.write_bytes(zipped({**members, format.SIGNATURE: text}))
    report = verify(bundle)
    assert not report.ok
    assert len(errors(report)) == 1


def test_import_takes_only_what_an_allowed_signer_signed(tmp_path: Path, key: Path) -> None:
    url, allowed = make_url(f"sqlite:///{tmp_path / 'study.db'}"), allow(tmp_path, key)
    with pytest.raises(InvalidBundle, match="allowed signers"):
        import_bundle(url, sample_bundle(tmp_path), allowed_signers=allowed)
    assert import_bundle(url, signed(tmp_path, key), allowed_signers=allowed).runs_new == len(sample_runs())


@pytest.mark.parametrize("name", ["missing", "folder", "no-key"])
def test_a_key_that_cannot_sign_is_named_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    write_results(tmp_path / "results", sample_runs())
    (tmp_path / "folder").mkdir()
    (tmp_path / "no-key").write_text("no key")
    with pytest.raises(BadInput, match=rf"{name} (is not a file|cannot sign the bundle)"):
        export(tmp_path / "results", tmp_path / "bundle.zip", RunFilter(), None, tmp_path / name)
    assert not (tmp_path / "bundle.zip").exists()


def test_a_missing_file_of_allowed_signers_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nobody is not a file; --allowed-signers"):
        verify(sample_bundle(tmp_path), tmp_path / "nobody")


def test_without_ssh_keygen_a_signature_is_not_checked_and_said_so(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, allowed = signed(tmp_path, key), allow(tmp_path, key)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = verify(bundle)
    assert report.ok
    assert [problem.text for problem in report.problems if problem.member == format.SIGNATURE] == [
        "it is not checked, because ssh-keygen is not installed here."
    ]
    with pytest.raises(BadInput, match="ssh-keygen is missing"):
        verify(bundle, allowed)
