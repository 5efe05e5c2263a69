"""`fggc decompose`, and `--merge` and `--rank` of the other commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fgg.cli import main

GRAMMAR = """
domain T = 4
domain W = 3
factor init(-> T) = uniform
factor trans(T -> T) = [
  [0.5, 0.3, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.1, 0.1, 0.3, 0.5]
]
factor emit(T -> W) = [[0.6, 0.2, 0.2], [0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.1, 0.5, 0.4]]
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> init(t) X(t)
rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
rule last:  X(t) -> emit(t, o)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule step:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> o = w[n-1]
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.fgg").write_text(GRAMMAR)
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The JSON that a command prints, which must work."""
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def log_z(capsys: pytest.CaptureFixture[str], *words: str) -> float:
    return float(str(asked(capsys, "run", *words, "--input", "w=0,2,1")["log_z"]))


def test_the_written_grammar_has_the_value_that_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = asked(
        capsys, "decompose", "m.fgg", "--rank", "trans=2", "--input", "w=0,2,1", "-o", "low.fgg"
    )
    (line,) = report["factors"]
    assert line["rank"] == 2 and 0.01 < line["relative_error"] < 0.2
    moved: dict[str, float] = report["log_z"]
    assert moved["before"] == pytest.approx(log_z(capsys, "m.fgg"))
    assert moved["after"] == pytest.approx(log_z(capsys, "low.fgg"))
    assert moved["moved"] == pytest.approx(moved["after"] - moved["before"])
    assert main(["check", "low.fgg"]) == 0


def test_a_merged_grammar_with_tables_goes_to_rank_space(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked(capsys, "decompose", "m.fgg", "--merge", "--rank", "emit_trans=2", "-o", "low.fgg")
    found = asked(
        capsys,
        "compile",
        "low.fgg",
        "--space",
        "rank",
        "--emit",
        "grammar",
        "--after",
        "rank_space",
    )
    assert "R_emit_trans" in found["grammar"]


def test_pieces_in_a_file_have_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("decompose", "m.fgg", "--merge", "--rank", "emit_trans=3", "--length", "n=2")
    asked(capsys, *words, "-o", "low.fgg", "--weights-out", "p.safetensors")
    pieces = load_file("p.safetensors")
    assert {n: w.shape for n, w in pieces.items()} == {
        "emit_trans_0": (4, 3),
        "emit_trans_1": (3, 3),
        "emit_trans_2": (3, 4),
    }
    assert "rank 3" in Path("low.fgg").read_text()
    one = log_z(capsys, "low.fgg", "--params", "p.safetensors")
    asked(capsys, *words, "-o", "tables.fgg")
    assert one == pytest.approx(log_z(capsys, "tables.fgg"))


def test_weights_are_read_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    low = random.dirichlet([1.0] * 2, size=8) @ random.dirichlet([1.0] * 8, size=2)
    save_file({"trans": low}, "w.safetensors")
    report = asked(
        capsys, "decompose", "hmm", "--weights", "w.safetensors", "--rank-tol", "1e-4",
        "--weights-out", "p.safetensors",
    )  # fmt: skip
    (line,) = report["factors"]
    assert (line["factor"], line["rank"], line["left"]) == ("trans", 2, False)
    assert load_file("p.safetensors")["trans_0"].dtype == np.float64


def test_the_grammar_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decompose", "m.fgg", "--rank", "trans=2", "-o", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("domain T = 4") and "relative error" in printed.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--rank", "trans=0"], "F440"),
        (["--rank", "tran=2"], "F440"),
        (["--rank", "init=2"], "F440"),
        (["--rank", "trans"], "F415"),
        (["--rank", "trans=x"], "F415"),
        (["--rank-tol", "0"], "F415"),
        (["--rank-tol", "nan"], "F415"),
        (["--rank-tol", "1e-3", "--factor", "nope"], "F440"),
        (["--factor", "trans"], "F415"),
        ([], "F415"),
        (["--rank", "trans=2", "--signed", "-o", "x.fgg"], "F415"),
        (["--rank", "trans=2", "--weights", "none.safetensors"], "F401"),
        (["--rank", "trans=2", "--weights", "nan.safetensors"], "F417"),
        (["--rank", "trans=99999999"], "F420"),
        (["--rank", "trans=2", "--query", "string"], "F415"),
        (["--rank", "trans=2", "--input", "w=7"], "F411"),
        (["--rank", "trans=2", "-o", "none/x.fgg"], "F413"),
        (["--rank", "trans=2", "--merge-rule", "nope"], "F415"),
        (["--rank", "trans=2", "--merge"], "F440"),
        (["--rank", "trans=2", "--restarts", "0"], "F415"),
    ],
)
def test_bad_commands_are_refused(
    words: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_file({"trans": np.full((4, 4), np.nan)}, "nan.safetensors")
    assert main(["decompose", "m.fgg", *words, "--json"]) in (1, 2)
    found = json.loads(capsys.readouterr().out)
    assert [d["code"] for d in found["diagnostics"]] == [code]
    assert not Path("x.fgg").exists()


def test_ranks_are_declared_by_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    low = ["hmm", "--merge", "--rank", "emit_trans=8"]
    for words in (
        ["compile", *low, "--space", "rank", "--emit", "cost"],
        ["compile", *low, "--emit", "grammar", "--after", "cpd"],
        ["show", *low, "--emit", "fgg"],
        ["draw", *low, "--space", "rank", "--after", "rank_space", "-o", "h.svg"],
        ["run", *low, "--seed", "1", "--input", "w=0,1"],
    ):
        assert main(words) == 0, words
    assert "emit_trans_2" in capsys.readouterr().out
    assert main(["compile", "m.fgg", "--rank", "trans=2"]) == 2
    assert "fggc decompose" in capsys.readouterr().err
