"""Small packages of known bytes, and the catalogue that describes them."""

import gzip
import hashlib
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Mapping

from attnlab.assets.catalogue import Entry, parse


def noise(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


FILES = {"one.txt": noise(6007, 1), "two.txt": noise(2003, 2)}
OTHER = {"three.txt": noise(1009, 3)}
FOLDER, OTHER_FOLDER = "pebbles/data/", "pebbles/other/"


def inside(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {folder + name: data for name, data in files.items()}


PEBBLES = {
    "pebbles/setup.py": b"raise SystemExit('a package must never be run')",
    **inside(FOLDER, FILES),
    **inside(OTHER_FOLDER, OTHER),
}


def wheel(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def sdist(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def described(name: str, data: bytes) -> dict[str, object]:
    return {"name": name, "size": len(data), "sha256": sha256(data)}


def table(
    name: str,
    package: tuple[str, bytes],
    files: Mapping[str, bytes] = FILES,
    within: str = FOLDER,
    nested: tuple[str, bytes] | None = None,
    hub: tuple[str, ...] = (),
) -> str:
    """One entry of a catalogue."""

    def inline(value: Mapping[str, object]) -> str:
        return "{" + ", ".join(f"{key} = {json.dumps(v)}" for key, v in value.items()) + "}"

    lines = [
        f"[{name}]",
        'project = "Peb_bles"',
        f"package = {inline(described(*package))}",
        *([f"nested = {inline(described(*nested))}"] if nested else []),
        f'within = "{within}"',
        'holds = "pebbles"',
        'licence = "MIT"',
        f"hub = {json.dumps(hub)}",
        f"files = [{', '.join(inline(described(*item)) for item in files.items())}]",
    ]
    return "\n".join(lines) + "\n"


WHEEL = ("pebbles-1.0-py3-none-any.whl", wheel(PEBBLES))
SDIST = ("sand-1.0.tar.gz", sdist(PEBBLES))
INNER = ("pebbles/source.zip", wheel(PEBBLES))
DEEP = ("deep-1.0.zip", wheel({INNER[0]: INNER[1]}))
PACKAGES: dict[str, bytes] = dict([WHEEL, SDIST, DEEP])
CATALOGUE = (
    table("pebbles", WHEEL, hub=("sea/pebbles", "datasets/sea/shells"))
    + table("shells", WHEEL, OTHER, OTHER_FOLDER)
    + table("sand", SDIST)
    + table("deep", DEEP, nested=INNER)
)


def entries() -> dict[str, Entry]:
    return parse(CATALOGUE)
