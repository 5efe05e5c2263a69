"""Who may speak to the explorer: the page that it opened itself, and nobody else.

The server listens on the loopback interface, but so does every page that a browser shows: it can
send requests to 127.0.0.1, and with a name of its own that it points there (DNS rebinding) it could
read the answers too. Therefore every address begins with a random token, the header `Host` has to
name the loopback interface, and `Origin` and `Sec-Fetch-Site`, where a browser sends them, have to
name the page itself. What changes or computes anything is a POST of JSON, which a foreign page
cannot send without being asked for its origin first.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from email.message import Message
from typing import NamedTuple

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""The names of the loopback interface that requests may use."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""The headers of every answer."""


class Turned(NamedTuple):
    """A request that is turned away: the status of the answer, and why."""

    status: int
    reason: str


@dataclass(frozen=True)
class Guard:
    """The token of a server and the port that it listens on."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def path(self, target: str) -> str | None:
        """What of a request's target stands behind the token; None if the token is wrong."""
        start, _, rest = target.partition("?")[0].removeprefix("/").partition("/")
        same = hmac.compare_digest(start.encode("utf-8", "replace"), self.token.encode())
        return rest if same else None

    def turned(self, method: str, target: str, headers: Message) -> Turned | None:
        """Why a request is turned away; None if it is the page's own."""
        hosts = headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in {f"{name}:{self.port}" for name in NAMES}:
            return Turned(421, "this host is not served here")
        origins = headers.get_all("Origin", [])
        own = f"http://{hosts[0].lower()}"
        if len(origins) > 1 or (origins and origins[0].lower() != own):
            return Turned(403, "another page may not ask")
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return Turned(403, "another page may not ask")
        if self.path(target) is None:
            return Turned(404, "there is nothing here")
        if method == "POST":
            if not origins:
                return Turned(403, "the origin is missing")
            if headers.get_content_type() != "application/json":
                return Turned(415, "JSON is expected")
        return None
