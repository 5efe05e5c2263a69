"""`fggc run` as a user runs it: options, output, bad input."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.cli.test_commands import run

COIN = """
domain T = {Noun, Verb}
factor f(T, T)
nonterminal S()
start S
rule s: S -> f(a, b)
"""
VALUES = np.array([[1.0, 2.0], [3.0, 4.0]])

Capture = pytest.CaptureFixture[str]


def write(folder: Path, text: str, name: str = "g.fgg") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def scalar(rules: str, **weights: float) -> str:
    lines = [f"factor {n}() = {w!r}" for n, w in weights.items()]
    lines += ["nonterminal S()", "start S"]
    return "\n".join([*lines, *(f"rule r{i}: {r}" for i, r in enumerate(rules.split(";")))])


def report(capsys: Capture, *arguments: str) -> Any:
    """The JSON that a command which succeeds prints."""
    code, out, err = run(capsys, "run", *arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["ok"] is True
    return found


def params(folder: Path, name: str = "p.safetensors", **arrays: Any) -> str:
    save_file({n: np.asarray(a) for n, a in arrays.items()}, folder / name)
    return str(folder / name)


def test_values_are_printed_for_people(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, scalar("S -> p S; S -> q", p=0.5, q=0.25))
    code, out, err = run(capsys, "run", file)
    assert (code, err) == (0, "")
    assert out.startswith("log Z = -0.69314718056\n    Z = 0.5\n")
    assert "linear solve" in out


def test_json_says_what_was_computed_and_how(tmp_path: Path, capsys: Capture) -> None:
    found = report(capsys, write(tmp_path, scalar("S -> p S S; S -> q", p=0.3, q=0.7)))
    assert found["z"] == pytest.approx(1) and found["log_z"] == pytest.approx(0, abs=1e-12)
    assert found["converged"] is True and found["warnings"] == []
    (method,) = found["method"]
    assert method["nonterminals"] == ["S"] and "Newton" in method["method"]
    assert method["steps"] > 1 and method["error_bound"] < 1e-12


@pytest.mark.parametrize(
    ("semiring", "expected"),
    [
        *(("real", 10.0), ("log", log(10)), ("max", log(4)), ("boolean", True)),
        *(("counting", 4), ("gf", 10), ("exact", "10")),
    ],
)
def test_every_semiring_can_be_chosen(
    semiring: str, expected: Any, tmp_path: Path, capsys: Capture
) -> None:
    weights = params(tmp_path, f=VALUES)
    file = write(tmp_path, COIN)
    found = report(capsys, file, "--params", weights, "--semiring", semiring)
    value = pytest.approx(expected) if isinstance(expected, float) else expected
    assert found["value"] == value and found["semiring"] == semiring
    code, out, _ = run(capsys, "run", file, "--params", weights, "--semiring", semiring)
    assert code == 0 and (semiring in out or "log Z" in out)


def test_infinity_is_a_word(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, scalar("S -> p S; S -> q", p=2.0, q=1.0))
    for semiring in ("real", "log"):
        found = report(capsys, file, "--semiring", semiring)
        assert (found["z"], found["log_z"]) == ("inf", "inf")
        assert any("F432" in w for w in found["warnings"])
    assert report(capsys, file, "--semiring", "counting")["value"] == "inf"
    zero = write(tmp_path, scalar("S -> q", q=0.0), "zero.fgg")
    assert report(capsys, zero)["log_z"] == "-inf"
    code, out, err = run(capsys, "run", file)
    assert code == 0 and "log Z = inf" in out and "warning[F432]" in err


def test_marginals_and_gradients_are_reported(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, COIN)
    weights = params(tmp_path, f=VALUES)
    found = report(capsys, file, "--params", weights, "--marginals", "--grad")
    assert np.allclose(found["counts"]["f"], VALUES / 10)
    assert found["rules"] == pytest.approx({"s": 1.0})
    assert found["marginals"]["S"] == pytest.approx(1)
    shares = VALUES / 10
    assert found["entropy"] == pytest.approx(float(-(shares * np.log(shares)).sum()))
    assert found["grad"]["f"] == [[1.0, 1.0], [1.0, 1.0]]
    code, out, _ = run(capsys, "run", file, "--params", weights, "--marginals", "--grad")
    assert code == 0 and "entropy" in out and "gradient of Z" in out


def test_derivations_are_decoded_ranked_and_drawn(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, COIN)
    weights = params(tmp_path, f=VALUES)
    options = ("--decode", "viterbi", "--kbest", "3", "--sample", "5", "--seed", "1")
    found = report(capsys, file, "--params", weights, *options)
    assert found["viterbi"]["log_weight"] == pytest.approx(log(4))
    assert found["viterbi"]["steps"][0]["values"] == {"a": "Verb", "b": "Verb"}
    assert [d["log_weight"] for d in found["kbest"]] == pytest.approx([log(4), log(3), log(2)])
    assert len(found["samples"]) == 5
    assert found == report(capsys, file, "--params", weights, *options)
    code, out, _ = run(capsys, "run", file, "--params", weights, *options)
    assert code == 0 and "best derivation" in out and "a=Verb" in out


def test_a_best_derivation_is_drawn_as_a_picture(tmp_path: Path, capsys: Capture) -> None:
    file, path = write(tmp_path, COIN), tmp_path / "best.svg"
    weights = params(tmp_path, f=VALUES)
    assert run(capsys, "run", file, "--params", weights, "-o", str(path))[0] == 0
    assert path.read_text().startswith("<svg") or "<svg" in path.read_text()


def test_words_are_looked_up_by_name(tmp_path: Path, capsys: Capture) -> None:
    found = report(capsys, "rna", "--query", "string", "--input", "w=G A A A C", "--seed", "0")
    again = report(capsys, "rna", "--query", "string", "--input", "w=2,0,0,0,1", "--seed", "0")
    assert found["log_z"] == again["log_z"] < 0


def test_sizes_lengths_and_seeds_are_used(capsys: Capture) -> None:
    missing = ("hmm", "--set", "k=2", "d=3", "--query", "string", "--input", "w=-1,-1,-1,-1")
    assert report(capsys, *missing, "--seed", "5")["z"] == pytest.approx(1)
    assert report(capsys, *missing, "--seed", "6")["z"] == pytest.approx(1)
    inputs = ("hmm", "--set", "k=2", "d=3", "--input", "w=0,1,2,0")
    first, second = (report(capsys, *inputs, "--seed", seed)["z"] for seed in ("5", "6"))
    assert first != second


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["hmm", "--length", "n=3"], "F416"),
        (["hmm", "--seed", "0", "--input", "w=0,1", "--length", "n=3"], "F411"),
        (["rna", "--seed", "0", "--input", "w=G A B C"], "w[2]"),
        (["hmm", "--seed", "0", "--query", "strnig"], "did you mean `string`?"),
        (["hmm", "--seed", "0", "--query", "string"], "F301"),
        (["hmm", "--seed", "-1", "--length", "n=3"], "F415"),
        (["hmm", "--seed", "x", "--length", "n=3"], "F415"),
        (["hmm", "--kbest", "0", "--seed", "0", "--length", "n=3"], "F415"),
        (["hmm", "--sample", "-3", "--seed", "0", "--length", "n=3"], "F415"),
        (["hmm", "--decode", "best", "--seed", "0", "--length", "n=3"], "F415"),
        (["hmm", "--semiring", "tropical", "--seed", "0", "--length", "n=3"], "F415"),
        (["hmm", "--params", "no.safetensors", "--length", "n=3"], "F401"),
        (["hmm", "--params", ".", "--length", "n=3"], "F401"),
        (["branching", "--semiring", "exact"], "F419"),
        (["hmm", "--set", "k=30000", "--seed", "0", "--length", "n=3"], "F420"),
    ],
)
def test_bad_commands_are_refused(arguments: list[str], wanted: str, capsys: Capture) -> None:
    code, out, err = run(capsys, "run", *arguments)
    assert (code, out) == (2, "") and wanted in err
    code, out, err = run(capsys, "run", *arguments, "--json")
    assert (code, err) == (2, "")
    assert json.loads(out)["ok"] is False and wanted in out


def test_an_unknown_word_is_named_with_its_place_and_the_nearest_one(
    tmp_path: Path, capsys: Capture
) -> None:
    text = """
    domain W = {house, mouse, tree}
    input w: W[n]
    factor f(W) = 1
    nonterminal X[i]() for 0 <= i <= n
    start X[0]
    rule step: X[i] -> f(w[i]) X[i+1] for i < n
    rule stop: X[n] ->
    """
    file = write(tmp_path, text)
    code, _, err = run(capsys, "run", file, "--input", "w=tree horse mouse")
    assert code == 2 and "w[1]" in err and "`horse`" in err and "did you mean `house`?" in err


@pytest.mark.parametrize(
    ("arrays", "wanted"),
    [
        ({"f": np.ones(2)}, "shape"),
        ({"g": VALUES}, "not a factor"),
        ({"f": -VALUES}, "negative"),
        ({"f": VALUES * np.nan}, "finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    arrays: dict[str, Any], wanted: str, tmp_path: Path, capsys: Capture
) -> None:
    file = write(tmp_path, COIN)
    code, out, err = run(capsys, "run", file, "--params", params(tmp_path, **arrays))
    assert (code, out) == (2, "") and "F417" in err and wanted in err


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x10" + b"\x00" * 30, b'{"f": 1}'])
def test_a_broken_file_of_weights_is_refused(
    content: bytes, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "p.safetensors").write_bytes(content)
    file = write(tmp_path, COIN)
    code, out, err = run(capsys, "run", file, "--params", str(tmp_path / "p.safetensors"))
    assert (code, out) == (2, "") and "not a safetensors file" in err


@pytest.mark.parametrize("option", ["--marginals", "--grad", "--sample=2"])
def test_what_has_no_answer_is_an_error(option: str, tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, scalar("S -> p S; S -> q", p=2.0, q=1.0))
    code, _, err = run(capsys, "run", file, option)
    assert code == 2 and ("F423" in err or "F424" in err)


def test_a_grammar_with_errors_is_not_run(tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "run", write(tmp_path, "nonterminal S()\nstart T"))
    assert (code, out) == (1, "") and "F106" in err


def test_float32_and_half_weights_are_read(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, COIN)
    for kind in (np.float32, np.float16, np.int64):
        weights = params(tmp_path, f=VALUES.astype(kind))
        assert report(capsys, file, "--params", weights)["z"] == pytest.approx(10)


WEATHER = """
domain Day = {sunny, rainy}  domain Mood = {happy, grumpy}
factor first(-> Day) = [0.5, 0.5]
factor next(Day -> Day) = [[0.9, 0.1], [0.1, 0.9]]
factor mood(Day -> Mood) = [[0.8, 0.2], [0.3, 0.7]]
nonterminal S()  nonterminal X(Day)  start S
rule begin: S -> first(t) X(t)
rule step: X(t) -> mood(t, m) next(t, u) X(u)
rule last: X(t) -> mood(t, m)
query moods(w: Mood[n]) {
  rule begin: S -> X[0]
  rule step: X[i] -> X[i+1] m = w[i] for 0 <= i < n-1
  rule last: X[n-1] -> m = w[n-1]
}
"""


@pytest.mark.parametrize("ground", [(), ("--ground",)])
def test_marginals_are_a_table_of_positions_by_values(
    tmp_path: Path, capsys: Capture, ground: tuple[str, ...]
) -> None:
    item = (write(tmp_path, WEATHER), "--input", "w=happy grumpy", "--marginals")
    code, out, err = run(capsys, "run", *item, *ground)
    assert (code, err) == (0, "") and "rule" not in out
    title, header, *rows = out.split("\n\n")[1].splitlines()
    assert title == "posterior of X, by position and value"
    assert header.split() == ["sunny", "rainy"]
    sums = report(capsys, *item)["marginals"]
    for position, row in enumerate(rows):
        name, *cells = row.split()
        assert name == str(position) and (
            bool(ground) or cells.pop(0) == "happy grumpy".split()[position]
        )
        shares = sums[f"X[{position}]"]
        assert [float(cell.rstrip("*")) for cell in cells] == pytest.approx(shares, abs=1e-4)
        assert [cell.endswith("*") for cell in cells] == [share == max(shares) for share in shares]


def test_marginals_of_trees_are_a_table_of_cells(capsys: Capture) -> None:
    item = ("pcfg", "--set", "nt=2", "pt=2", "words=3", "r=2", "--seed", "1", "--input", "w=0,1,2")
    code, out, _ = run(capsys, "run", *item, "--marginals")
    assert code == 0 and "posterior of X, by cell and value" in out
    row = next(line for line in out.splitlines() if "X[0, 3]" in line)
    assert "0 1 2  1.0000" in row and row.count("N.") == 2


@pytest.mark.parametrize("space", ["dense", "state", "rank"])
def test_the_space_of_the_program_can_be_chosen(space: str, capsys: Capture) -> None:
    item = ("hmm_rank", "--set", "k=3", "d=3", "r=2", "--seed", "1", "--input", "w=0,1,2")
    same = report(capsys, *item, "--ground")["log_z"]
    assert report(capsys, *item, "--space", space)["log_z"] == pytest.approx(same)
