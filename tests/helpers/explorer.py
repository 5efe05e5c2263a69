"""Explorers for tests: servers on the loopback interface, requests to them, and views by name."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from fgg.explore.asked import Answer, Asked, Home
from fgg.explore.lanes import VIEWS, Lanes
from fgg.explore.server import Application, Server
from fgg.explore.start import opened
from fgg.library import library_text

MEMORY = 4 * 2**30
JSON = {"Content-Type": "application/json"}


@contextmanager
def served(
    file: str | None = None, *, memory: int = MEMORY, seconds: float | None = None
) -> Iterator[Server]:
    """A server that runs."""
    home, start = opened(file, memory)
    lanes = Lanes(home, seconds)
    server = Server(Application(start, lanes))
    thread = threading.Thread(target=lambda: server.serve_forever(0.05))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        lanes.close()


@dataclass(frozen=True)
class Reply:
    """A server's answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def lines(self) -> list[Answer]:
        """The JSON texts of a stream."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def outcome(self) -> Answer:
        """The last line of a stream."""
        return self.lines[-1]


def sent(
    server: Server,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    token: str | None = None,
) -> Reply:
    """Send a request as the page does, with some headers changed, or left out if they are empty."""
    guard = server.guard
    connection = http.client.HTTPConnection("127.0.0.1", guard.port, timeout=120)
    own = {"Host": f"127.0.0.1:{guard.port}"}
    if method == "POST":
        own |= {**JSON, "Origin": f"http://127.0.0.1:{guard.port}"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    if method == "POST":
        own["Content-Length"] = str(len(data))
    own |= headers or {}
    target = f"/{guard.token if token is None else token}/{path}"
    connection.putrequest(method, target, skip_host=True)
    for name, value in own.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders(data if method == "POST" else None)
    answer = connection.getresponse()
    reply = Reply(answer.status, dict(answer.getheaders()), answer.read())
    connection.close()
    return reply


def asked(grammar: str, **options: object) -> Asked:
    """A request about a library grammar, or about the text that `text` gives."""
    return Asked.of(Home(), {"text": library_text(grammar), **options})


@dataclass
class Viewed:
    """What a view answered: its parts, and its end."""

    done: Answer = field(default_factory=dict)
    parts: list[Answer] = field(default_factory=list)

    def all(self, key: str) -> list[Any]:
        """The parts of a kind."""
        return [part[key] for part in self.parts if key in part]


def viewed(view: str, request: Asked) -> Viewed:
    """What a view answers, computed here. Raises GrammarError."""
    module = import_module(f"fgg.explore.views.{VIEWS[view].module}")
    answer = Viewed()
    answer.done = module.view(request, answer.parts.append)
    return answer
