"""The server behind the page: its files, and a stream of JSON lines for each view.

    GET  /TOKEN/            the page; also its scripts and style sheets
    GET  /TOKEN/start       what the page begins with: the text, the library, the folder's models
    GET  /TOKEN/library?pcfg    the text of a library grammar
    POST /TOKEN/view/NAME   a request of a view (`asked.py`); the answer is a JSON text a line
    POST /TOKEN/export      the state of the page; the answer is one self-contained page

A connection carries one request. Closing it gives the request up.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fgg.explore.asked import Answer
from fgg.explore.export import exported
from fgg.explore.files import FILES, page_file
from fgg.explore.guard import HEADERS, HOST, Guard
from fgg.explore.lanes import VIEWS, Lanes
from fgg.library import library_names, library_text

MAX_BODY = 2 * 2**20
MAX_EXPORT = 64 * 2**20
MAX_CONNECTIONS = 24
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class Application:
    """What a server serves: the state that pages begin with, and the lanes that compute."""

    start: Answer
    lanes: Lanes


class Server(ThreadingHTTPServer):
    """The server; it listens on the loopback interface only."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, application: Application, port: int = 0) -> None:
        """Listen on a port; 0 means any that is free. Raises OSError."""
        super().__init__((HOST, port), Handler)
        self.application = application
        self.guard = Guard(self.server_address[1])
        self.places = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass over connections that break; report what else goes wrong in a line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"explorer: {type(error).__name__}: {error}", file=sys.stderr)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    server_version = "fggc"
    sys_version = ""
    timeout = 30

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep quiet: addresses have the token in them."""

    def handle_one_request(self) -> None:
        """Answer, unless too many connections are open."""
        if not self.server.places.acquire(blocking=False):
            self.close_connection = True
            return
        try:
            super().handle_one_request()
        finally:
            self.server.places.release()

    def do_GET(self) -> None:
        """Send a file of the page, or what the page begins with."""
        path = self._admitted()
        if path is None:
            return
        name = path or "index.html"
        if name == "start":
            self._json(self.server.application.start)
        elif name == "library":
            grammar = self.path.partition("?")[2]
            if grammar in library_names():
                self._json({"name": grammar, "text": library_text(grammar)})
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "the library has no such grammar")
        elif name in FILES:
            kind = TYPES[name.rpartition(".")[2]]
            self._whole(page_file(name).encode(), f"{kind}; charset=utf-8")
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def do_POST(self) -> None:
        """Compute a view, or export the page."""
        path = self._admitted()
        if path is None:
            return
        kind, _, view = path.partition("/")
        if path == "export":
            body = self._body(MAX_EXPORT)
            if body is not None:
                self._whole(exported(body).encode(), "text/html; charset=utf-8")
        elif kind == "view" and view in VIEWS:
            body = self._body(MAX_BODY)
            if body is not None:
                self._stream(self.server.application.lanes.run(view, body, self._hung_up))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _admitted(self) -> str | None:
        """The path behind the token, if the request is the page's own; else it is turned away."""
        turned = self.server.guard.turned(self.command, self.path, self.headers)
        if turned is not None:
            self._refuse(turned.status, turned.reason)
            return None
        return self.server.guard.path(self.path)

    def _body(self, limit: int) -> Answer | None:
        """The JSON object that was sent; a request without one is refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 12):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a length is expected")
            return None
        if int(length) > limit:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "this is too much")
            return None
        data = self.rfile.read(int(length))
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or len(data) < int(length):
            self._refuse(HTTPStatus.BAD_REQUEST, "a JSON object is expected")
            return None
        return body

    def _hung_up(self) -> bool:
        """Whether the page has closed the connection."""
        try:
            ready = select.select([self.connection], [], [], 0)[0]
            return bool(ready) and not self.connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def _head(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def _whole(self, data: bytes, kind: str, status: int = HTTPStatus.OK) -> None:
        self._head(status, kind, len(data))
        self.wfile.write(data)

    def _json(self, value: Answer) -> None:
        self._whole(json.dumps(value).encode(), "application/json")

    def _refuse(self, status: int, reason: str) -> None:
        self._whole(reason.encode(), "text/plain; charset=utf-8", status)

    def _stream(self, lines: Iterator[Answer]) -> None:
        self._head(HTTPStatus.OK, "application/x-ndjson")
        try:
            for line in lines:
                self.wfile.write(json.dumps(line).encode() + b"\n")
                self.wfile.flush()
        except OSError:
            pass  # the page has gone; the lane gives the request up
        finally:
            close: Callable[[], None] | None = getattr(lines, "close", None)
            if close is not None:
                close()
