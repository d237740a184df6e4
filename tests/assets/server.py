"""A package index that misbehaves on demand: it resets, cuts, lies and refuses.

`plan` holds what happens to the next requests for a file, `pages` to the next ones for a page;
when a list is empty the server behaves.
"""

import json
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JUNK = b"<html>this is not a package</html>"


class Shop(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(files)
        self.plan: list[str] = []
        self.pages: list[str] = []
        self.kind = "html"
        self.digest = ""
        self.asked: list[str] = []  # the Range of every request for a file
        self.hanging = threading.Event()
        self.go_on = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def index(self) -> str:
        return f"{self.url}/simple"

    @classmethod
    @contextmanager
    def open(cls, files: Mapping[str, bytes]) -> Iterator["Shop"]:
        server = cls(files)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            server.server_close()
            thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is not news."""


class Handler(BaseHTTPRequestHandler):
    server: Shop  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if self.path.startswith("/simple/") or self.path == "/links":
            self.page(self.server.pages.pop(0) if self.server.pages else "ok")
        elif name in self.server.files:
            self.server.asked.append(self.headers.get("Range", ""))
            self.file(
                self.server.files[name], self.server.plan.pop(0) if self.server.plan else "ok"
            )
        else:
            self.answer(404, JUNK)

    def page(self, what: str) -> None:
        if what.isdigit():
            return self.answer(int(what), JUNK)
        if what == "reset":
            return self.reset()
        if what == "junk":
            return self.answer(200, b"\0\xff{" * 501, {"Content-Type": "application/x-nonsense"})
        if self.path not in ("/simple/peb-bles/", "/links"):
            return self.answer(404, JUNK)
        names = list(self.server.files)
        if self.server.kind == "json":
            files = [
                {"filename": n, "url": f"{self.server.url}/files/{n}", "hashes": {}} for n in names
            ]
            page = {"meta": {"api-version": "1.0"}, "name": "peb-bles", "files": files}
            kind = "application/vnd.pypi.simple.v1+json"
            return self.answer(200, json.dumps(page).encode(), {"Content-Type": kind})
        mark = f"#sha256={self.server.digest}" if self.server.digest else ""
        links = "".join(f'<a href="../../files/{name}{mark}">{name}</a>\n' for name in names)
        self.answer(200, f"<html><body>{links}".encode(), {"Content-Type": "text/html"})

    def file(self, data: bytes, what: str) -> None:
        word, _, number = what.partition(":")
        count, size = int(number or 0), len(data)
        others: dict[str, tuple[bytes, dict[str, str]]] = {
            "whole": (data, {}),  # a server that knows no ranges
            "junk": (b"x" * (count or size), {"Content-Length": str(size), "Connection": "close"}),
            "more": (data + JUNK, {}),
            "short": (data[:count], {}),  # announces less than there is, and keeps to it
            "long": (data, {"Content-Length": str(size + 97), "Connection": "close"}),
            "gzip": (data, {"Content-Encoding": "gzip"}),  # of what simply is an archive
        }
        if word.isdigit():
            self.answer(int(word), JUNK)
        elif word == "shifted":  # answers a range with another one
            self.answer(206, data[1:], {"Content-Range": f"bytes 1-{size - 1}/{size}"})
        elif word in others:
            self.answer(200, *others[word])
        else:
            self.part(data, word, count)

    def part(self, data: bytes, word: str, count: int) -> None:
        start, size = self.start_of(data), len(data)
        part = data[start:]
        extra = {"Content-Range": f"bytes {start}-{size - 1}/{size}"} if start else {}
        self.head(206 if start else 200, {"Content-Length": str(len(part)), **extra})
        self.body(part, word, count)

    def start_of(self, data: bytes) -> int:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        return int(found[1]) if found else 0

    def body(self, part: bytes, word: str, count: int) -> None:
        self.wfile.write(part if word == "ok" else part[:count])
        self.wfile.flush()
        if word == "reset":
            self.reset()
        elif word == "cut":
            self.close_connection = True
        elif word == "hang":
            self.server.hanging.set()
            self.server.go_on.wait(60)
            self.close_connection = True
        elif word == "slow":
            self.server.hanging.set()
            self.server.go_on.wait(60)
            self.wfile.write(part[count:])

    def answer(self, status: int, data: bytes, extra: Mapping[str, str] | None = None) -> None:
        self.head(status, {"Content-Length": str(len(data)), **(extra or {})})
        self.wfile.write(data)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)  # "Connection: close" is kept to
        self.end_headers()

    def reset(self) -> None:
        """Hang up with RST, in the middle of a word."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
