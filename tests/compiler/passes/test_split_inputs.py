"""Splitting: clamps, parts of inputs and input factors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fgg.compiler import loads
from fgg.compiler.passes.split import split
from fgg.diagnostics import GrammarError
from fgg.grammar.printer import print_grammar
from fgg.rewrite.ground import ground
from fgg.runtime.reference.solve import solve
from tests.helpers.splitting import CLAMPED, is_atomic


def test_clamps_of_unions_and_products_keep_the_value() -> None:
    grammar = loads(CLAMPED)
    result = split(grammar)
    assert is_atomic(result)
    assert loads(print_grammar(result)) == result
    for w, p in product(range(-2, 5), range(-2, 10)):
        inputs = {"w": [w, 1], "p": [p, -1]}
        one, two = ground(grammar, inputs=inputs), ground(result, inputs=inputs)
        assert solve(two, "exact", seed=0).value == solve(one, "exact", seed=0).value
    free = {"n": 2}
    one, two = ground(grammar, lengths=free), ground(result, lengths=free)
    assert solve(two, "exact", seed=0).value == solve(one, "exact", seed=0).value


def test_a_part_of_an_input_matches_its_own_tokens_only() -> None:
    grammar = loads(
        """
        domain A = 2
        domain B = 3
        domain U = A + B
        factor f(B) = [2, 3, 5]
        input w: U[1]
        nonterminal S()
        start S
        rule S -> f(b) b = w[0].B
        """
    )
    found = [
        float(solve(ground(grammar, inputs={"w": [token]}), "real").value)
        for token in (-2, -1, 0, 1, 2, 3, 4)
    ]
    assert found == [0, 10, 0, 0, 2, 3, 5]


@pytest.mark.parametrize(
    ("written", "code"), [("w[0].C", "F105"), ("w[0].A", "F148"), ("w[0].B.B", "F105")]
)
def test_a_part_that_an_input_does_not_have_is_an_error(written: str, code: str) -> None:
    with pytest.raises(GrammarError, match=code):
        loads(
            f"""
            domain A = 2
            domain B = 3
            domain C = 1
            domain U = A + B
            factor f(B)
            input w: U[1]
            nonterminal S()
            start S
            rule S -> f(b) b = {written}
            """
        )


SCORED = """
domain A = 2
domain B = 2
domain U = A + B
domain L = A * U
input factor phi[i](U, L) for 0 <= i < n
input factor psi[i](A) for 0 <= i < n
factor f(U -> U)
nonterminal S()
nonterminal X[i](U) for 0 <= i <= n
start S
rule begin: S -> X[0](u)
rule step:  X[i](u) -> phi[i](u, l) f(l.U, v) psi[i](l.A) X[i+1](v) for i < n
rule same:  X[i](u) -> phi[i](l.U, l) psi[i](u.A) X[i+1](u) for i < n
rule end:   X[n](u) ->
"""


def test_input_factors_are_sliced() -> None:
    grammar = loads(SCORED)
    result = split(grammar)
    assert is_atomic(result)
    assert loads(print_grammar(result)) == result
    cut = result.input_factor["phi_A_B"].definition
    assert cut is not None and cut.source == "phi"
    rng = np.random.default_rng(0)
    phi, psi = rng.normal(size=(3, 4, 8)).tolist(), rng.normal(size=(3, 2)).tolist()
    for inputs in ({"phi": phi, "psi": psi}, {"psi": psi}, {}):
        one = ground(grammar, lengths={"n": 3}, inputs=inputs)
        two = ground(result, lengths={"n": 3}, inputs=inputs)
        expected = float(solve(one, "log", seed=1).value)
        assert float(solve(two, "log", seed=1).value) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "attribute",
    ["slice = nothing(U(A))", "slice = f(A)", "slice = f(U(B))", "slice = f(U(A), A)", "slice = f"],
)
def test_a_slice_that_cannot_be_is_an_error(attribute: str) -> None:
    with pytest.raises(GrammarError, match="F134"):
        loads(
            f"""
            domain A = 2
            domain B = 1
            domain U = A + B
            factor f(U)
            factor g(A) with {attribute}
            nonterminal S()
            start S
            rule S -> g(a)
            """
        )


def test_an_input_factor_has_no_attribute_but_slice() -> None:
    with pytest.raises(GrammarError, match="F133"):
        loads(
            """
            domain A = 2
            input factor phi(A) with prior = dirichlet(1)
            nonterminal S()
            start S
            rule S -> phi(a)
            """
        )
