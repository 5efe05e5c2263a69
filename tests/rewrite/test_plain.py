"""Grammars without unions, products and paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Enumerated, Grammar, Product, Sized, Union
from fgg.grammar.domains import domain_size, domain_values
from fgg.grammar.index import Expr
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.grammar.values import Sparse
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.ground import ground
from fgg.rewrite.plain import plain
from tests.conftest import Golden
from tests.generators.grammars import any_grammars, finite_grammars

PARTS = """
domain N = 2
domain P = {x, y}
domain C = N + P
domain L = N * P
domain U = C + L
factor root(-> N) = [1/4, 3/4]
factor pair(N, P) = [[1, 2], [3, 4]]
nonterminal S()
nonterminal X(C)
nonterminal Y(N)
start S
rule begin: S -> root(a.N) X(a)
rule one:   X(c) -> pair(c.N, b.P) Y(b.N) (b: L)
rule two:   X(c) -> pair(u.L.N, c.P) pair(u.L.N, u.L.P) (u: U)
rule end:   Y(n) ->
"""


def is_plain(grammar: Grammar) -> bool:
    shapes = [domain.shape for domain in grammar.domains]
    edges = [e for rule in grammar.rules for e in rule.rhs.edges]
    clamps = [c for rule in grammar.rules for c in rule.rhs.clamps]
    for query in grammar.queries:
        edges += [e for rule in query.rules for e in rule.edges]
        clamps += [c for rule in query.rules for c in rule.clamps]
    return (
        not any(isinstance(shape, Union | Product) for shape in shapes)
        and not any(a.path for edge in edges for a in edge.attachments)
        and not any(clamp.attachment.path for clamp in clamps)
    )


def test_parts_become_nodes(golden: Golden) -> None:
    grammar = loads(PARTS)
    golden(print_grammar(plain(grammar)), "fgg")


def test_parts_keep_the_value() -> None:
    grammar = loads(PARTS)
    assert brute_force(plain(grammar), {}) == pytest.approx(brute_force(grammar, {}))


@given(finite_grammars())
def test_plain_grammars_have_the_same_value(grammar: Grammar) -> None:
    result = plain(grammar)
    assert is_plain(result)
    np.testing.assert_allclose(brute_force(result, {}), brute_force(grammar, {}), rtol=1e-12)


@given(any_grammars())
def test_plain_grammars_are_valid_and_stay_as_they_are(grammar: Grammar) -> None:
    try:
        result = plain(grammar)
    except GrammarError as error:
        assert {d.code for d in error.diagnostics} == {"F303"} and grammar.queries
        return
    assert is_plain(result)
    assert plain(result) is result
    assert not [d for d in check_grammar(result) if d.is_error]
    assert result.factors[: len(grammar.factors)] == grammar.factors
    assert loads(print_grammar(result)) == result


def test_a_plain_grammar_is_returned_as_it_is() -> None:
    grammar = load("hmm")
    assert plain(grammar) is grammar


def test_values_keep_their_names_where_they_have_some() -> None:
    grammar = loads(
        """
        size k = 2
        domain A = {x, y}
        domain B = k
        domain Both = A + B
        domain Pair = A * B
        domain Same = B
        domain Copy = A
        domain Many = A * Big
        domain Big = 6000
        nonterminal S()
        start S
        rule S -> (a: Both) (b: Pair) (c: Same) (d: Copy) (e: Many)
        """
    )
    domain = plain(grammar).domain
    assert domain["Both"].shape == Enumerated(("x", "y", "0", "1"))
    assert domain["Pair"].shape == Enumerated(("x*0", "x*1", "y*0", "y*1"))
    assert domain["Same"].shape == Sized(Expr.of("k"))
    assert domain["Copy"].shape == Enumerated(("x", "y"))
    assert domain["Many"].shape == Sized(Expr.of(12000))


def test_values_of_unions_and_products_have_names_of_their_own() -> None:
    grammar = loads(
        """
        domain A = {x, "x*x"}
        domain B = {x, "x*x"}
        domain Pair = A * B
        domain C = {x, "A.x"}
        domain Either = A + C
        nonterminal S()
        start S
        rule S -> (a: Pair)
        """
    )
    assert domain_values(grammar, "Pair") == ("0*0", "0*1", "1*0", "1*1")
    assert domain_values(grammar, "Either") == ("A.x", "A.x*x", "C.x", "C.A.x")


def test_a_selection_is_named_apart_from_other_labels() -> None:
    grammar = loads(
        PARTS.replace("root", "C_N").replace("(c) ->", "(c_P) ->").replace("c.", "c_P.")
    )
    result = plain(grammar)
    assert result.factor["C_N_2"].value == Sparse((((0, 0), 1.0), ((1, 1), 1.0)))


def test_clamps_of_parts_move() -> None:
    grammar = loads(
        """
        domain N = 2
        domain P = 3
        domain C = N + P
        factor f(C)
        input w: P[n]
        nonterminal S[i]() for 0 <= i <= n
        start S[0]
        rule a: S[i] -> f(c) c.P = w[i] S[i+1] for i < n
        rule b: S[n] ->
        """
    )
    weights = {"f": [1, 2, 3, 4, 5]}
    result = plain(grammar)
    assert is_plain(result)
    for tokens in ([0, 2, 1], [1, -1], [-2, 0]):
        inputs = {"w": tokens}
        assert brute_force(ground(result, inputs=inputs), weights) == brute_force(
            ground(grammar, inputs=inputs), weights
        )


QUERIED = """
domain N = 2
domain P = 2
domain C = N + P
domain L = N * P
factor f(N)
factor g(L)
nonterminal S()
start S
rule r: S -> f(c.N) g(l) (c: C)
query ask(x: N[n], y: P[m]) {
  rule r: S -> c.N = x[0] l.P = y[0]
}
"""


def test_queries_share_the_part_nodes_of_their_model() -> None:
    grammar = loads(QUERIED)
    result = plain(grammar)
    weights = {"f": [2, 3], "g": [1, 4, 5, 7]}
    inputs = {"x": [1], "y": [0]}
    assert is_plain(result)
    assert brute_force(result, weights) == brute_force(grammar, weights) == 5 * 17
    assert brute_force(ground(result, query="ask", inputs=inputs), weights) == 3 * (1 + 5)


def test_a_query_cannot_touch_a_part_of_a_union_on_its_own() -> None:
    grammar = loads(QUERIED.replace("x: N[n]", "x: P[n]").replace("c.N = x", "c.P = x"))
    with pytest.raises(GrammarError, match=r"F303.*a query touches `c\.P`, but rule `r` does not"):
        plain(grammar)
    assert is_plain(plain(conjoin(grammar, grammar.queries[0])))


def test_a_product_too_large_to_write_out_is_refused() -> None:
    grammar = loads(
        """
        domain A = 5000
        domain B = 5000
        domain L = A * B
        factor f(A)
        nonterminal S()
        start S
        rule S -> f(l.A) (l: L)
        """
    )
    assert domain_size(grammar, "L") == 25_000_000
    with pytest.raises(GrammarError, match="F302"):
        plain(grammar)
