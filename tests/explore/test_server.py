"""Explorer: computations run in workers, within limits, and can be given up."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fgg.explore.asked import Home
from fgg.explore.lanes import VIEWS, Lane
from fgg.explore.server import Server
from fgg.library import library_names, library_text
from tests.generators.mutations import mutate, noise
from tests.helpers.explorer import Reply, sent, served

CHAIN = """
domain W = {w} factor emit(-> W){v} nonterminal S() start S rule S -> emit(o)
query string(w: W[n]) {{ rule S -> o = w[0] }}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served("hmm") as running:
        yield running


def checked(server: Server, text: object, **options: object) -> Reply:
    return sent(server, "POST", "view/check", {"text": text, **options})


def codes(reply: Reply) -> list[str]:
    """The codes of the diagnostics in an answer, of a check or of a problem."""
    outcome = reply.outcome
    holder = outcome.get("done") or outcome["problem"]
    assert isinstance(holder, dict)
    return [diagnostic["code"] for diagnostic in holder["diagnostics"]]


def test_the_page_begins_with_the_text_and_the_library(server: Server) -> None:
    start = json.loads(sent(server, "GET", "start").body)
    assert start["name"] == "hmm.fgg" and start["text"] == library_text("hmm")
    assert [entry["name"] for entry in start["library"]] == [*library_names()]
    answer = json.loads(sent(server, "GET", "library?pcfg").body)
    assert answer == {"name": "pcfg", "text": library_text("pcfg")}
    assert sent(server, "GET", "library?../hmm").status == 404


def test_a_text_is_checked_by_the_engine(server: Server) -> None:
    done = checked(server, library_text("hmm"), sizes={"k": 3, "other": 2}).outcome["done"]
    assert isinstance(done, dict) and done["ok"] and done["query"] == "string"
    assert {"name": "k", "value": 3} in done["sizes"]
    assert done["queries"][0]["inputs"][0]["name"] == "w"
    reply = checked(server, library_text("hmm").replace("emit(t, o)", "emmit(t, o)"))
    assert codes(reply)[0] == "F103"
    done = reply.outcome["done"]
    assert isinstance(done, dict) and done["diagnostics"][0]["fix"] == "emit"


def test_places_count_as_browsers_do(server: Server) -> None:
    text = "# \U0001d54f\U0001d54f é\ndomain W = Nn"
    done = checked(server, text).outcome["done"]
    assert isinstance(done, dict)
    (diagnostic,) = [d for d in done["diagnostics"] if "Nn" in d["message"]]
    units = text.encode("utf-16-le")
    assert units[2 * diagnostic["start"] : 2 * diagnostic["end"]].decode("utf-16-le") == "Nn"
    assert diagnostic["line"] == 2


@pytest.mark.parametrize(
    "request_",
    [
        {"text": 3},
        {"text": None},
        {"text": "x" * 200_001},
        {"text": "", "sizes": {"k": 0}},
        {"text": "", "sizes": {"k": True}},
        {"text": "", "sizes": [1]},
        {"text": "", "query": 1},
        {"text": "", "space": "outer"},
    ],
)
def test_wrong_requests_are_refused(server: Server, request_: dict[str, object]) -> None:
    assert codes(sent(server, "POST", "view/check", request_)) == ["F415"]


def test_mutations_of_the_library_are_survived(server: Server) -> None:
    rng = random.Random(7)
    texts = [mutate(rng, library_text(rng.choice(library_names()))) for _ in range(25)]
    for text in [*texts, *(noise(rng) for _ in range(10))]:
        outcome = checked(server, text).outcome
        assert "done" in outcome, outcome


def test_mutations_are_compiled_or_refused(server: Server) -> None:
    rng = random.Random(11)
    for _ in range(4):
        text = mutate(rng, library_text(rng.choice(library_names())))
        outcome = sent(server, "POST", "view/passes", {"text": text}).outcome
        problem = outcome.get("problem")
        assert problem is None or (isinstance(problem, dict) and problem["kind"] == "refused")


@pytest.mark.slow
@pytest.mark.parametrize("view", ["program", "inference", "proof", "identify"])
def test_mutations_are_answered_or_refused_by_every_view(server: Server, view: str) -> None:
    rng = random.Random(f"{view} 13")
    answered = 0
    while answered < 4:
        text = mutate(rng, library_text(rng.choice(library_names())))
        if not checked(server, text).outcome.get("done", {}).get("ok"):  # type: ignore[attr-defined]
            continue
        answered += 1
        typed = rng.choice(["0 1", "", "[[0], [1]]", "[NaN]", "-1 -7", "a \ud800"])
        given = {"text": text, "inputs": {"w": typed}, "trials": 1, "length": 2}
        given |= {"fault": rng.choice(["", "drop_rule", "shift_index"])} if view == "proof" else {}
        problem = sent(server, "POST", f"view/{view}", given).outcome.get("problem")
        assert problem is None or (isinstance(problem, dict) and problem["kind"] == "refused")


def test_time_is_limited() -> None:
    with served("pcfg", seconds=0.001) as server:
        reply = sent(server, "POST", "view/passes", {"text": library_text("lexpcfg")})
        assert codes(reply) == ["F438"]


def test_a_worker_that_has_ended_is_replaced(server: Server) -> None:
    assert codes(checked(server, "domain W = Nn"))
    worker = server.application.lanes.lanes["editor"].worker
    assert worker is not None
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    assert codes(checked(server, "domain W = Nn"))


def test_a_request_that_is_given_up_ends_its_worker() -> None:
    lane = Lane("compiler", Home())
    try:
        lane.start()
        before = lane.worker
        assert before is not None
        request: dict[str, object] = {"text": library_text("lexpcfg_rank")}
        assert list(lane.run("passes", request, lambda: True)) == []
        assert before.process.poll() is not None and lane.worker is not before
        assert list(lane.run("passes", {"text": ""}, lambda: False))[-1].keys() == {"problem"}
    finally:
        lane.close()


def test_closing_the_connection_gives_a_request_up(server: Server) -> None:
    lane = server.application.lanes.lanes["compiler"]
    assert "done" in sent(server, "POST", "view/passes", {"text": library_text("hmm")}).outcome
    before = lane.worker
    assert before is not None
    body = json.dumps({"text": library_text("lexpcfg_rank")}).encode()
    guard = server.guard
    with socket.create_connection(("127.0.0.1", guard.port)) as raw:
        own = f"127.0.0.1:{guard.port}"
        raw.sendall(
            f"POST /{guard.token}/view/passes HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        raw.recv(10)
    before.process.wait(60)  # it is ended
    assert "done" in sent(server, "POST", "view/passes", {"text": library_text("hmm")}).outcome


def test_texts_read_files_of_their_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("a\nb\n")
    np.save(tmp_path / "secret.npy", np.array([0.5, 0.5]))
    (folder / "words.txt").write_text("a\nb\n")
    (folder / "linked.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "part.fgg").write_text("domain W = 3")
    (folder / "main.fgg").write_text(CHAIN.format(w='file("words.txt")', v=""))
    outside = "it is outside of the grammar's folder"
    with served(str(folder / "main.fgg")) as server:
        assert codes(checked(server, (folder / "main.fgg").read_text())) == []
        for w, v in (
            ('file("../secret.txt")', ""),
            ('file("linked.txt")', ""),
            (f'file("{tmp_path / "secret.txt"}")', ""),
            ('file("/etc/passwd")', ""),
            ('file("/etc/absent")', ""),
            ("2", ' = load("../secret.npy")'),
        ):
            assert outside in str(checked(server, CHAIN.format(w=w, v=v)).outcome)
        for name in ("../part.fgg", str(tmp_path / "part.fgg"), "/etc/passwd"):
            assert outside in str(checked(server, f'use "{name}"').outcome)


def test_without_a_file_texts_read_no_files(server: Server, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")
    text = CHAIN.format(w=f'file("{tmp_path / "words.txt"}")', v="")
    assert "no files can be read here" in str(checked(server, text).outcome)
    assert "no files can be read here" in str(checked(server, 'use "x/y.fgg"').outcome)
    assert codes(checked(server, 'use "hmm" start S')) == []


def test_every_view_has_a_module() -> None:
    from importlib import import_module

    for view in VIEWS.values():
        assert callable(import_module(f"fgg.explore.views.{view.module}").view)
