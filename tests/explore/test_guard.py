"""Explorer: only the page that it opened itself may speak to it."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from fgg.explore.files import FILES
from fgg.explore.guard import HEADERS
from fgg.explore.server import Server
from tests.helpers.explorer import sent, served


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served("hmm") as running:
        yield running


def test_it_listens_on_the_loopback_interface_alone(server: Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_tokens_are_random_and_long(server: Server) -> None:
    with served("hmm") as other:
        assert other.guard.token != server.guard.token
    assert len(server.guard.token) >= 32 and server.guard.token in server.guard.address


@pytest.mark.parametrize("token", ["", "x", "%c3%a9", "../..", "%2e%2e", "x" * 60_000])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_there_is_nothing(server: Server, token: str, method: str) -> None:
    reply = sent(server, method, "start", {}, token=token)
    assert reply.status == 404 and reply.body == b"there is nothing here"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:{port}", "[::1]:{port}", ""]
)
def test_other_hosts_are_turned_away(server: Server, host: str) -> None:
    given = host.replace("{port}", str(server.guard.port))
    assert sent(server, "GET", "start", headers={"Host": given}).status == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_origins_are_turned_away(server: Server, origin: str, method: str) -> None:
    given = origin.replace("{port}", str(server.guard.port))
    assert sent(server, method, "start", {}, {"Origin": given}).status == 403


def test_a_post_says_where_it_comes_from_and_is_json(server: Server) -> None:
    assert sent(server, "POST", "view/check", {}, {"Origin": ""}).status == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        reply = sent(server, "POST", "view/check", {}, {"Content-Type": kind})
        assert reply.status == 415


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_browsers_say_that_another_page_asks(server: Server, site: str) -> None:
    assert sent(server, "GET", "start", headers={"Sec-Fetch-Site": site}).status == 403


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "HEAD", "TRACE"])
def test_other_methods_do_nothing(server: Server, method: str) -> None:
    reply = sent(server, method, "view/check")
    assert reply.status == 501 and "Access-Control-Allow-Origin" not in reply.headers


def test_every_answer_forbids_what_is_foreign(server: Server) -> None:
    for path in ("", "start", "nothing", *FILES):
        reply = sent(server, "GET", path)
        assert {name: reply.headers[name] for name in HEADERS} == HEADERS
        assert not any(name.startswith("Access-Control") for name in reply.headers)
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


@pytest.mark.parametrize(
    "path", ["../guard.py", "..%2fguard.py", "__init__.py", "/etc/passwd", "view/../start", "x"]
)
def test_only_files_of_the_page_are_sent(server: Server, path: str) -> None:
    assert sent(server, "GET", path).status == 404


def test_the_page_names_nothing_foreign(server: Server) -> None:
    for name in FILES:
        text = sent(server, "GET", name).body.decode()
        links = re.findall(r"""(?:https?:)?//[\w.]+\.[\w/]+""", re.sub(r"(?m)^\s*//.*", "", text))
        assert set(links) <= {"http://www.w3.org/2000/svg"}, name


def test_bodies_are_limited(server: Server) -> None:
    much = {"Content-Length": "3000000"}
    assert sent(server, "POST", "view/check", {}, much).status == 413
    for length in ("-1", "x", "9" * 40):
        assert sent(server, "POST", "view/check", {}, {"Content-Length": length}).status == 411
    for body in (b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"null"):
        assert sent(server, "POST", "view/check", body).status == 400


def test_what_is_no_request_of_the_protocol_is_survived(server: Server) -> None:
    for data in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 99):
        with socket.create_connection(("127.0.0.1", server.guard.port), timeout=30) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            raw.recv(100)
    assert sent(server, "GET", "start").status == 200
