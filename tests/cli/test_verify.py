"""The command `verify`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fgg.cli import main


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "hmm_rank", "--length", "2", "--trials", "2", "--no-float"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("hmm_rank: proved\n  sizes used: k = 2, d = 3, r = 2 (made small")
    assert "after rank_space  rank" in out and "degree 7, chance" in out
    assert "left out: programs" in out


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "hmm", "--length", "2", "--items", "6", "--no-peaked", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["verdict"] == "proved" and found["query"] == "string"
    assert {"what", "space", "quantity", "degree", "chance"} <= set(found["rows"][0])


def test_the_command_says_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fgg.library import library_text

    path = tmp_path / "other.fgg"
    path.write_text(library_text("hmm").replace("trans(t, u)", "trans(u, t)"), "utf-8")
    command = ["verify", "hmm", "--against", str(path), "--length", "3"]
    assert main([*command, "--no-float"]) == 1
    out = capsys.readouterr().out
    assert "hmm: refuted" in out and "rule: `step`" in out and "source: 1\n" in out
    assert main([*command, "--json", "--set", "k=2", "d=2"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["counterexample"]["lengths"] == {"n": 2} and not found["ok"]
    assert found["sizes"] == {"k": 2, "d": 2}
    assert found["counterexample"]["sizes"] == {"k": 2, "d": 1}


def test_the_command_knows_what_is_wrong_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "branching"]) == 1  # nothing to compare: undecided
    assert main(["verify", "hmm", "--after", "folt"]) == 2
    assert "did you mean `fold`?" in capsys.readouterr().err
    assert main(["verify", "hmm", "--trials", "0"]) == 2
    assert main(["verify", "pcfg_la"]) == 2
    assert main(["verify", "nothing_there"]) == 2
