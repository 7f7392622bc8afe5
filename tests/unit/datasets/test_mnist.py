"""Finding, downloading and verifying MNIST: with a small stand-in of the same format, and the real one if available."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import math
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from idx_bytes import encoded

from tmflow import datasets
from tmflow.base.errors import BadInput
from tmflow.datasets import mnist, mnist_files
from tmflow.datasets.dataset import truncate
from tmflow.datasets.download import NotAvailable, download
from tmflow.datasets.mnist_files import Catalogue, IdxFile

ROLES = ("train_images", "train_labels", "test_images", "test_labels")


def zipped(content: bytes) -> bytes:
    """Gzipped without compression, so that the length does not depend on the content."""
    return gzip.compress(content, compresslevel=0)


def contents() -> dict[str, bytes]:
    """A stand-in for the four files: 5,004 training and 6 test images of 2 x 2 pixels."""
    rng = np.random.default_rng(7)
    arrays = {}
    for part, items in (("train", 5_004), ("test", 6)):
        arrays[f"{part}_images"] = rng.integers(0, 256, (items, 2, 2), dtype=np.uint8)
        arrays[f"{part}_labels"] = rng.integers(0, 10, items, dtype=np.uint8)
    return {role: encoded(arrays[role]) for role in ROLES}


def stand_in(*mirrors: str) -> Catalogue:
    def entry(role: str, content: bytes) -> IdxFile:
        items, shape = (5_004 if "train" in role else 6), ((2, 2) if "images" in role else ())
        return IdxFile(f"{role}-idx", items, shape, len(content), hashlib.sha256(content).hexdigest())

    return Catalogue(mirrors, {role: entry(role, content) for role, content in contents().items()})


def store(folder: Path, roles: tuple[str, ...] = ROLES, suffix: str = ".gz") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for role in roles:
        content = contents()[role]
        (folder / f"{role}-idx{suffix}").write_bytes(zipped(content) if suffix else content)


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without data, user folder or network access; returns its data/mnist."""
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "pyproject.toml").touch()
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path / "checkout"))
    monkeypatch.setenv("TMFLOW_MNIST_MIRRORS", "")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("TMFLOW_DATA_DIR", raising=False)
    return tmp_path / "checkout" / "data" / "mnist"


Alter = Callable[[str, bytes], bytes]


class Mirror(http.server.ThreadingHTTPServer):
    """A mirror on the loopback interface; `alter` (path, body) may damage responses, `requests` lists the requests."""

    def __init__(self, alter: Alter = lambda path, body: body) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.alter, self.requests = alter, list[str]()
        self.bodies = {f"/{role}-idx.gz": zipped(content) for role, content in contents().items()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Answers(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        body = self.server.bodies.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(self.server.alter(self.path, body))

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def serve() -> Iterator[Callable[..., Mirror]]:
    servers: list[Mirror] = []

    def start(*args: Alter) -> Mirror:
        servers.append(Mirror(*args))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def closed_port() -> str:
    """The address of a mirror that is down: a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


def spoil(role: str, change: Callable[[bytes], bytes]) -> Alter:
    return lambda path, body: change(body) if role in path else body


def altered(body: bytes) -> bytes:
    """A valid gzip file of the same length whose last pixel or label differs."""
    content = bytearray(gzip.decompress(body))
    content[-1] ^= 1
    return zipped(bytes(content))


# --- the catalogue ---------------------------------------------------------------------------------------------------


def test_the_catalogue_is_consistent() -> None:
    files = mnist_files.catalogue().files
    assert tuple(files) == ROLES
    for file in files.values():
        dimensions = 1 + len(file.shape)
        assert file.content_bytes == 4 + 4 * dimensions + file.items * math.prod(file.shape)
    assert [file.items for file in files.values()] == [60_000, 60_000, 10_000, 10_000]


def test_the_mirrors_can_be_replaced_and_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_MNIST_MIRRORS", "http://one/ http://two/")
    assert mnist_files.catalogue().mirrors == ("http://one/", "http://two/")
    monkeypatch.setenv("TMFLOW_MNIST_MIRRORS", "")
    assert mnist_files.catalogue().mirrors == ()
    monkeypatch.delenv("TMFLOW_MNIST_MIRRORS")
    assert len(mnist_files.catalogue().mirrors) == 3


# --- finding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["", "mnist"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_finds_and_loads_from_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, suffix: str
) -> None:
    store(tmp_path / "mine" / inside, suffix=suffix)
    monkeypatch.setenv("TMFLOW_DATA_DIR", str(tmp_path / "mine"))
    folder = mnist.find(stand_in())
    assert folder == tmp_path / "mine" / inside
    assert mnist.load(folder, stand_in()).test_images.shape == (6, 4)


def test_the_users_folder_comes_before_the_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_machine: Path
) -> None:
    assert mnist.find(stand_in()) is None
    store(empty_machine)
    assert mnist.find(stand_in()) == empty_machine
    monkeypatch.setenv("TMFLOW_DATA_DIR", str(tmp_path / "mine"))
    assert mnist.find(stand_in()) == empty_machine
    store(tmp_path / "mine")
    assert mnist.find(stand_in()) == tmp_path / "mine"


def test_a_users_folder_with_a_part_of_mnist_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path, ROLES[:3])
    monkeypatch.setenv("TMFLOW_DATA_DIR", str(tmp_path))
    with pytest.raises(BadInput, match="only a part of MNIST: test_labels-idx"):
        mnist.find(stand_in())


def test_a_users_folder_that_cannot_be_searched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_DATA_DIR", "x" * 300)
    with pytest.raises(BadInput, match="cannot be searched for MNIST: File name too long"):
        mnist.find(stand_in())


# --- verifying -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda body: body[:-20], "truncated"),
        (altered, "not the official"),
        (lambda body: b"<html>", "not an IDX file"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_left_alone(
    empty_machine: Path, serve: Callable[..., Mirror], role: str, change: Callable[[bytes], bytes], complaint: str
) -> None:
    store(empty_machine)
    victim = empty_machine / f"{role}-idx.gz"
    victim.write_bytes(change(victim.read_bytes()))
    wrong, mirror = victim.read_bytes(), serve()
    with pytest.raises(BadInput, match=f"{victim} .*{complaint}"):
        mnist.load(mnist.obtain(stand_in(mirror.url)), stand_in())
    assert victim.read_bytes() == wrong
    assert mirror.requests == []


def test_an_altered_pixel_is_told_by_the_hash(empty_machine: Path) -> None:
    store(empty_machine, suffix="")
    victim = empty_machine / "test_images-idx"
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    with pytest.raises(BadInput, match=f"{victim} is not the official test_images-idx: the SHA-256"):
        mnist.verify(empty_machine, stand_in())


def test_what_is_found_can_be_verified_without_a_download(empty_machine: Path, serve: Callable[..., Mirror]) -> None:
    mirror = serve()
    assert mnist.find_verified(stand_in(mirror.url)) is None
    store(empty_machine)
    assert mnist.find_verified(stand_in(mirror.url)) == empty_machine
    victim = empty_machine / "test_labels-idx.gz"
    victim.write_bytes(victim.read_bytes()[:-20])
    with pytest.raises(BadInput, match=f"{victim} is a truncated or damaged gzip file"):
        mnist.find_verified(stand_in(mirror.url))
    assert mirror.requests == []


# --- downloading -----------------------------------------------------------------------------------------------------


def test_downloads_all_that_is_missing(
    empty_machine: Path, serve: Callable[..., Mirror], capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = serve()
    store(empty_machine, ROLES[1:2])
    folder = mnist.obtain(stand_in(mirror.url))
    assert folder == empty_machine
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{role}-idx.gz" for role in ROLES)
    assert mirror.requests == [f"/{role}-idx.gz" for role in ROLES if role != ROLES[1]]
    assert "downloading train_images-idx: 100%" in capsys.readouterr().err
    mnist.verify(folder, stand_in())


@pytest.mark.parametrize(
    "change", [lambda body: body[:50], altered, lambda body: b"x" * len(body)], ids=["truncated", "altered", "other"]
)
def test_a_bad_download_leaves_nothing_and_the_next_mirror_is_asked(
    empty_machine: Path, serve: Callable[..., Mirror], change: Callable[[bytes], bytes]
) -> None:
    bad, good = serve(spoil("train_labels", change)), serve()
    with pytest.raises(NotAvailable, match=r"train_labels-idx\.gz"):
        mnist.obtain(stand_in(bad.url))
    assert [path.name for path in empty_machine.iterdir()] == ["train_images-idx.gz"]
    mnist.verify(mnist.obtain(stand_in(bad.url, good.url)), stand_in())
    assert good.requests == [f"/{role}-idx.gz" for role in ROLES[1:]]  # the bad mirror is not used again


def test_a_truncated_download_is_called_so(empty_machine: Path, serve: Callable[..., Mirror]) -> None:
    bad = serve(spoil("train_images", lambda body: body[:50]))
    with pytest.raises(NotAvailable, match="truncated after 50 of"):
        mnist.obtain(stand_in(bad.url))


def test_the_second_mirror_serves_if_the_first_is_down(empty_machine: Path, serve: Callable[..., Mirror]) -> None:
    second = serve()
    mnist.verify(mnist.obtain(stand_in(closed_port(), second.url)), stand_in())
    assert len(second.requests) == 4


def test_all_mirrors_down_says_where_it_looked_what_failed_and_what_to_do(
    empty_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Mirror]
) -> None:
    down, lost = closed_port(), serve()
    lost.bodies.clear()
    monkeypatch.setenv("TMFLOW_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(NotAvailable) as refusal:
        mnist.obtain(stand_in(down, lost.url))
    message = str(refusal.value)
    for part in (
        str(tmp_path / "nowhere"),
        str(empty_machine),
        down,
        "refused",
        lost.url,
        "404",
        "set TMFLOW_DATA_DIR",
    ):
        assert part in message
    assert not empty_machine.exists()


def test_a_mirror_that_stalls_is_given_up(empty_machine: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        files = [stand_in().files["test_labels"]]
        with pytest.raises(NotAvailable, match="timed out"):
            download(files, empty_machine, [f"http://127.0.0.1:{silent.getsockname()[1]}"], timeout_s=0.2)


def test_a_folder_that_cannot_be_written_is_named(empty_machine: Path, serve: Callable[..., Mirror]) -> None:
    empty_machine.parent.write_text("a file where the folder should be")
    with pytest.raises(NotAvailable, match=r"train_images-idx\.gz cannot be written"):
        mnist.obtain(stand_in(serve().url))


# --- resolving -------------------------------------------------------------------------------------------------------


def test_auto_falls_back_to_the_digits_with_one_warning_and_mnist_does_not() -> None:
    resolved = datasets.resolve("auto")
    assert resolved.name == "digits"
    assert resolved.warning is not None
    assert "digits instead of MNIST" in resolved.warning
    with pytest.raises(BadInput, match=r"MNIST is not in .* \(no mirror is given\)"):
        datasets.resolve("mnist")
    assert datasets.resolve("digits").warning is None


def test_auto_does_not_paper_over_a_wrong_file(empty_machine: Path) -> None:
    empty_machine.mkdir(parents=True)
    for file in mnist_files.catalogue().files.values():
        (empty_machine / file.name).write_bytes(b"spoilt")
    with pytest.raises(BadInput, match="train-images-idx3-ubyte is not an IDX file"):
        datasets.resolve("auto")


def test_an_unknown_dataset_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(BadInput, match=r"unknown dataset 'minst' .*did you mean 'mnist'.*auto, digits, mnist"):
        datasets.resolve("minst")


# --- the arrays ------------------------------------------------------------------------------------------------------


def test_the_first_5000_validate_and_the_pixels_are_scaled(empty_machine: Path) -> None:
    store(empty_machine)
    dataset = mnist.load(empty_machine, stand_in())
    raw = mnist.verify(empty_machine, stand_in())
    assert dataset.validation_images.shape == (5_000, 4)
    assert dataset.train_images.shape == (4, 4)
    whole = np.concatenate([dataset.validation_images, dataset.train_images])
    assert np.array_equal(np.rint(whole * 255), raw["train_images"])
    labels = np.concatenate([dataset.validation_labels, dataset.train_labels])
    assert np.array_equal(labels.argmax(1), raw["train_labels"][:, 0])
    assert (labels.sum(1) == 1).all()
    assert dataset.sha256 == stand_in().sha256


def test_the_arrays_are_read_only(empty_machine: Path) -> None:
    store(empty_machine)
    with pytest.raises(ValueError, match="read-only"):
        mnist.load(empty_machine, stand_in()).train_images[0, 0] = 1


def test_truncate_takes_the_first_pixels() -> None:
    images = np.arange(12, dtype=np.float32).reshape(3, 4)
    short = truncate(images, 2)
    assert short.tolist() == [[0, 1], [4, 5], [8, 9]]
    assert short.flags.c_contiguous
    assert np.shares_memory(truncate(images, 4), images)
    for matrix in (0, 5):
        with pytest.raises(BadInput, match=f"matrix {matrix} is not .* 1 to 4"):
            truncate(images, matrix)


# Determined before the fixture above hides the machine's folders.
REAL_FOLDER = mnist.find()


@pytest.mark.skipif(REAL_FOLDER is None, reason="MNIST is not on this machine")
def test_the_real_mnist() -> None:
    assert REAL_FOLDER is not None
    dataset = mnist.load(REAL_FOLDER)
    assert [len(part) for part in (dataset.train_images, dataset.validation_images, dataset.test_images)] == [
        55_000,
        5_000,
        10_000,
    ]
    assert dataset.train_images.dtype == dataset.train_labels.dtype == np.float32
    assert (dataset.train_images.min(), dataset.train_images.max()) == (0, 1)
    assert dataset.validation_labels[:5].argmax(1).tolist() == [5, 0, 4, 1, 9]
    assert dataset.test_labels[:5].argmax(1).tolist() == [7, 2, 1, 0, 4]
    assert dataset.train_images.mean() == pytest.approx(0.1307, abs=2e-4)  # the commonly quoted mean
