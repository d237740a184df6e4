"""Templates and other files of this package from which HTML pages are made."""

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import jinja2

from attnlab.report.text import counted


def page_template(
    name: str, filters: Mapping[str, Callable[..., Any]] | None = None
) -> jinja2.Template:
    """A template that escapes every value; an unknown name in it is an error."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters or {}
    environment.globals["counted"] = counted
    return environment.from_string(package_file(name))


def package_file(name: str) -> str:
    """The text of a file beside this module."""
    return resources.files("attnlab.report").joinpath(name).read_text(encoding="utf-8")
