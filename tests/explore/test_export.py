"""Explorer: the page as one file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fgg.cli import main
from fgg.explore.asked import Home
from fgg.explore.export import exported
from fgg.explore.files import FILES, SCRIPTS, STYLES, page_file
from fgg.explore.lanes import VIEWS, Lanes
from fgg.explore.server import Server
from fgg.explore.snapshot import snapshot
from fgg.explore.start import opened
from tests.helpers.explorer import sent, served


def state_of(page: str) -> Any:
    """The state that an exported page holds."""
    found = re.search(r'<script type="application/json" id="exported">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_page_names_all_its_files_in_order() -> None:
    page = page_file("index.html")
    assert tuple(re.findall(r'src="([^"]+)"', page)) == SCRIPTS
    assert tuple(re.findall(r'rel="stylesheet" href="([^"]+)"', page)) == STYLES
    folder = Path(__file__).parents[2] / "fgg/explore/page"
    assert {path.name for path in folder.iterdir() if path.suffix not in (".py", "")} == {*FILES}


def test_an_exported_page_asks_for_nothing() -> None:
    page = exported({"start": {"text": "x"}, "answers": {}})
    outside = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.S)
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,"]
    assert "<script src" not in page and "connect-src" not in page
    assert "default-src 'none'" in outside and "unsafe" not in outside
    for name in (*SCRIPTS, *STYLES):
        assert page_file(name).strip() in page


def test_what_a_page_holds_cannot_end_its_script() -> None:
    text = "</script><script>alert(1)</script><!-- \u2028 ]]> \ud800"
    page = exported({"start": {"text": text}, "answers": {"x": text}})
    assert state_of(page)["start"]["text"] == text
    assert page.count("<script") == 2 and "<!-- \\u2028" not in page


def test_an_exported_page_says_nothing_of_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "a.fgg"
    file.write_text("size k = 2")
    start = opened(str(file), 2**30)[1]
    assert start["folder"] == str(tmp_path)
    assert str(tmp_path) not in exported({"start": start, "answers": {}})


def test_a_snapshot_has_the_answers_of_all_views() -> None:
    _, start = opened("hmm", 2**32)
    with Lanes(Home()) as lanes:
        state = snapshot(start, lanes, ("check", "passes"))
    answers: Any = state["answers"]
    assert answers["check"]["done"]["ok"]
    film = [part["frame"]["name"] for part in answers["passes"]["parts"] if "frame" in part]
    assert film[:2] == ["model", "conjoin"]
    assert "narrow" in film and "problem" not in answers["passes"]


def test_the_server_exports_what_the_page_sends() -> None:
    with served("hmm") as server:
        given = {"start": {"text": "size k = 2"}, "answers": {"check": {"done": {}, "parts": []}}}
        reply = sent(server, "POST", "export", given)
        assert reply.headers["Content-Type"].startswith("text/html")
        held = state_of(reply.body.decode())
        assert held["answers"] == given["answers"] and held["start"]["text"] == "size k = 2"
        assert sent(server, "POST", "export", b"[]").status == 400


@pytest.mark.slow
def test_the_command_exports_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    assert main(["explore", "hmm", "--set", "k=3", "--export", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "file": str(file)}
    state = state_of(file.read_text())
    assert {*state["answers"]} == {*VIEWS}
    assert {"name": "k", "value": 3} in state["answers"]["check"]["done"]["sizes"]


def test_the_command_serves_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(server: Server, poll_interval: float = 0.5) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupted)
    monkeypatch.setattr("fgg.explore.lanes.Lanes.start", lambda self: None)
    assert main(["explore", "hmm", "--no-browser", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32,}/", answer["address"])


@pytest.mark.parametrize(
    "words",
    [["--memory", "0"], ["--time", "0"], ["--port", "70000"], ["--set", "k"], ["no/such.fgg"]],
)
def test_wrong_commands_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = [] if words[0].endswith(".fgg") else ["hmm"]
    assert main(["explore", *file, *words, "--no-browser"]) == 2
    assert "error" in capsys.readouterr().err
