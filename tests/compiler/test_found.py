"""Grammars that once had wrong numbers agree with the reference engine."""

from __future__ import annotations

import pytest

from fgg.api.compile import compile
from fgg.compiler import loads
from tests.helpers.found_grammars import FOUND, HEAD, STEPPED
from tests.oracles.agreeing import agrees, derivations_agree


@pytest.mark.parametrize("claim", STEPPED)
def test_heads_with_coefficients(claim: str) -> None:
    grammar = loads(HEAD + STEPPED[claim])
    for seed in range(4):
        assert agrees(grammar, seed) != "refused"
        derivations_agree(grammar, seed)


def test_a_start_symbol_that_only_a_multiple_fills() -> None:
    text = "domain A = 2\ninput w: A[n]\nnonterminal X[i](A)\nstart X[n]\n"
    program = compile(loads(f"{text}rule r: X[2*i](v) -> for 0 < i, 2*i <= n"), fallback=False)
    log_z = program.log_z(program.weights(), {"w": [[0] * n for n in range(5)]})
    assert log_z.exp().tolist() == pytest.approx([0, 0, 2, 0, 2])


@pytest.mark.parametrize("claim", FOUND)
def test_found_by_chance(claim: str) -> None:
    for seed in range(4):
        assert agrees(loads(HEAD + FOUND[claim]), seed) != "refused"


def test_a_start_symbol_with_nodes_is_summed() -> None:
    text = HEAD.replace("nonterminal S()\nstart S\n", "start X[0]\n")
    rules = """
        nonterminal X[i](T) for 0 <= i <= n
        rule b: X[i](t) -> emit(t, w[i]) X[i+1](t) for i < n
        rule c: X[n](t) ->"""
    for seed in range(4):
        assert agrees(loads(text + rules), seed) == "finite"
