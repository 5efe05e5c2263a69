"""Binding: values of the grammar, supplied weights, random parameters."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from fgg.compiler.resolve.load import load, loads
from fgg.diagnostics import GrammarError
from fgg.factors.maps import groups
from fgg.grammar import Grammar
from fgg.library import library_names
from fgg.runtime.program.bind import bind
from fgg.runtime.stationary_distribution import stationary
from tests.generators.grammars import finite_grammars
from tests.oracles.enumeration import exact_arrays

ONE = "domain T = 2\nfactor f(T, T)\nnonterminal S()\nstart S\nrule S -> f(a, b)"


@settings(max_examples=25)
@given(finite_grammars())
def test_values_are_those_of_the_definition(grammar: Grammar) -> None:
    expected = exact_arrays(grammar)
    exactly, floats = bind(grammar, exactly=True), bind(grammar)
    assert set(exactly) == set(floats) <= set(expected)
    for name, array in exactly.items():
        assert array.shape == expected[name].shape
        assert (array == expected[name]).all()
        assert np.allclose(floats[name], expected[name].astype(float), rtol=1e-15)


@pytest.mark.parametrize("name", [n for n in library_names() if not load(n).input_factors])
def test_random_parameters_are_normalised_and_the_same_in_fractions(name: str) -> None:
    small = {"size": 2}
    grammar = load(name)
    grammar = load(name, sizes={s.name: small["size"] for s in grammar.sizes})
    floats, again, other = (bind(grammar, seed=seed) for seed in (3, 3, 4))
    exactly = bind(grammar, seed=3, exactly=True)
    for factor in grammar.factors:
        if factor.name in floats:
            array = floats[factor.name]
            assert np.array_equal(array, again[factor.name])
            assert np.allclose(array, exactly[factor.name].astype(float), rtol=1e-12)
            if factor.given is not None:
                axes = tuple(range(factor.given, array.ndim))
                # Within blocks, the weights of each block sum to one.
                total = len(set(groups(grammar, factor) or (0,)))
                assert np.allclose(array.sum(axes), total)
                assert np.all(exactly[factor.name].sum(axis=axes) == total)
            if factor.value is None and array.size > 2 and array.min() < 1:
                assert not np.array_equal(array, other[factor.name])


def test_a_parameter_of_low_rank_is_drawn_with_that_rank() -> None:
    grammar = loads(
        "domain T = 5\nfactor f(T -> T) rank 2\nnonterminal S()\nstart S\nrule S -> f(a, b)"
    )
    array = bind(grammar, seed=1)["f"]
    assert np.linalg.matrix_rank(array) == 2
    assert np.allclose(array.sum(1), 1)


def test_supplied_weights_come_before_values_and_seeds() -> None:
    grammar = loads(ONE.replace("f(T, T)", "f(T, T) = 0.5", 1))
    given_ = [[1, 2], [3, 4]]
    assert bind(grammar, {"f": given_}, seed=0)["f"].tolist() == given_
    assert bind(grammar, {"f": torch.tensor(given_)})["f"].tolist() == given_
    assert bind(grammar, seed=0)["f"].tolist() == [[0.5, 0.5]] * 2
    exactly = bind(grammar, {"f": [[0.1, Fraction(1, 3)], [2, np.float32(0.5)]]}, exactly=True)
    assert exactly["f"].tolist() == [[Fraction(1, 10), Fraction(1, 3)], [2, Fraction(1, 2)]]


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "F416"),
        ({"g": 1.0}, "not a factor"),
        ({"f": [1.0, 2.0]}, "shape"),
        ({"f": [[1.0, -2.0], [0, 0]]}, "negative"),
        ({"f": [[1.0, float("nan")], [0, 0]]}, "finite"),
        ({"f": [[1.0, float("inf")], [0, 0]]}, "finite"),
        ({"f": [[1.0, 2.0], [0]]}, "F417"),
        ({"f": [["a", "b"], ["c", "d"]]}, "F417"),
        ({"f": None}, "F417"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    weights: dict[str, Any], message: str, exactly: bool
) -> None:
    with pytest.raises(GrammarError, match=message):
        bind(loads(ONE), weights, exactly=exactly)


def test_all_that_is_wrong_comes_at_once() -> None:
    grammar = loads(ONE.replace("f(a, b)", "f(a, b) h(a)") + "\nfactor g(T)\nfactor h(T)")
    with pytest.raises(GrammarError) as caught:
        bind(grammar, {"gg": 1, "f": 1})
    codes = [d.code for d in caught.value.diagnostics]
    assert codes == ["F417", "F417", "F416"]
    assert "`h`" in str(caught.value) and "did you mean `g`?" in str(caught.value)


def test_weights_are_not_needed_for_what_no_rule_uses() -> None:
    assert set(bind(loads(ONE + "\nfactor g(T)"), {"f": np.ones((2, 2))})) == {"f"}


TIED = """
domain T = 3
factor trans(T -> T)
factor first(-> T) with tied = stationary(trans)
nonterminal S()
start S
rule S -> first(a) trans(a, b)
"""


def test_a_tied_factor_is_the_stationary_distribution() -> None:
    trans = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    first = bind(loads(TIED), {"trans": trans})["first"]
    assert np.allclose(first @ trans, first) and first.sum() == pytest.approx(1)
    exactly = bind(loads(TIED), {"trans": trans}, exactly=True)
    assert (exactly["first"].dot(exactly["trans"]) == exactly["first"]).all()
    assert np.allclose(stationary(trans), exactly["first"].astype(float))


@pytest.mark.parametrize("exactly", [False, True])
def test_a_chain_with_several_stationary_distributions_is_refused(exactly: bool) -> None:
    with pytest.raises(GrammarError, match="F417"):
        bind(loads(TIED), {"trans": np.eye(3)}, exactly=exactly)


def test_a_factor_that_is_too_large_is_refused() -> None:
    text = "domain T = 20000\nfactor f(T, T)\nnonterminal S()\nstart S\nrule S -> f(a, b)"
    with pytest.raises(GrammarError, match="F420"):
        bind(loads(text), seed=0)


def test_loaded_arrays_are_copies(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.array([[1.0, 2.0], [3.0, 4.0]]))
    file = tmp_path / "g.fgg"
    file.write_text(ONE.replace("f(T, T)", 'f(T, T) = load("f.npy")', 1))
    grammar = load(file)
    bind(grammar)["f"][:] = 0
    assert bind(grammar)["f"].tolist() == [[1, 2], [3, 4]]
    assert bind(grammar, exactly=True)["f"].tolist() == [[1, 2], [3, 4]]
