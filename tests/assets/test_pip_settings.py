"""pip's settings are read as pip reads them: compared with pip itself, and with any text."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.assets.pip_settings import PipSettings, parse, read_settings, resolve_options
from attnlab.core.errors import UsageError

OURS = ("index-url", "extra-index-url", "find-links", "no-index", "proxy", "cert", "timeout")


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files are elsewhere")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and no variables of pip's."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{tmp_path / 'etc1'}{os.pathsep}{tmp_path / 'etc2'}")
    return tmp_path


def write(home: Path, **texts: str) -> None:
    places = {
        "user": home / "config" / "pip" / "pip.conf",
        "legacy": home / ".pip" / "pip.conf",
        "system": home / "etc1" / "pip" / "pip.conf",
        "other": home / "etc2" / "pip" / "pip.conf",
        "given": home / "given.conf",
    }
    for name, text in texts.items():
        places[name].parent.mkdir(parents=True, exist_ok=True)
        places[name].write_text(text, encoding="utf-8")


def pip_says() -> PipSettings:
    """What `pip config list` knows, settled by section as pip's own options are."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    values = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.partition(".")
        if option in OURS:
            values["" if section == ":env:" else section, option] = ast.literal_eval(value)
    return resolve_options(values)


LAYERS = {
    "nothing": ({}, {}),
    "user": ({"user": "[global]\nindex-url = http://u/simple\ntimeout = 7\n"}, {}),
    "user over legacy over system": (
        {
            "user": "[global]\nindex-url = http://u\ncert = /c.pem\n",
            "legacy": "[global]\nindex-url = http://l\nextra-index-url = http://e http://f\n",
            "system": "[global]\nindex-url = http://s\nproxy = http://p:1\n",
            "other": "[global]\nfind-links =\n  /a\n  http://b\n",
        },
        {},
    ),
    "underscores and capitals": ({"user": "[global]\nIndex_URL = http://u\nNO-INDEX = yes\n"}, {}),
    "a section beats global": (
        {
            "user": "[global]\nindex-url = http://g\n",
            "system": "[download]\nindex-url = http://d\n",
        },
        {},
    ),
    "another section": ({"user": "[wheel]\nindex-url = http://w\n[list]\nproxy = x\n"}, {}),
    "variables win": (
        {"user": "[global]\nindex-url = http://u\n[download]\nfind-links = /d\n"},
        {"PIP_INDEX_URL": "http://v", "PIP_FIND_LINKS": "/x /y", "PIP_NO_INDEX": "off"},
    ),
    "empty values do not count": (
        {"user": "[global]\nindex-url = http://u\nproxy =\n"},
        {"PIP_INDEX_URL": "", "PIP_EXTRA_INDEX_URL": " "},
    ),
    "a given file hides the user's": (
        {
            "user": "[global]\nindex-url = http://u\nproxy = http://p\n",
            "given": "[global]\nindex-url = http://g\n",
            "system": "[global]\ntimeout = 3\n",
        },
        {"PIP_CONFIG_FILE": "given.conf"},
    ),
    "a given file that is not there hides nothing": (
        {"user": "[global]\nindex-url = http://u\n"},
        {"PIP_CONFIG_FILE": "nowhere.conf"},
    ),
    "the null device hides all": (
        {"user": "[global]\nindex-url = http://u\n", "system": "[global]\nproxy = http://p\n"},
        {"PIP_CONFIG_FILE": os.devnull, "PIP_TIMEOUT": "11"},
    ),
    "percent signs and hashes": (
        {"user": "[global]\nindex-url = http://a:b%40c@h/s # not a comment\n; one\nproxy=%(x)s\n"},
        {},
    ),
}


@pytest.mark.parametrize("what", LAYERS)
def test_settings_equal_those_of_pip_itself(
    home: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    texts, variables = LAYERS[what]
    write(home, **texts)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(home / value) if value.endswith(".conf") else value)
    assert read_settings() == pip_says()


def test_values(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, variables = LAYERS["user over legacy over system"]
    write(home, **texts)
    assert variables == {}
    assert read_settings() == PipSettings(
        index="http://u",
        extra=("http://e", "http://f"),
        find_links=("/a", "http://b"),
        proxy="http://p:1",
        cert="/c.pem",
    )
    monkeypatch.setenv("PIP_CLIENT_CERT", "~/key.pem")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    found = read_settings()
    assert (found.client_cert, found.timeout) == (str(home / "key.pem"), 180.0)
    assert found.indexes == ()


def test_without_settings_the_clients_own_index_is_used(home: Path) -> None:
    assert read_settings({"PIP_CONFIG_FILE": os.devnull}).indexes == (None,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PIP_NO_INDEX", "perhaps"),
        ("PIP_TIMEOUT", "long"),
        ("PIP_TIMEOUT", "nan"),
        ("PIP_TIMEOUT", "-1"),
        ("PIP_TIMEOUT", "inf"),
        ("PIP_TIMEOUT", "0"),
    ],
)
def test_values_that_are_none(name: str, value: str) -> None:
    with pytest.raises(UsageError, match="pip's"):
        read_settings({"PIP_CONFIG_FILE": os.devnull, name: value})


@pytest.mark.parametrize("text", ["index-url = x", "[global\n", "[a]\n[a]\n", "[global]\nno value"])
def test_files_of_a_wrong_kind_are_refused(home: Path, text: str) -> None:
    write(home, user=text)
    with pytest.raises(UsageError, match="pip's configuration cannot be read") as caught:
        read_settings()
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_text(home: Path) -> None:
    write(home, user="")
    (home / "config" / "pip" / "pip.conf").write_bytes(b"[global]\nproxy = \xff\xfe\n")
    with pytest.raises(UsageError, match="not a text file"):
        read_settings()


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_a_configuration_or_refused(text: str) -> None:
    try:
        values = parse(text)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert all("_" not in key for _, key in values)


KEYS = st.sampled_from(("index-url", "extra-index-url", "find-links"))
VALUES = st.lists(st.text("abc:/@.%#;", min_size=1, max_size=9), min_size=1, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from(("global", "download")), KEYS), VALUES))
def test_what_is_written_is_read(values: dict[tuple[str, str], list[str]]) -> None:
    lines = [
        f"[{section}]\n"
        + "".join(
            f"{key} = {' '.join(value)}\n"
            for (where, key), value in values.items()
            if where == section
        )
        for section in ("global", "download")
    ]
    found = resolve_options(parse("\n".join(lines)))
    for key, got in (("extra-index-url", found.extra), ("find-links", found.find_links)):
        expected = values.get(("download", key)) or values.get(("global", key)) or []
        assert list(got) == expected
