"""`fgg.low_rank`: grammars and weights decomposed to low rank, and multiplied out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.api.compile import selected
from fgg.api.decompose import log_z_moved
from fgg.check.grammar import check_grammar
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.runtime.program.bind import bind, product_of
from fgg.runtime.reference.solve import solve

RANDOM = np.random.default_rng(0)
TRANS = RANDOM.dirichlet([1.0] * 2, size=6) @ RANDOM.dirichlet([1.0] * 6, size=2)
EMIT = RANDOM.dirichlet([1.0] * 5, size=6)
WEIGHTS = {"init": np.full(6, 1 / 6), "trans": TRANS, "emit": EMIT}
WORDS = {"w": [0, 3, 4, 1]}


def hmm() -> Grammar:
    return fgg.load("hmm", sizes={"k": 6, "d": 5})


def log_z(grammar: Grammar, weights: dict[str, Any]) -> float:
    flat = fgg.rewrite.ground(grammar, query="string", inputs=WORDS)
    return float(solve(flat, "log", weights=weights).value)


def test_a_factor_of_low_rank_keeps_the_value() -> None:
    decomposed = fgg.low_rank.decompose(hmm(), WEIGHTS, ranks={"trans": 2})
    (line,) = decomposed.report
    assert (line.factor, line.rank, line.entries_before, line.entries_after) == ("trans", 2, 36, 24)
    assert line.relative_error < 1e-6 and line.converged and not decomposed.notes
    assert set(decomposed.weights) == {"init", "emit", "trans_0", "trans_1"}
    assert log_z(decomposed.grammar, dict(decomposed.weights)) == pytest.approx(
        log_z(hmm(), WEIGHTS)
    )
    ((before, after),) = log_z_moved(
        hmm(), WEIGHTS, decomposed, inputs={name: [words] for name, words in WORDS.items()}
    )
    assert before == pytest.approx(log_z(hmm(), WEIGHTS)) == pytest.approx(after)


def test_the_pieces_have_the_names_that_decomposition_gives_them() -> None:
    decomposed = fgg.low_rank.decompose(hmm(), WEIGHTS, ranks={"trans": 2})
    low = cpd(selected(decomposed.grammar, None))
    bound = bind(low, decomposed.weights)
    np.testing.assert_array_equal(bound["trans_0"], decomposed.weights["trans_0"])
    flat = fgg.rewrite.ground(low, inputs=WORDS)
    got = float(solve(flat, "log", weights=dict(decomposed.weights)).value)
    assert got == pytest.approx(log_z(hmm(), WEIGHTS))


@pytest.mark.parametrize("merged", [False, True])
def test_the_grammar_with_tables_stands_alone(merged: bool) -> None:
    source = fgg.low_rank.merge(hmm()) if merged else hmm()
    name = "emit_trans" if merged else "trans"
    decomposed = fgg.low_rank.decompose(source, WEIGHTS, ranks={name: 6})
    grammar = decomposed.explicit()
    assert fgg.loads(str(grammar)) == grammar
    assert not [d for d in check_grammar(grammar) if d.is_error or d.code == "F204"]
    assert name not in grammar.factor and f"{name}_0" in grammar.factor
    rest = {n: w for n, w in WEIGHTS.items() if n in grammar.factor}
    assert log_z(grammar, rest) == pytest.approx(log_z(hmm(), WEIGHTS), rel=1e-5)


def test_a_merged_hmm_is_decomposed_as_one_factor() -> None:
    decomposed = fgg.low_rank.decompose(fgg.low_rank.merge(hmm()), WEIGHTS, ranks={"emit_trans": 6})
    assert "trans" not in decomposed.grammar.factor and "emit" in decomposed.grammar.factor
    assert set(decomposed.weights) == {
        "init",
        "emit",
        "emit_trans_0",
        "emit_trans_1",
        "emit_trans_2",
    }
    whole = product_of([decomposed.weights[f"emit_trans_{i}"] for i in range(3)], 1)
    wanted = np.einsum("to,tu->tou", EMIT, TRANS)
    error = np.linalg.norm(whole - wanted) / np.linalg.norm(wanted)
    assert decomposed.report[0].relative_error == pytest.approx(error) and error < 1e-5


def test_values_of_the_grammar_are_decomposed() -> None:
    text = str(hmm()).replace("factor trans(T -> T)", f"factor trans(T -> T) = {TRANS.tolist()}")
    source = fgg.loads(text)
    decomposed = fgg.low_rank.decompose(source, tolerance=1e-4)
    assert [(line.factor, line.rank) for line in decomposed.report] == [("trans", 2)]
    assert decomposed.grammar.factor["trans"].value is None


def test_a_tolerance_leaves_alone_what_would_grow() -> None:
    full = {**WEIGHTS, "trans": np.random.default_rng(1).dirichlet([1.0] * 6, size=6)}
    decomposed = fgg.low_rank.decompose(hmm(), full, tolerance=1e-3)
    assert [(line.factor, line.left) for line in decomposed.report] == [
        ("trans", True),
        ("emit", True),
    ]
    assert decomposed.grammar == hmm() and set(decomposed.weights) == set(full)
    named = fgg.low_rank.decompose(hmm(), full, tolerance=1e-3, factors=["trans"])
    assert [line.left for line in named.report] == [False]


def test_pieces_can_be_decomposed_again() -> None:
    first = fgg.low_rank.decompose(hmm(), WEIGHTS, ranks={"trans": 4})
    again = fgg.low_rank.decompose(first.grammar, first.weights, ranks={"trans": 2})
    assert again.weights["trans_0"].shape == (6, 2)
    assert again.report[0].relative_error < 1e-6


def test_a_missing_factor_is_random_in_both_or_refused() -> None:
    weights = {"trans": TRANS}
    decomposed = fgg.low_rank.decompose(hmm(), weights, ranks={"trans": 2})
    inputs = {"w": [[0, 1, 2]]}
    ((before, after),) = log_z_moved(hmm(), weights, decomposed, inputs=inputs, seed=5)
    assert before == pytest.approx(after, abs=1e-6)
    with pytest.raises(GrammarError) as error:
        log_z_moved(hmm(), weights, decomposed, inputs=inputs)
    assert error.value.diagnostics[0].code == "F416"
    with pytest.raises(GrammarError, match="F416") as error:
        fgg.low_rank.decompose(hmm(), {}, ranks={"trans": 2}, seed=1)
    hint = error.value.diagnostics[0].help
    assert hint and "seed" not in hint, "a seed gives no weights that could be decomposed"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"ranks": {"trans": 0}}, "F440"),
        ({"ranks": {"tran": 2}}, "F440"),
        ({"ranks": {"init": 2}}, "F440"),
        ({"factors": ["trans"]}, "F440"),
        ({}, "F440"),
        ({"tolerance": -1.0, "factors": ["trans"]}, "F440"),
        ({"ranks": {"trans": 10**9}}, "F420"),
        ({"ranks": {"trans": 2}, "weights": {}}, "F416"),
        ({"ranks": {"trans": 2}, "weights": {"trans": TRANS * np.nan}}, "F417"),
        ({"ranks": {"trans": 2}, "weights": {"trans": -TRANS}}, "F417"),
        ({"ranks": {"trans": 2}, "weights": {"trans": TRANS[:3]}}, "F417"),
        ({"ranks": {"trans": 2}, "weights": {"trans": TRANS, "other": TRANS}}, "F417"),
    ],
)
def test_what_cannot_be_decomposed_is_refused(options: dict[str, Any], code: str) -> None:
    weights = options.pop("weights", WEIGHTS)
    with pytest.raises(GrammarError) as error:
        fgg.low_rank.decompose(hmm(), weights, **options)
    assert [d.code for d in error.value.diagnostics] == [code]


def test_factors_that_follow_from_others_are_refused() -> None:
    tied = fgg.loads(
        "domain T = 2 factor a(T -> T) factor p(-> T) with tied = stationary(a) "
        "nonterminal S() start S rule S -> p(x) a(x, y)"
    )
    with pytest.raises(GrammarError):
        fgg.low_rank.decompose(tied, {"a": np.eye(2)}, ranks={"p": 1})
    decomposed = fgg.low_rank.decompose(tied, {"a": np.full((2, 2), 0.5)}, ranks={"a": 1})
    with pytest.raises(GrammarError, match="needed whole"):
        decomposed.explicit()
    bound = bind(fgg.rewrite.ground(decomposed.grammar), decomposed.weights)
    np.testing.assert_allclose(bound["p"], 0.5)


def test_signed_pieces_are_for_looking_at_only() -> None:
    full = np.random.default_rng(1).dirichlet([0.3] * 6, size=6)
    decomposed = fgg.low_rank.decompose(
        hmm(), {**WEIGHTS, "trans": full}, ranks={"trans": 5}, nonnegative=False
    )
    assert decomposed.report[0].method == "svd"
    assert any((decomposed.weights[f"trans_{i}"] < 0).any() for i in range(2))
    with pytest.raises(GrammarError, match="negative"):
        decomposed.explicit()
    with pytest.raises(GrammarError, match="negative"):
        log_z(decomposed.grammar, dict(decomposed.weights))
    dense = fgg.low_rank.materialise(decomposed.grammar, decomposed.weights)["trans"]
    error = np.linalg.norm(dense - full) / np.linalg.norm(full)
    assert error == pytest.approx(decomposed.report[0].relative_error)


def test_many_pieces_are_not_written_as_text() -> None:
    large = fgg.load("hmm", sizes={"k": 150, "d": 3})
    decomposed = fgg.low_rank.decompose(
        large, {"trans": np.full((150, 150), 1 / 150)}, ranks={"trans": 100}, restarts=1, sweeps=2
    )
    with pytest.raises(GrammarError, match="too many"):
        decomposed.explicit()


def test_materialising_keeps_gradients() -> None:
    grammar = fgg.load("pcfg", sizes={"nt": 2, "pt": 3, "words": 4, "r": 2})
    pieces = {
        "binary_0": torch.rand(2, 2, dtype=torch.float64, requires_grad=True),
        "binary_1": torch.rand(2, 5, dtype=torch.float64, requires_grad=True),
        "binary_2": torch.rand(2, 5, dtype=torch.float64, requires_grad=True),
    }
    other = torch.rand(3, 4)
    dense = fgg.low_rank.materialise(grammar, {**pieces, "emit": other})
    assert set(dense) == {"binary", "emit"} and dense["emit"] is other
    wanted = torch.einsum("aq,qb,qc->abc", *pieces.values())
    torch.testing.assert_close(dense["binary"], wanted)
    assert torch.autograd.gradcheck(
        lambda *tensors: fgg.low_rank.materialise(grammar, dict(zip(pieces, tensors, strict=True)))[
            "binary"
        ],
        tuple(pieces.values()),
    )
    low = cpd(selected(grammar, None))
    torch.testing.assert_close(fgg.low_rank.materialise(low, pieces)["binary"], wanted)
    program = fgg.compile(grammar)
    torch.testing.assert_close(fgg.low_rank.materialise(program, pieces)["binary"], wanted)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"binary_1": None}, "F416"),
        ({"binary_1": np.ones((3, 5))}, "F417"),
        ({"binary": np.ones((2, 5, 5))}, "F417"),
    ],
)
def test_pieces_that_do_not_fit_are_refused(change: dict[str, Any], code: str) -> None:
    grammar = fgg.load("pcfg", sizes={"nt": 2, "pt": 3, "words": 4, "r": 2})
    pieces = {"binary_0": np.ones((2, 2)), "binary_1": np.ones((2, 5)), "binary_2": np.ones((2, 5))}
    given = {n: w for n, w in {**pieces, **change}.items() if w is not None}
    with pytest.raises(GrammarError) as error:
        fgg.low_rank.materialise(grammar, given)
    assert [d.code for d in error.value.diagnostics] == [code]
    if code == "F416" or "binary" not in change:
        with pytest.raises(GrammarError) as error:
            bind(fgg.rewrite.ground(grammar), given, seed=0)
        assert error.value.diagnostics[0].code == code


def test_a_factor_that_does_not_fit_is_refused_before_it_is_made() -> None:
    grammar = fgg.load("pcfg", sizes={"nt": 3000, "pt": 3000, "r": 2})
    pieces = {
        "binary_0": torch.zeros(3000, 2),
        "binary_1": torch.zeros(2, 6000),
        "binary_2": torch.zeros(2, 6000),
    }
    with pytest.raises(GrammarError) as error:
        fgg.low_rank.materialise(grammar, pieces)
    assert error.value.diagnostics[0].code == "F420"


def test_gradients_reach_the_pieces() -> None:
    decomposed = fgg.low_rank.decompose(hmm(), WEIGHTS, ranks={"trans": 2})
    weights = {n: torch.as_tensor(w).requires_grad_() for n, w in decomposed.weights.items()}
    flat = fgg.rewrite.ground(decomposed.grammar, query="string", inputs=WORDS)
    value = solve(flat, "log", weights=weights).value
    grads = torch.autograd.grad(value, list(weights.values()))
    low = fgg.rewrite.ground(cpd(selected(decomposed.grammar, None)), inputs=WORDS)
    wanted = torch.autograd.grad(solve(low, "log", weights=weights).value, list(weights.values()))
    for one, two in zip(grads, wanted, strict=True):
        torch.testing.assert_close(one, two)
