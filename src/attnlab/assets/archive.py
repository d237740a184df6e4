"""Extract named files from a wheel, a zip or a tar.gz; nothing else is unpacked, nothing is run.

The whole archive is refused if any member is unsafe: a path that leads outside, a link, a device, a
duplicate name, an implausible size or compression ratio.
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

from attnlab.assets.catalogue import MAX_FILE_BYTES, Entry, File
from attnlab.assets.stream import CHUNK, copy_verified
from attnlab.core.errors import IntegrityError, storage_errors

MAX_MEMBERS = 20_000  # in one archive
PATH_LENGTH, PART_LENGTH = 1_000, 255  # characters of a name, of one part of it
MAX_RATIO = 100  # unpacked to packed bytes
SMALL = 1 << 16  # bytes; the ratio of smaller files is not checked
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
        _extract(archive, entry.package.name, _files_by_member(entry), target)
        return
    inner = target / ".nested.zip"
    held = File(name="nested.zip", size=entry.nested.size, sha256=entry.nested.sha256)
    _extract(archive, entry.package.name, {entry.nested.name: held}, target, inner)
    _extract(inner, entry.nested.name, _files_by_member(entry), target)
    inner.unlink()


def _files_by_member(entry: Entry) -> dict[str, File]:
    return {entry.within + file.name: file for file in entry.files}


def _extract(
    archive: Path, name: str, wanted: Mapping[str, File], target: Path, inner: Path | None = None
) -> None:
    read = _from_tar if name.endswith(".tar.gz") else _from_zip
    with _archive_errors(name):
        found = read(archive, wanted, target, inner)
    for member in wanted:
        if member not in found:
            raise IntegrityError(f"{name}: {member} is missing")


@contextmanager
def _archive_errors(name: str) -> Iterator[None]:
    """Turn every error about a damaged archive into an IntegrityError that names it."""
    try:
        yield
    except IntegrityError as error:
        raise IntegrityError(f"{name}: {error}") from None
    except _BROKEN as error:
        raise IntegrityError(f"{name}: damaged archive: {error}") from None


def _from_zip(
    archive: Path, wanted: Mapping[str, File], target: Path, inner: Path | None
) -> set[str]:
    with StorageFile(archive) as plain, zipfile.ZipFile(plain) as opened:
        infos = opened.infolist()
        names = MemberNames()
        for info in infos:
            names.add(info.orig_filename, info.is_dir())
            _refuse_zip_member(info)
        chosen = [info for info in infos if info.filename in wanted]
        for info in chosen:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise IntegrityError(f"{_quote(info.filename)}: unsupported compression method")
            file = wanted[info.filename]
            _check_size(info.filename, info.file_size, file)
            with opened.open(info) as source:
                copy_verified(source, inner or target / file.name, file)
    return {info.filename for info in chosen}


def _refuse_zip_member(info: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise IntegrityError(f"{_quote(info.filename)}: a link or a device, not a file")
    if info.file_size > MAX_FILE_BYTES:
        raise IntegrityError(f"{_quote(info.filename)}: {info.file_size} bytes exceed the limit")
    if info.file_size > max(SMALL, MAX_RATIO * info.compress_size):
        raise IntegrityError(
            f"{_quote(info.filename)}: unpacks to more than {MAX_RATIO} times itself"
        )


def _from_tar(
    archive: Path, wanted: Mapping[str, File], target: Path, inner: Path | None
) -> set[str]:
    found: set[str] = set()
    names = MemberNames()
    with StorageFile(archive) as plain, gzip.GzipFile(fileobj=plain) as packed:
        forward = ForwardReader(packed, max(SMALL, MAX_RATIO * archive.stat().st_size))
        with tarfile.TarFile(fileobj=forward) as opened:  # type: ignore[arg-type]
            for info in opened:
                names.add(info.name, info.isdir())
                _refuse_tar_member(info)
                if info.name in wanted:
                    file = wanted[info.name]
                    _check_size(info.name, info.size, file)
                    source = opened.extractfile(info)
                    if source is None:
                        raise IntegrityError(f"{_quote(info.name)}: not a file")
                    with source:
                        copy_verified(source, inner or target / file.name, file)
                    found.add(info.name)
        forward.drain()
    return found


def _refuse_tar_member(info: tarfile.TarInfo) -> None:
    if info.issparse() or not (info.isreg() or info.isdir()):
        raise IntegrityError(f"{_quote(info.name)}: a link or a device, not a file")
    if not 0 <= info.size <= MAX_FILE_BYTES:
        raise IntegrityError(f"{_quote(info.name)}: no file has {info.size} bytes")


def _check_size(name: str, size: int, file: File) -> None:
    if size != file.size:
        raise IntegrityError(f"{_quote(name)}: declares {size} bytes, {file.size} expected")


class MemberNames:
    """Member names seen so far: relative, no duplicates, not even on case-insensitive disks."""

    def __init__(self) -> None:
        self._folder: dict[str, bool] = {}  # name -> is it a folder?
        self._count = 0

    def add(self, name: str, folder: bool) -> None:
        """Check one more name; IntegrityError if it is unsafe."""
        self._count += 1
        if self._count > MAX_MEMBERS:
            raise IntegrityError(f"more than {MAX_MEMBERS} members")
        _refuse_name(name)
        key = unicodedata.normalize("NFC", name.rstrip("/")).casefold()
        if key in self._folder and not (folder and self._folder[key]):
            raise IntegrityError(f"{_quote(name)}: duplicate name")
        self._folder[key] = folder


def _refuse_name(name: str) -> None:
    parts = name.rstrip("/").split("/")
    if len(name) > PATH_LENGTH or any(len(part) > PART_LENGTH for part in parts):
        raise IntegrityError(f"{_quote(name)}: the name is too long")
    if any(part in ("", "..") for part in parts) or "\\" in name or name[1:2] == ":":
        raise IntegrityError(f"{_quote(name)}: the name leads outside the archive")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise IntegrityError(f"{_quote(name)}: the name holds control characters")


def _quote(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "...")


class StorageFile(io.FileIO):
    """A file that raises StorageError: zipfile would take an OSError for the end of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with storage_errors(path):
            super().__init__(path)

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes, or the rest of the file."""
        with storage_errors(self._path):
            return super().read(-1 if size is None else size) or b""

    def close(self) -> None:
        """Close the file; some disks report an error only now."""
        with storage_errors(self._path):
            super().close()


class ForwardReader:
    """A stream for tarfile: forward only, in small reads, at most `limit` bytes in total."""

    def __init__(self, source: gzip.GzipFile, limit: int) -> None:
        self._source, self._limit, self._at = source, limit, 0

    def tell(self) -> int:
        """Bytes read so far."""
        return self._at

    def read(self, size: int) -> bytes:
        """At most `size` bytes; a header larger than a chunk is refused."""
        if not 0 <= size <= CHUNK:
            raise IntegrityError(f"a header of {size} bytes is too large")
        data = self._source.read(size)
        self._at += len(data)
        if self._at > self._limit:
            raise IntegrityError(f"unpacks to more than {MAX_RATIO} times itself")
        return data

    def seek(self, position: int) -> None:
        """Skip forward to `position`."""
        if position < self._at:
            raise IntegrityError("a member lies before its header")
        while self._at < position and self.read(min(CHUNK, position - self._at)):
            pass

    def drain(self) -> None:
        """Read the padding up to the end, so that gzip checks its checksum."""
        while rest := self.read(CHUNK):
            if rest.strip(b"\0"):
                raise IntegrityError("data after the end of the archive")
