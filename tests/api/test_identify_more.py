"""Identification of more than one generic point: several lengths, given weights, zeros."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fgg
from fgg.api.certificate import certificate_of
from fgg.cli import main
from fgg.diagnostics import GrammarError
from tests.oracles.jacobians import rank_by_differences, stationary

LEFT_RIGHT = """
domain T = 2
domain W = 2
factor init(-> T)
factor trans(T -> T) = [[1/2, 1/2], [0, 1]]
factor emit(T -> W)
nonterminal S()
nonterminal X(T)
start S
rule begin: S -> init(t) X(t)
rule more: X(t) -> emit(t, o) trans(t, u) X(u)
rule last: X(t) -> emit(t, o)
query string(w: W[n]) {
  rule begin: S -> X[0]
  rule more: X[i] -> o = w[i] X[i+1] for 0 <= i < n - 1
  rule last: X[n-1] -> o = w[n-1]
}
"""
HMM = {
    "init": np.array([0.3, 0.7]),
    "trans": np.array([[0.2, 0.8], [0.6, 0.4]]),
    "emit": np.array([[0.5, 0.5], [0.1, 0.9]]),
}


def asked(name: str, sizes: dict[str, int]) -> fgg.Grammar:
    from fgg.api.compile import selected

    return selected(fgg.load(name, sizes=sizes), None)


@pytest.mark.parametrize("lengths", [[2], [2, 3]])
def test_several_lengths_have_the_rank_of_all_their_moments(lengths: list[int]) -> None:
    sizes = {"d": 3}
    rng = np.random.default_rng(0)
    arc = rng.dirichlet(np.ones(3) * 3, size=3)
    rank, count = rank_by_differences(
        asked("dep_ies", sizes),
        3,
        lengths,
        None,
        {"arc": arc},
        lambda tables: {**tables, "root": stationary(tables["arc"])},
    )
    result = fgg.identify(
        fgg.load("dep_ies", sizes=sizes), length=lengths, moments="12", second=False
    )
    assert (result.rank, result.parameters) == (rank, count)
    assert [item["n"] for item in result.lengths] == lengths


@pytest.mark.parametrize("change", ["none", "same states", "zero", "one word"])
def test_given_weights_have_the_rank_at_their_point(change: str) -> None:
    tables = {name: table.copy() for name, table in HMM.items()}
    if change == "same states":
        tables["emit"][1] = tables["emit"][0]
    elif change == "zero":
        tables["trans"][1] = [0, 1]
    elif change == "one word":
        tables["emit"][0] = [1, 0]
    sizes = {"k": 2, "d": 2}
    wanted = rank_by_differences(asked("hmm", sizes), 2, [3], 2, tables)
    result = fgg.identify(fgg.load("hmm", sizes=sizes), length=3, weights=tables)
    assert (result.rank, result.parameters) == wanted
    assert "at these weights" in result.meaning() and result.gauges == ()
    assert result.agree is not False
    assert result.parameters == (5 if change in ("none", "same states") else 4)
    assert (result.verdict == "no") == (change == "same states")


def test_values_stated_as_zero_stay_zero() -> None:
    grammar = fgg.loads(LEFT_RIGHT)
    from fgg.api.compile import selected

    tables = {**HMM, "trans": np.array([[0.3, 0.7], [0.0, 1.0]])}
    wanted = rank_by_differences(selected(grammar, None), 2, [3], 3, tables)
    result = fgg.identify(grammar, length=3, moments="***", free=["trans"])
    assert (result.rank, result.parameters) == wanted == (4, 4)
    constant = fgg.identify(grammar, length=3, moments="***")
    assert constant.parameters == 3
    # Two more parameters than moments of the first two words can tell; zeros do not move.
    vague = fgg.identify(grammar, length=3, moments="12", free=["trans"])
    assert vague.verdict == "no" and vague.point["trans"][1].tolist() == [0.0, 1.0]
    for direction in vague.directions:
        assert direction.moves.get("trans", np.zeros((2, 2)))[1].tolist() == [0.0, 0.0]
    table = next(t for t in certificate_of(result)["tables"] if t["name"] == "trans")
    assert table["zeros"] == [[1, 0]]


def test_certificates_state_their_zeros(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "left_right.fgg").write_text(LEFT_RIGHT, "utf-8")
    words = ["identify", str(tmp_path / "left_right.fgg"), "--length", "3", "--moments", "***"]
    path = str(tmp_path / "z.json")
    assert main([*words, "--free", "trans", "--certificate", path, "--no-float"]) == 0
    assert main(["check-certificate", path]) == 0
    assert "a minor of size 4" in capsys.readouterr().out


def code(**options: object) -> str:
    grammar = options.pop("grammar", fgg.load("hmm", sizes={"k": 2, "d": 2}))
    with pytest.raises(GrammarError) as caught:
        result = fgg.identify(grammar, length=3, second=False, **options)  # type: ignore[arg-type]
        certificate_of(result)
    return caught.value.diagnostics[0].code


def test_weights_and_factors_that_do_not_fit_are_refused() -> None:
    assert code(weights={"init": HMM["init"]}) == "F416"
    assert code(weights={**HMM, "emit": np.ones((3, 2)) / 2}) == "F417"
    assert code(weights={**HMM, "emit": np.ones((2, 2))}) == "F417"
    assert code(weights={**HMM, "emit": np.array([[0.5, 0.5], [2.0, -1.0]])}) == "F417"
    assert code(weights={**HMM, "emit": np.array([[0.5, 0.5], [np.nan, 1.0]])}) == "F417"
    assert code(weights=HMM) == "F458"
    assert code(free=["emit"]) == "F415"
    assert code(free=["emission"]) == "F415"
