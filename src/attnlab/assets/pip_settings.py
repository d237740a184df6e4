"""pip's configuration files and PIP_* variables, read the way pip reads them.

    system files < user files < the environment's file < PIP_CONFIG_FILE < PIP_* variables
    [global] < [install] < [download] < PIP_*

PIP_CONFIG_FILE hides the user's files, and set to the null device it hides all of them. An empty
value does not count. Without a configured index, the default of the index client is used.
"""

import configparser
import locale
import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from attnlab.core.errors import UsageError

SECTIONS = ("global", "install", "download", "")  # "" holds the variables
SECONDS = 15.0  # pip's own timeout
_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0")

Values = dict[tuple[str, str], str]


@dataclass(frozen=True)
class PipSettings:
    """pip's settings for downloads; index None: the default of the index client."""

    index: str | None = None
    no_index: bool = False
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    proxy: str | None = None
    cert: str | None = None
    client_cert: str | None = None
    timeout: float = SECONDS

    @property
    def indexes(self) -> tuple[str | None, ...]:
        """All indexes, in the order in which pip uses them."""
        return () if self.no_index else (self.index, *self.extra)


def read_settings(environment: Mapping[str, str] | None = None) -> PipSettings:
    """pip's current settings on this machine."""
    variables = os.environ if environment is None else environment
    values: Values = {}
    for path in _files(variables):
        values.update(_read(path))
    given = {key[4:]: value for key, value in variables.items() if key.startswith("PIP_")}
    values.update({("", _option_name(key)): value for key, value in given.items()})
    return resolve_options(values)


def resolve_options(values: Values) -> PipSettings:
    """The effective value of each option: later sections override earlier ones."""
    chosen: dict[str, str] = {}
    for section in SECTIONS:
        chosen.update({key: v for (where, key), v in values.items() if where == section and v})
    return PipSettings(
        index=chosen.get("index-url", "").strip() or None,
        no_index=_boolean("no-index", chosen.get("no-index", "0")),
        extra=tuple(chosen.get("extra-index-url", "").split()),
        find_links=tuple(chosen.get("find-links", "").split()),
        proxy=chosen.get("proxy"),
        cert=_path(chosen.get("cert")),
        client_cert=_path(chosen.get("client-cert")),
        timeout=_seconds(chosen.get("timeout") or chosen.get("default-timeout")),
    )


def parse(text: str, where: str = "pip.conf") -> Values:
    """(section, option) -> value of one configuration file."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text, where)
    except configparser.Error as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"pip's configuration cannot be read: {reason}") from None
    return {
        (section, _option_name(key)): value
        for section in parser.sections()
        for key, value in parser.items(section)
    }


def _files(variables: Mapping[str, str]) -> list[Path]:
    given = variables.get("PIP_CONFIG_FILE")
    if given == os.devnull:
        return []
    base = "pip.ini" if sys.platform == "win32" else "pip.conf"
    folders = [*_system_folders()]
    if not (given and os.path.exists(given)):
        legacy = "pip" if sys.platform == "win32" else ".pip"
        folders += [Path.home() / legacy, _user_folder()]
    paths = [Path(folder) / base for folder in (*folders, sys.prefix)]
    return [*paths, Path(given)] if given else paths


def _system_folders() -> Iterable[str | Path]:
    if sys.platform == "darwin":
        return [platformdirs.site_data_dir("pip", appauthor=False)]
    found = platformdirs.site_config_dir("pip", appauthor=False, multipath=True)
    return [found] if sys.platform == "win32" else [*found.split(os.pathsep), "/etc"]


def _user_folder() -> Path:
    if sys.platform == "darwin":
        found = platformdirs.user_data_path("pip", appauthor=False)
        return found if found.is_dir() else Path.home() / ".config" / "pip"
    return platformdirs.user_config_path("pip", appauthor=False, roaming=True)


def _read(path: Path) -> Values:
    try:
        text = path.read_text(encoding=locale.getpreferredencoding(False))
    except OSError:  # pip ignores unreadable files too
        return {}
    except UnicodeDecodeError:
        raise UsageError(f"pip's configuration cannot be read: {path} is not a text file") from None
    return parse(text, str(path))


def _option_name(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")


def _path(value: str | None) -> str | None:
    return os.path.expanduser(value) if value else None


def _boolean(key: str, value: str) -> bool:
    word = value.lower()
    if word not in (*_TRUE, *_FALSE):
        raise UsageError(f"pip's {key} must be yes or no, not {value!r}")
    return word in _TRUE


def _seconds(value: str | None) -> float:
    if not value:
        return SECONDS
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < math.inf:
        raise UsageError(f"pip's timeout must be a number of seconds, not {value!r}")
    return seconds
