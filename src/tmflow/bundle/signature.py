"""Signatures of bundles: OpenSSH signatures of the manifest, created and verified by `ssh-keygen -Y`.

The manifest has the hashes of all members, so a signature of the manifest covers every byte of the runs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tmflow.base.errors import BadInput
from tmflow.bundle.format import Refused

NAMESPACE = "tmflow-bundle"  # a signature for another purpose is none of a bundle
_KEY = re.compile(r"with (?P<type>[A-Z0-9-]+) key (?P<fingerprint>SHA256:[A-Za-z0-9+/]{43})")
_TOOL = "ssh-keygen"
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Signature:
    """A valid signature. signer: the key's name among the allowed signers; None if none were given."""

    key: str
    signer: str | None

    @property
    def sentence(self) -> str:
        """Name the signer, or the key if the owner was not checked."""
        if self.signer is None:
            return f"signed with the key {self.key}, whose owner is not checked (use --allowed-signers)"
        return f"signed by {self.signer} with the key {self.key}"


def sign(manifest: bytes, key: Path) -> bytes:
    """Sign a manifest with an OpenSSH private key, or with a public key whose private key an agent holds.

    ssh-keygen asks for a passphrase on the terminal. Raises BadInput if the key cannot sign or ssh-keygen is missing.
    """
    if not key.is_file():
        raise BadInput(f"{key} is not a file; --sign takes an OpenSSH key, such as ~/.ssh/id_ed25519.")
    with tempfile.TemporaryDirectory() as folder:
        message = Path(folder) / "manifest"
        message.write_bytes(manifest)
        done = subprocess.run(
            [_ssh_keygen(), "-q", "-Y", "sign", "-f", key.absolute(), "-n", NAMESPACE, message],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            raise BadInput(f"{key} cannot sign the bundle: ssh-keygen says {_last_line(done.stderr)!r}.")
        return message.with_suffix(".sig").read_bytes()


def check(manifest: bytes, signature: bytes, allowed_signers: Path | None) -> Signature:
    """Verify the signature of a manifest and, if `allowed_signers` is given, its signer.

    allowed_signers: a file in the format ALLOWED SIGNERS of ssh-keygen(1). Raises Refused if the signature is invalid
    or by another signer, BadInput if the file or ssh-keygen is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        valid = _call("check-novalidate", "-n", NAMESPACE, "-s", file, message=manifest)
        key = _KEY.search(valid.stdout.decode(errors="replace"))
        if valid.returncode != 0 or key is None:
            raise Refused("the signature is not valid: it is not one of this manifest, or it is damaged.")
        fingerprint = f"{key['fingerprint']} ({key['type']})"
        if allowed_signers is None:
            return Signature(fingerprint, None)
        return Signature(fingerprint, _signer(manifest, file, fingerprint, allowed_signers))


def can_check() -> bool:
    """Whether ssh-keygen is installed."""
    return shutil.which(_TOOL) is not None


def require_allowed_signers(allowed_signers: Path | None) -> None:
    """Raise BadInput if a file of allowed signers is given and missing."""
    if allowed_signers is not None and not allowed_signers.is_file():
        raise BadInput(
            f"{allowed_signers} is not a file; --allowed-signers takes a file in the format ALLOWED SIGNERS of "
            "ssh-keygen(1)."
        )


def _signer(manifest: bytes, signature: Path, fingerprint: str, allowed_signers: Path) -> str:
    """The first name of the key among the allowed signers for which the signature verifies."""
    file = ("-f", allowed_signers.absolute())
    names = _call("find-principals", *file, "-s", signature).stdout.decode(errors="replace").splitlines()
    for name in names:
        verify = ("verify", *file, "-I", name, "-n", NAMESPACE, "-s", signature)
        if _call(*verify, message=manifest).returncode == 0:
            return name
    raise Refused(f"it is signed with the key {fingerprint}, which is not of the allowed signers in {allowed_signers}.")


def _call(*arguments: str | Path, message: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [_ssh_keygen(), "-Y", *arguments]
    return subprocess.run(command, input=message, capture_output=True, check=False, timeout=_TIMEOUT_S)


def _ssh_keygen() -> str:
    tool = shutil.which(_TOOL)
    if tool is None:
        raise BadInput(f"{_TOOL} is missing, and signatures need it; on Debian and Ubuntu: apt install openssh-client.")
    return tool


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"
