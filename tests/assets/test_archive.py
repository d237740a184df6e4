"""Hostile archives of every kind: refused whole, exit 3, nothing written outside or cached."""

import gzip
import io
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab import assets
from attnlab.assets import archive
from attnlab.assets.catalogue import parse
from attnlab.core.errors import IntegrityError, exit_code_of

from . import packing
from .conftest import shown
from .packing import FILES, FOLDER, PEBBLES, sdist, table, wheel

FIRST = FOLDER + "one.txt"
SWAPPED = "\x01"  # stands for a byte that zipfile will not write


def zipped(
    name: str, data: bytes = b"evil", mode: int = 0, method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """The good members, and one more."""
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        warnings.simplefilter("ignore")  # "Duplicate name"
        for known, content in PEBBLES.items():
            opened.writestr(known, content)
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        opened.writestr(info, data, method)
    return packed.getvalue()


def changed_directory(data: bytes, name: str, offset: int, new: bytes) -> bytes:
    """The zip with bytes of one entry of its central directory replaced."""
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode())) + offset
    return data[:at] + new + data[at + len(new) :]


def without(name: str) -> dict[str, bytes]:
    return {known: data for known, data in PEBBLES.items() if known != name}


GOOD = wheel(PEBBLES)
OUT, CODES, LONG, TWICE = "leads outside", "control characters", "too long", "duplicate name"
LINK, BOMB, OTHER, BROKEN = "a link or a device", "100 times", "expected", "damaged archive"
HASH, ABSENT = "SHA-256 is not", "is missing"
NAMES = {
    "up": ("../evil", OUT),
    "up later": ("a/../../evil", OUT),
    "up at the end": ("a/..", OUT),
    "absolute": ("/etc/evil", OUT),
    "drive": ("C:/evil", OUT),
    "drive, no slash": ("C:evil", OUT),
    "drive, backslash": ("C:\\evil", OUT),
    "UNC": ("\\\\server\\share\\evil", OUT),
    "UNC, slashes": ("//server/share/evil", OUT),
    "backslashes": ("a\\..\\..\\evil", OUT),
    "empty part": ("a//b", OUT),
    "escape code": ("a\x1b[2Jb", CODES),
    "newline": ("a\nb", CODES),
    "5003 characters": ("a/" * 2500 + "abc", LONG),
    "long part": ("a" * 257, LONG),
    "case clash": (FIRST.upper(), TWICE),
    "doubled": (FIRST, TWICE),
    "folder where a file is": (FIRST + "/", TWICE),
}
ZIPS: dict[str, tuple[bytes, str]] = {
    **{f"name: {what}": (zipped(name), words) for what, (name, words) in NAMES.items()},
    "name: two spellings": (wheel({**PEBBLES, "caf\u00e9": b"1", "cafe\u0301": b"2"}), TWICE),
    "name: NUL": (zipped(f"a{SWAPPED}b").replace(f"a{SWAPPED}b".encode(), b"a\0b"), CODES),
    "name: NUL after a wanted name": (
        wheel({**without(FIRST), FIRST + SWAPPED: FILES["one.txt"]}).replace(
            f"{FIRST}{SWAPPED}".encode(), f"{FIRST}\0".encode()
        ),
        CODES,
    ),
    "symbolic link": (zipped("link", b"/etc/passwd", stat.S_IFLNK | 0o777), LINK),
    "pipe": (zipped("pipe", b"", stat.S_IFIFO | 0o600), LINK),
    "character device": (zipped("tty", b"", stat.S_IFCHR | 0o600), LINK),
    "block device": (zipped("disk", b"", stat.S_IFBLK | 0o600), LINK),
    "socket": (zipped("socket", b"", stat.S_IFSOCK | 0o600), LINK),
    "bomb beside": (zipped("bomb", bytes(10_000_019)), BOMB),
    "bomb wanted": (wheel({**PEBBLES, FIRST: bytes(10_000_019)}), BOMB),
    "declares more": (changed_directory(GOOD, FIRST, 24, (6011).to_bytes(4, "little")), OTHER),
    "declares less": (changed_directory(GOOD, FIRST, 24, (5987).to_bytes(4, "little")), OTHER),
    "declares 4 GB": (changed_directory(GOOD, FIRST, 24, b"\xfe\xff\xff\xff"), "exceed the limit"),
    "packed size is a lie": (
        changed_directory(GOOD, FIRST, 20, (101).to_bytes(4, "little")),
        f"{OTHER}|{BROKEN}",
    ),
    "checksum differs": (changed_directory(GOOD, FIRST, 16, b"abcd"), BROKEN),
    "says it is encrypted": (changed_directory(GOOD, FIRST, 8, b"\x01\x00"), BROKEN),
    "another method": (changed_directory(GOOD, FIRST, 10, b"\x63\x00"), "unsupported compression"),
    "lies elsewhere": (changed_directory(GOOD, FIRST, 42, (7).to_bytes(4, "little")), BROKEN),
    "lies behind the end": (changed_directory(GOOD, FIRST, 42, b"\xff\xff\xff\x0f"), BROKEN),
    "another name at the place": (GOOD.replace(FIRST.encode(), FIRST.encode()[::-1], 1), BROKEN),
    "member missing": (wheel(without(FIRST)), ABSENT),
    "member is another": (wheel({**PEBBLES, FIRST: FILES["one.txt"][::-1]}), HASH),
    "member is shorter": (wheel({**PEBBLES, FIRST: FILES["one.txt"][:-1]}), OTHER),
    "member is longer": (wheel({**PEBBLES, FIRST: FILES["one.txt"] + b"x"}), OTHER),
    "empty": (b"", BROKEN),
    "no archive": (packing.noise(5003, 5), BROKEN),
    "a tar.gz": (sdist(PEBBLES), BROKEN),
    "cut in half": (GOOD[: len(GOOD) // 2], BROKEN),
    "cut at the end": (GOOD[:-1], BROKEN),
    "no members": (wheel({}), ABSENT),
}


def tarred(*extra: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.GNU_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=kind) as opened:
        for name, data in PEBBLES.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            opened.addfile(info, io.BytesIO(data))
        for info, data in extra:
            opened.addfile(info, io.BytesIO(data))
    return gzip.compress(packed.getvalue())


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def block(name: str, size: bytes, kind: bytes) -> bytes:
    """One tar header with any size field."""
    head = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    head[124:136] = size
    head[156:157] = kind
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def changed_size(plain: bytes, name: str, size: int) -> bytes:
    """The tar with another size in one member's header."""
    at = plain.index(name.encode())
    return plain[:at] + block(name, b"%011o\0" % size, b"0") + plain[at + 512 :]


PLAIN = gzip.decompress(sdist(PEBBLES))
PACKED = gzip.compress(PLAIN)
ENDING = bytes(1024)
HUGE = b"7" * 11 + b"\0"  # 8 GB in a header's way of writing
TARS: dict[str, tuple[bytes, str]] = {
    **{
        f"name: {what}": (
            tarred(member(name, type=b"5" if name.endswith("/") else b"0")),
            words,
        )
        for what, (name, words) in NAMES.items()
    },
    "name: up, in a pax header": (
        tarred(member("safe", pax_headers={"path": "../evil"}), kind=tarfile.PAX_FORMAT),
        OUT,
    ),
    "name: NUL in a pax header": (
        tarred(member("safe", pax_headers={"path": "a\0b"}), kind=tarfile.PAX_FORMAT),
        CODES,
    ),
    "symbolic link": (tarred(member("link", type=b"2", linkname="/etc/passwd")), LINK),
    "symbolic link before the file": (
        gzip.compress(member(FIRST, type=b"2", linkname="/etc/passwd")[0].tobuf() + PLAIN),
        LINK,
    ),
    "hard link": (tarred(member("link", type=b"1", linkname=FIRST)), LINK),
    "hard link outside": (tarred(member("link", type=b"1", linkname="../../evil")), LINK),
    "character device": (tarred(member("tty", type=b"3", devmajor=5)), LINK),
    "block device": (tarred(member("disk", type=b"4", devmajor=8)), LINK),
    "pipe": (tarred(member("pipe", type=b"6")), LINK),
    "sparse": (gzip.compress(block("holes", b"%011o\0" % 0, b"S") + PLAIN), LINK),
    "bomb beside": (tarred(member("bomb", bytes(20_000_003))), BOMB),
    "bomb of zeros after the end": (gzip.compress(PLAIN + bytes(20_000_003)), BOMB),
    "a name of 3 MB": (
        gzip.compress(block("long", b"%011o\0" % 3_000_017, b"L") + bytes(3_000_320) + PLAIN),
        "a header of 3000320 bytes",
    ),
    "a name of 8 GB": (gzip.compress(block("long", HUGE, b"L") + PLAIN), "a header of 8"),
    "a pax header of 8 GB": (gzip.compress(block("pax", HUGE, b"x") + PLAIN), "a header of 8"),
    "headers within headers": (
        gzip.compress(
            (block("long", b"%011o\0" % 2, b"L") + b"a".ljust(512, b"\0")) * 3001 + PLAIN, 1
        ),
        f"{BROKEN}|{BOMB}",
    ),
    "less than nothing": (gzip.compress(block("minus", b"\xff" * 12, b"0") + PLAIN), "no file has"),
    "declares more": (
        gzip.compress(changed_size(PLAIN, FIRST, 6011)),
        OTHER,
    ),
    "declares more than there is": (
        gzip.compress(PLAIN.rstrip(b"\0") + bytes(512) + block("last", b"%011o\0" % 9973, b"0")),
        f"{BROKEN}|after the end",
    ),
    "a broken header later": (
        gzip.compress(PLAIN.replace(b"pebbles/data/two", b"pebbles/Data/two")),
        "after the end",
    ),
    "something follows the end": (gzip.compress(PLAIN + b"evil"), "after the end"),
    "member missing": (sdist(without(FIRST)), ABSENT),
    "member is another": (sdist({**PEBBLES, FIRST: FILES["one.txt"][::-1]}), HASH),
    "empty": (b"", BROKEN),
    "no archive": (packing.noise(5003, 5), BROKEN),
    "not compressed": (PLAIN, BROKEN),
    "compressed nothing": (gzip.compress(b""), f"{BROKEN}|{ABSENT}"),
    "compressed noise": (gzip.compress(packing.noise(5003, 5)), BROKEN),
    "a zip": (GOOD, BROKEN),
    "cut in half": (PACKED[: len(PACKED) // 2], BROKEN),
    "cut at the end": (PACKED[:-1], BROKEN),
    "without its checksum": (PACKED[:-8], BROKEN),
    "checksum differs": (PACKED[:-8] + b"abcd" + PACKED[-4:], BROKEN),
    "junk after the archive": (PACKED + b"evil", BROKEN),
}
INNER_NAME = "pebbles/source.zip"
NESTED = {
    "name: up": (zipped("../evil"), OUT),
    "symbolic link": (zipped("link", b"/etc/passwd", stat.S_IFLNK | 0o777), LINK),
    "bomb": (zipped("bomb", bytes(10_000_019)), BOMB),
    "member missing": (wheel(without(FIRST)), ABSENT),
    "member is another": (wheel({**PEBBLES, FIRST: FILES["one.txt"][::-1]}), HASH),
    "no archive": (packing.noise(5003, 5), BROKEN),
    "a tar.gz": (sdist(PEBBLES), BROKEN),
    "cut": (GOOD[:-1], BROKEN),
    "empty": (b"", BROKEN),
}
BESIDE = zipped("lzma", bytes(997), method=zipfile.ZIP_LZMA)  # not wanted, so never opened
Offer = Callable[..., Path]


@pytest.fixture
def offer(tmp_path: Path, cache: Path, catalogue: Callable[..., None]) -> Offer:
    """A catalogue that believes in the bytes of this very package: only unpacking can refuse it."""

    def offer(name: str, data: bytes, nested: tuple[str, bytes] | None = None) -> Path:
        catalogue(parse(table("pebbles", (name, data), nested=nested)))
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return offer


def refused(cache: Path, tmp_path: Path, package: Path, words: str) -> None:
    before = {path for path in tmp_path.rglob("*") if cache not in path.parents}
    with pytest.raises(IntegrityError, match=words) as caught:
        assets.get("pebbles", source="path", path=package)
    assert exit_code_of(caught.value) == 3
    assert str(caught.value).isprintable()
    assert {p for p in tmp_path.rglob("*") if cache not in p.parents} - before <= {
        cache.parent,
        cache,
    }
    assert [path.name for path in cache.iterdir()] == [".locks"]


@pytest.mark.parametrize("what", ZIPS)
def test_hostile_zips(offer: Offer, cache: Path, tmp_path: Path, what: str) -> None:
    refused(cache, tmp_path, offer("evil-1.0-py3-none-any.whl", ZIPS[what][0]), ZIPS[what][1])


@pytest.mark.parametrize("what", TARS)
def test_hostile_tars(offer: Offer, cache: Path, tmp_path: Path, what: str) -> None:
    refused(cache, tmp_path, offer("evil-1.0.tar.gz", TARS[what][0]), TARS[what][1])


@pytest.mark.parametrize("what", NESTED)
def test_hostile_archives_in_an_archive(
    offer: Offer, cache: Path, tmp_path: Path, what: str
) -> None:
    inner, words = NESTED[what]
    path = offer("evil-1.0.zip", wheel({INNER_NAME: inner}), (INNER_NAME, inner))
    refused(cache, tmp_path, path, words)


def test_an_inner_archive_of_other_bytes(offer: Offer, cache: Path, tmp_path: Path) -> None:
    outer = wheel({INNER_NAME: GOOD})
    path = offer("evil-1.0.zip", outer, (INNER_NAME, GOOD[::-1]))
    refused(cache, tmp_path, path, "SHA-256")


def test_too_many_members(
    offer: Offer, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", len(PEBBLES) - 1)
    refused(cache, tmp_path, offer("evil-1.0-py3-none-any.whl", GOOD), "more than 3 members")
    refused(cache, tmp_path, offer("evil-1.0.tar.gz", PACKED), "more than 3 members")


@pytest.mark.parametrize(
    ("name", "data", "nested"),
    [
        ("good-1.0-py3-none-any.whl", GOOD, None),
        ("good-1.0-py3-none-any.whl", BESIDE, None),
        ("good-1.0-py3-none-any.whl", zipped("pebbles/data/"), None),
        ("good-1.0.tar.gz", PACKED, None),
        ("good-1.0.tar.gz", gzip.compress(PLAIN + bytes(10240)), None),
        ("good-1.0.tar.gz", tarred(*[member("pebbles", type=b"5")] * 2), None),
        ("good-1.0.tar.gz", tarred(kind=tarfile.PAX_FORMAT), None),
        ("good-1.0.zip", wheel({INNER_NAME: GOOD}), (INNER_NAME, GOOD)),
    ],
)
def test_ordinary_archives_are_not_taken_for_hostile_ones(
    offer: Offer, cache: Path, name: str, data: bytes, nested: tuple[str, bytes] | None
) -> None:
    found = assets.get("pebbles", source="path", path=offer(name, data, nested))
    assert {file.name: file.read_bytes() for file in found.files} == FILES
    assert set(shown(cache)) == {f"pebbles/{n}" for n in (*FILES, "MANIFEST.json")}


DAMAGE = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(damage=st.lists(DAMAGE, min_size=1, max_size=5), cut=st.floats(0, 1), tar=st.booleans())
def test_damaged_at_random_it_is_the_right_bytes_or_refused(
    tmp_path: Path, damage: list[tuple[float, int]], cut: float, tar: bool
) -> None:
    data = bytearray(PLAIN if tar else GOOD)
    for where, bits in damage:
        data[int(where * len(data))] ^= bits
    if cut < 0.3:
        del data[int(cut / 0.3 * len(data)) :]
    name = "a-1.0.tar.gz" if tar else "a-1.0.zip"
    package = tmp_path / name
    package.write_bytes(gzip.compress(bytes(data)) if tar else bytes(data))
    entry = parse(table("pebbles", (name, b"")))["pebbles"]
    target = tmp_path / "target"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    try:
        archive.unpack(package, entry, target)
    except IntegrityError:
        return
    assert {path.name: path.read_bytes() for path in target.iterdir()} == FILES
    assert {path.name for path in tmp_path.iterdir()} <= {"target", "a-1.0.tar.gz", "a-1.0.zip"}
