"""A Ray cluster to work on: one that is there, or one of our own that ends with us.

Our own listens on the loopback only, asks for a token that never leaves this process and its
children, starts no dashboard and sends no usage report.
"""

import importlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from filelock import FileLock, Timeout

from attnlab.core.errors import AttnlabError, MissingError, UsageError
from attnlab.core.extras import require
from attnlab.lab.stop import SIGNALS, restored_handlers

FLOOR = (2, 54)  # CVE-2026-27482
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
ONE_TRY = {"RAY_NUM_REDIS_GET_RETRIES": "1"}  # of 40 s each, for a cluster that is not there
REACH_SECONDS = 5.0
YOUNG_SECONDS = 60.0  # a temporary folder may be without its lock for a moment
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
_locks: list[FileLock] = []  # held until this process ends


def require_ray() -> None:
    """UsageError, one line, where Ray is missing or older than its repaired versions."""
    require("cluster", "engine 'ray'")
    version = metadata.version("ray")
    if tuple(int(part) for part in version.split(".")[:2]) < FLOOR:
        floor = ".".join(map(str, FLOOR))
        raise UsageError(f"engine 'ray' needs Ray {floor} or later, this is {version}: upgrade it")


@contextmanager
def connected(address: str | None, workers: int) -> Iterator[Any]:
    """The `ray` module, connected; what was not connected before is disconnected afterwards."""
    with ExitStack() as stack:
        own = {**LOOPBACK, "RAY_AUTH_TOKEN": _token()}
        stack.enter_context(_environment(QUIET | (own if address is None else ONE_TRY)))
        stack.enter_context(restored_handlers(*SIGNALS))  # Ray replaces them
        ray = importlib.import_module("ray")
        if not ray.is_initialized():
            where: dict[str, Any] = {"address": address}
            if address is None:
                folder = own_folder("attnlab-ray-")
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                stack.enter_context(_environment({"TMPDIR": folder}))  # what tasks leave goes too
                where = {"address": "local", "num_cpus": workers, "_temp_dir": folder}
                where["include_dashboard"] = False
            stack.callback(_disconnect, ray)
            _start(ray, **where)
        yield ray


def check_address(address: str | None) -> None:
    """Raise unless something answers at this address: Ray itself would try for minutes."""
    if address in (None, "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16 or "/" in host:
        raise UsageError(f"--address {address!r:.60}: host:port of the cluster's head, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise MissingError(f"no Ray cluster at {address:.60}: {why}") from None


def own_folder(prefix: str) -> str:
    """A new temporary folder of this process; those of processes that are dead are removed."""
    for found in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError, Timeout):
            if time.time() - found.stat().st_mtime > YOUNG_SECONDS:
                with FileLock(found / ".lock", timeout=0):
                    shutil.rmtree(found, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=prefix)
    _locks.append(FileLock(Path(folder, ".lock")))
    _locks[-1].acquire()
    return folder


def _start(ray: ModuleType, **where: Any) -> None:
    with restored_handlers(*SIGNALS):
        try:
            ray.init(**where, log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            raise MissingError(
                f"no Ray cluster at {where['address']}: {first_line(error)}"
            ) from None
        except ray.exceptions.AuthenticationError as error:
            raise UsageError(f"Ray cluster at {where['address']}: {first_line(error)}") from None
        except (RuntimeError, ValueError, OSError) as error:
            raise AttnlabError(f"Ray at {where['address']}: {first_line(error)}") from None


def _disconnect(ray: ModuleType) -> None:
    if ray.is_initialized():
        ray.shutdown()


@cache
def _token() -> str:
    """One per process: Ray remembers the first it is given."""
    return secrets.token_hex(32)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Variables Ray reads when it starts, for as long as it runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def first_line(error: BaseException) -> str:
    """What an error says first; its kind where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
