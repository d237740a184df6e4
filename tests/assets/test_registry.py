"""A bad line and a lying index: the right file or exit 6, and never half a file in use."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attnlab import assets
from attnlab.assets import download, registry
from attnlab.assets.cache import download_of
from attnlab.assets.catalogue import Entry
from attnlab.assets.pip_settings import PipSettings
from attnlab.core.errors import IntegrityError, MissingError, StorageError, exit_code_of

from . import packing
from .conftest import shown
from .server import Shop

SIZE = len(packing.WHEEL[1])
WHOLE = {
    **packing.inside("pebbles/", packing.FILES),
    **packing.inside("shells/", packing.OTHER),
}


def is_right(cache: Path) -> None:
    found = {name: data for name, data in shown(cache).items() if "MANIFEST" not in name}
    assert found == WHOLE
    assert not list((cache / ".downloads").iterdir())


RIGHT = {
    "behaves": ([], 1),
    "knows no ranges": (["whole"], 1),
    "reset once": (["reset:1009"], 2),
    "reset at once": (["reset:0"], 2),
    "reset twice": (["reset:1009", "reset:503"], 3),
    "cut once": (["cut:4001"], 2),
    "cut, then no ranges": (["cut:4001", "whole"], 2),
    "cut before the last byte": ([f"cut:{SIZE - 1}"], 2),
    "503 twice": (["503", "503"], 3),
    "429 once": (["429"], 2),
    "503, cut, ok": (["503", "cut:2003"], 3),
    "announces more": (["long"], 1),
    "announces less": (["short:2003"], 2),
    "sends more": (["more"], 1),
    "says gzip": (["gzip"], 1),
    "another range": (["cut:2003", "shifted"], 3),
    "range not satisfiable": (["cut:2003", "416"], 3),
    "a third of the file a try": (["cut:3001"] * 7, None),
}


@pytest.mark.parametrize("what", RIGHT)
def test_the_right_file_over_a_bad_line(shop: Shop, pebbles: Path, what: str) -> None:
    plan, requests = RIGHT[what]
    shop.plan[:] = plan
    found = assets.get("pebbles")
    assert [file.name for file in found.files] == sorted(packing.FILES)
    is_right(pebbles)
    if requests:
        assert len(shop.asked) == requests


def test_only_the_rest_is_asked_for(shop: Shop, pebbles: Path) -> None:
    shop.plan[:] = ["cut:4001", "503", "reset:2003"]
    with pytest.raises(MissingError):
        shop.plan += ["503"] * 9
        assets.get("pebbles")
    shop.plan.clear()
    arrived = download_of(packing.WHEEL[0]).stat().st_size
    assert 4001 <= arrived < SIZE
    assets.get("pebbles")
    assert shop.asked[-1] == f"bytes={arrived}-"
    is_right(pebbles)


@pytest.mark.parametrize("plan", ["503", "reset:0", "cut:101", "short:101", "404", "403", "500"])
def test_a_line_that_stays_bad_is_exit_6(shop: Shop, pebbles: Path, plan: str) -> None:
    shop.plan[:] = [plan] * 99
    with pytest.raises(
        MissingError, match=r"`attnlab assets get pebbles` on a connected"
    ) as caught:
        assets.get("pebbles")
    assert exit_code_of(caught.value) == 6
    assert shown(pebbles) == {}
    assert len(shop.asked) == (1 if plan in ("404", "403") else 3)
    assert "127.0.0.1" not in str(caught.value)
    shop.plan.clear()
    assets.get("pebbles")
    is_right(pebbles)


@pytest.mark.parametrize("plan", [["junk"], ["cut:2003", "junk", "junk"], ["cut:9001", "junk"]])
def test_other_bytes_are_exit_3(shop: Shop, pebbles: Path, plan: list[str]) -> None:
    shop.plan[:] = plan
    with pytest.raises(IntegrityError, match="SHA-256") as caught:
        assets.get("pebbles")
    assert exit_code_of(caught.value) == 3
    assert shown(pebbles) == {}
    shop.plan.clear()
    assets.get("pebbles")
    is_right(pebbles)


def test_parts_that_do_not_belong_together(shop: Shop, pebbles: Path) -> None:
    shop.plan[:] = ["junk:4001"]
    assets.get("pebbles")
    assert shop.asked == ["", "bytes=4001-", ""]
    is_right(pebbles)


def test_a_damaged_partial_download_is_discarded(shop: Shop, pebbles: Path) -> None:
    for rest in (b"x" * 2003, b"x" * SIZE, b"x" * (SIZE + 1)):
        path = download_of(packing.WHEEL[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rest)
        assets.get("pebbles")
        is_right(pebbles)
        assets.remove("pebbles")
        assets.remove("shells")


def test_what_has_arrived_whole_needs_no_index(pebbles: Path) -> None:
    path = download_of(packing.WHEEL[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(packing.WHEEL[1])
    assets.get("shells")
    is_right(pebbles)


@pytest.mark.parametrize("pages", [["503", "503"], ["reset"], ["502", "reset"]])
def test_an_index_page_is_asked_for_again(shop: Shop, pebbles: Path, pages: list[str]) -> None:
    shop.pages[:] = pages
    assets.get("pebbles")
    is_right(pebbles)


@pytest.mark.parametrize("page", ["503", "reset", "junk", "404", "401"])
def test_an_index_that_does_not_answer_is_exit_6(shop: Shop, pebbles: Path, page: str) -> None:
    shop.pages[:] = [page] * 9
    with pytest.raises(MissingError):
        assets.get("pebbles")
    assert shop.asked == []
    assert shown(pebbles) == {}


def test_a_page_of_json(shop: Shop, pebbles: Path) -> None:
    shop.kind = "json"
    assets.get("pebbles")
    is_right(pebbles)


def test_an_index_with_another_file_of_this_name(shop: Shop) -> None:
    shop.digest = "ab" * 32
    with pytest.raises(IntegrityError, match="a different file of this name"):
        assets.get("pebbles")
    assert shop.asked == []


def test_an_index_without_the_file(shop: Shop) -> None:
    del shop.files[packing.WHEEL[0]]
    with pytest.raises(MissingError, match=f"does not have {packing.WHEEL[0]}"):
        assets.get("pebbles")


def test_a_page_from_elsewhere_cannot_point_into_this_machine(
    shop: Shop, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = (wheels / packing.WHEEL[0]).as_uri()
    monkeypatch.setattr(
        "attnlab.assets.registry._remote_page",
        lambda *_: registry.pypi_simple.ProjectPage.from_html(
            "peb-bles", f'<a href="{here}">{packing.WHEEL[0]}</a>'
        ),
    )
    with pytest.raises(MissingError, match="invalid URL"):
        assets.get("pebbles")


def test_offline_is_one_line_with_the_way_out(
    pebbles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(MissingError) as caught:
        assets.get("sand")
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    for word in (
        "`attnlab assets get sand`",
        str(pebbles / "sand"),
        "sand-1.0.tar.gz",
        "--source path --path",
    ):
        assert word in text
    assert "secret" not in text


@pytest.mark.parametrize("kind", ["folder", "address", "page", "index", "index address", "remote"])
def test_every_place_that_pip_knows(
    shop: Shop, pebbles: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    index = wheels / "simple"
    (index / "peb-bles").mkdir(parents=True)
    name = packing.WHEEL[0]
    mark = f"#sha256={packing.sha256(packing.WHEEL[1])}"
    (index / "peb-bles" / "index.html").write_text(f'<a href="../../{name}{mark}">{name}</a>')
    (wheels / "links.html").write_text(f'<a href="{name}">{name}</a>')
    variable, value = {
        "folder": ("PIP_FIND_LINKS", str(wheels)),
        "address": ("PIP_FIND_LINKS", f"/nowhere {wheels.as_uri()}"),
        "page": ("PIP_FIND_LINKS", str(wheels / "links.html")),
        "index": ("PIP_INDEX_URL", str(index)),
        "index address": ("PIP_EXTRA_INDEX_URL", f"{index.as_uri()}/"),
        "remote": ("PIP_FIND_LINKS", f"{shop.url}/links"),
    }[kind]
    monkeypatch.setenv("PIP_INDEX_URL", f"{shop.url}/nothing/here")
    monkeypatch.setenv(variable, value)
    assets.get("pebbles")
    is_right(pebbles)
    assert bool(shop.asked) == (kind == "remote")


def test_wrong_bytes_in_one_place_are_looked_for_in_the_next(
    shop: Shop, pebbles: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wheels / packing.WHEEL[0]).write_bytes(b"x" * SIZE)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    assets.get("pebbles")
    is_right(pebbles)
    assert len(shop.asked) == 1


def test_places_on_this_machine_come_first(tmp_path: Path) -> None:
    settings = PipSettings(
        index="http://127.0.0.1:9/a",
        extra=(str(tmp_path), "http://127.0.0.1:9/b"),
        find_links=("http://127.0.0.1:9/c", tmp_path.as_uri()),
    )
    found = [place.location for place in registry.package_sources(settings)]
    assert found == [
        tmp_path.as_uri(),
        str(tmp_path),
        "http://127.0.0.1:9/c",
        "http://127.0.0.1:9/a",
        "http://127.0.0.1:9/b",
    ]
    assert registry.package_sources(PipSettings(no_index=True)) == []
    assert [place.location for place in registry.package_sources(PipSettings())] == [None]


def test_settings_of_the_line(tmp_path: Path) -> None:
    settings = PipSettings(proxy="http://p:1", cert="/c.pem", client_cert="/d.pem", timeout=7.0)
    with registry.PipSession(settings) as line:
        assert line.proxies == {"http": "http://p:1", "https": "http://p:1"}
        assert (line.verify, line.cert) == ("/c.pem", "/d.pem")


def test_a_server_that_never_answers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "1")
    monkeypatch.setattr(download, "TRIES", 2)
    shop.plan[:] = ["hang:503", "hang:0"]
    with pytest.raises(MissingError, match="did not answer in time"):
        assets.get("pebbles")
    assert len(shop.asked) == 2


def test_a_certificate_file_that_is_not_there(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", shop.index.replace("http:", "https:"))
    monkeypatch.setenv("PIP_CERT", "/no/such/bundle.pem")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingError, match=r"/no/such/bundle\.pem"):
        assets.get("pebbles")


def test_a_full_disk_is_exit_4(shop: Shop, pebbles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        assets.get("pebbles")
    assert exit_code_of(caught.value) == 4
    assert shown(pebbles) == {}


def test_one_fetch_serves_every_asset_of_the_package(
    shop: Shop, pebbles: Path, catalogue: Callable[[dict[str, Entry]], None]
) -> None:
    assets.get("shells")
    assets.get("pebbles")
    assert len(shop.asked) == 1


class Watched:
    def __init__(self) -> None:
        self.done = self.total = 0
        self.seen: list[str] = []

    def start(self, what: str, total: int, done: int) -> None:
        self.total, self.done = total, done
        self.seen.append(f"start {what} {done}")

    def advance(self, count: int) -> None:
        self.done += count

    def stop(self) -> None:
        self.seen.append("stop")

    def note(self, text: str) -> None:
        self.seen.append(text)


def test_progress_counts_the_bytes_that_are_here(shop: Shop) -> None:
    watched = Watched()
    shop.plan[:] = ["cut:4001", "whole"]
    assets.get("pebbles", progress=watched)
    assert watched.done == watched.total == SIZE
    assert watched.seen == [f"start {packing.WHEEL[0]} 0", f"start {packing.WHEEL[0]} 0", "stop"]
