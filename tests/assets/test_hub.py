"""A hub's snapshot: from its cache layout on disk, and from a hub of our own over HTTP."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from attnlab import assets
from attnlab.assets.hub import HubName
from attnlab.core.errors import IntegrityError, MissingError, UsageError

from . import packing

HERE = Path(__file__).parent
COMMIT, OLDER = "0123456789abcdef" * 2 + "01234567", "f" * 40
MODEL = {
    "config.json": b'{"model_type": "pebble"}',
    "model.safetensors": packing.noise(5003, 11),
    "tokenizer.json": b"{}",
    "pytorch_model.bin": b"a pickle",
    "modeling_pebble.py": b"raise SystemExit('code must never be run')",
    "onnx/model.onnx": b"onnx",
}
KEPT = {"config.json", "model.safetensors", "tokenizer.json"}


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def lay_out(cache: Path, folder: str, files: dict[str, bytes], commit: str = COMMIT) -> Path:
    """A repository as the hub's client stores it: blobs named by hash, links to them, a ref."""
    store = cache / folder
    snapshot = store / "snapshots" / commit
    for name, data in files.items():
        large = name.endswith((".safetensors", ".parquet"))
        blob = store / "blobs" / (packing.sha256(data) if large else git_hash(data))
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(data)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (store / "refs").mkdir(exist_ok=True)
    (store / "refs" / "main").write_text(commit)
    return store


@pytest.fixture
def offline(pebbles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's own cache, empty; the hub cannot be reached."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_a_snapshot_that_is_here(offline: Path, pebbles: Path) -> None:
    lay_out(offline, "models--sea--pebbles", MODEL)
    found = assets.get("pebbles", source="hub")
    assert found.name == "pebbles" and found.path == pebbles / "hub--sea--pebbles"
    assert {file.name for file in found.files} == KEPT
    assert all(
        file.read_bytes() == MODEL[file.name] and not file.is_symlink() for file in found.files
    )
    assert assets.verify("pebbles") == []
    assert assets.listing()[0].state == "hub"
    assert assets.get("sea/pebbles", source="hub").path == found.path
    assert not (pebbles / "pebbles").exists()  # the package's bytes are others


def test_it_is_hashed_once_and_then_needs_no_hub(offline: Path) -> None:
    store = lay_out(offline, "models--sea--pebbles", MODEL)
    found = assets.get("pebbles", source="hub")
    store.rename(offline / "gone")
    assert assets.get("pebbles", source="hub", revision=COMMIT) == found
    (found.path / "config.json").unlink()
    (found.path / "config.json").write_bytes(b"forged")
    assert assets.verify("pebbles") == [f"{found.path / 'config.json'}: 6 bytes, 24 were written"]
    with pytest.raises(MissingError):
        assets.get("pebbles", source="hub")
    assert assets.remove("pebbles") and not found.path.exists()


def test_another_revision_replaces_it(offline: Path) -> None:
    lay_out(offline, "models--sea--pebbles", {**MODEL, "config.json": b"{}"}, OLDER)
    lay_out(offline, "models--sea--pebbles", MODEL)
    assert (assets.get("pebbles", source="hub").path / "config.json").read_bytes() != b"{}"
    old = assets.get("pebbles", source="hub", revision=OLDER)
    assert (old.path / "config.json").read_bytes() == b"{}"
    main = assets.get("pebbles", source="hub", revision="main")
    assert (main.path / "config.json").read_bytes() != b"{}"


def test_code_is_kept_in_a_folder_of_its_own(offline: Path, pebbles: Path) -> None:
    lay_out(offline, "models--sea--pebbles", MODEL)
    plain = assets.get("sea/pebbles", source="hub", revision=COMMIT)
    coded = assets.get("sea/pebbles", source="hub", revision=COMMIT, code=True)
    assert {file.name for file in coded.files} == {*KEPT, "modeling_pebble.py"}
    assert coded.path == pebbles / "hub--sea--pebbles--with-code"
    assert {file.name for file in plain.path.iterdir() if file.suffix == ".py"} == set()
    assert assets.remove("pebbles") and not coded.path.exists() and not plain.path.exists()
    with pytest.raises(UsageError, match="used with source 'hub'"):
        assets.get("pebbles", code=True)


def test_data_sets_and_ids_of_ones_own(offline: Path) -> None:
    rows = {"data/train-0.parquet": packing.noise(997, 3), "README.md": b"#", "load.py": b"evil"}
    lay_out(offline, "datasets--sea--shells", rows)
    lay_out(offline, "models--any--one", MODEL)
    for name in ("sea/shells", "datasets/sea/shells"):
        found = assets.get(name, source="hub")
        assert [f.relative_to(found.path).as_posix() for f in found.files] == [
            "data/train-0.parquet"
        ]
    assert assets.get("any/one", source="hub").name == "any/one"
    assert assets.verify("any/one") == []
    assert assets.remove("any/one")


def test_unsafe_snapshots_are_refused(offline: Path, pebbles: Path, tmp_path: Path) -> None:
    store = lay_out(offline, "models--sea--pebbles", MODEL)
    link = store / "snapshots" / COMMIT / "tokenizer.json"
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    for target in (secret, tmp_path, "/dev/null", "nowhere"):
        link.unlink()
        link.symlink_to(target)
        if target == tmp_path:
            continue  # a link to a folder is not looked into
        with pytest.raises(IntegrityError, match="outside the hub's cache"):
            assets.get("pebbles", source="hub")
    link.unlink()
    blob = store / "blobs" / packing.sha256(MODEL["model.safetensors"])
    blob.write_bytes(MODEL["model.safetensors"][::-1])
    with pytest.raises(IntegrityError, match="its hash differs from the hub's"):
        assets.get("pebbles", source="hub")
    (store / "snapshots" / COMMIT / "model.safetensors").unlink()
    with pytest.raises(IntegrityError, match="no safetensors"):
        assets.get("pebbles", source="hub")
    assert not list(pebbles.glob("hub--*")) and not list(pebbles.glob(".partial-*"))


def test_offline_is_exit_6_with_the_command(offline: Path, pebbles: Path) -> None:
    with pytest.raises(MissingError) as caught:
        assets.get("pebbles", source="hub")
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert "`attnlab assets get sea/pebbles --source hub`" in text
    assert str(pebbles / "hub--sea--pebbles") in text


def test_names(offline: Path) -> None:
    for name, words in (
        ("sand", "not on a hub"),
        ("pebles", "did you mean 'pebbles'"),
        ("../x/y", "unknown asset"),
        ("a/b/c/d", "unknown asset"),
    ):
        with pytest.raises(UsageError, match=words):
            assets.get(name, source="hub")
    assert HubName("datasets/a/b").folder == "hub--datasets--a--b"
    assert (HubName("a/b").kind, HubName("datasets/a/b").id) == ("model", "a/b")


class Handler(BaseHTTPRequestHandler):
    """The four answers of a hub that its client needs."""

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = path.removeprefix(f"/sea/pebbles/resolve/{COMMIT}/")
        if path.startswith("/api/models/sea/pebbles/tree/"):
            tree = [
                {"type": "file", "path": n, "size": len(data), "oid": git_hash(data)}
                for n, data in MODEL.items()
            ]
            self.answer(json.dumps(tree).encode())
        elif path.startswith("/api/models/sea/pebbles"):
            info = {
                "id": "sea/pebbles",
                "sha": COMMIT,
                "siblings": [{"rfilename": n} for n in MODEL],
            }
            self.answer(json.dumps(info).encode())
        elif name in MODEL:
            self.answer(MODEL[name], ETag=f'"{git_hash(MODEL[name])}"')
        else:
            self.send_error(404)

    def answer(self, data: bytes, **headers: str) -> None:
        self.send_response(200)
        for key, value in {
            "Content-Length": str(len(data)),
            "X-Repo-Commit": COMMIT,
            **headers,
        }.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


@contextmanager
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_hub_over_http(pebbles: Path, tmp_path: Path) -> None:
    text = tmp_path / "catalogue.toml"
    text.write_text(packing.CATALOGUE, encoding="utf-8")
    with hub() as endpoint:
        done = subprocess.run(
            [sys.executable, str(HERE / "drive.py"), str(text), "hub", "pebbles"],
            env={
                **os.environ,
                "HF_ENDPOINT": endpoint,
                "HF_HOME": str(tmp_path / "home"),
                "HF_HUB_DISABLE_XET": "1",
                "HF_HUB_OFFLINE": "0",
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == sorted(KEPT)
    assert "%|" not in done.stderr  # no bar in a pipe
    assert not list((tmp_path / "home").rglob("*.bin")) and not list(tmp_path.rglob("*.onnx"))
