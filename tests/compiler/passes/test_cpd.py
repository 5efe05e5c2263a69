"""Decomposition: the value stays, and pieces are what the whole says of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgg.check.describe import free_parameters
from fgg.compiler import loads
from fgg.compiler.passes.cpd import CpdImpossible, cpd
from fgg.compiler.rank.rank_space import rank_space
from fgg.diagnostics import GrammarError
from fgg.factors.pieces import pieces
from fgg.grammar.definitions import Piece
from fgg.grammar.domains import domain_size
from fgg.grammar.options import written_attributes
from fgg.grammar.semantics import brute_force
from fgg.grammar.values import Word
from fgg.rewrite.ground import ground
from fgg.rewrite.rename import rename
from fgg.runtime.program.bind import bind
from fgg.runtime.reference.solve import solve
from tests.helpers.rank_grammars import (
    LIBRARY,
    OWN,
    asked,
    assert_same,
    assert_well_formed,
    decomposed,
)


@pytest.mark.parametrize("name", [*LIBRARY, "lhmm", *OWN])
def test_decomposing_keeps_the_value(name: str) -> None:
    grammar = asked(name)
    result = cpd(grammar)
    assert_well_formed(result)
    assert (result is grammar) == (name == "lpcfg")
    assert cpd(result) is result
    used = {edge.label for rule in result.rules for edge in rule.rhs.edges}
    assert not [f for f in result.factors if f.rank is not None and f.name in used]
    assert_same(grammar, result)


def test_pieces_are_drawn_as_the_product_draws_them() -> None:
    for name in ("pcfg", "hmm_rank", "shared", "several"):
        grammar = asked(name)
        result = cpd(grammar)
        for exactly in (False, True):
            whole = bind(grammar, seed=3, exactly=exactly)
            parts = bind(result, seed=3, exactly=exactly)
            for factor in grammar.factors:
                if factor.rank is None:
                    assert (parts[factor.name] == whole[factor.name]).all()
                    continue
                own = [parts[x] for _, (x,) in sorted(pieces(result, factor.name).items())]
                given = factor.given or 0
                letters = "abc"[: len(factor.domains)]
                terms = [f"{letters[:given]}q", *(f"q{x}" for x in letters[given:])]
                product = np.einsum(f"{','.join(terms)}->{letters}", *own)
                np.testing.assert_array_equal(product, whole[factor.name])


def test_dense_weights_of_a_decomposed_factor_are_refused() -> None:
    grammar = cpd(asked("hmm_rank"))
    with pytest.raises(GrammarError) as caught:
        bind(grammar, {"step": np.ones((3, 3, 4))}, seed=0)
    (found,) = caught.value.diagnostics
    assert found.code == "F417" and "`step`, which is decomposed" in found.message
    assert found.help == "give its pieces: `step_0`, `step_1`, `step_2`"
    with pytest.raises(GrammarError, match=r"`step_0`, `step_1`, `step_2`"):
        bind(grammar)


def test_pieces_can_be_given() -> None:
    grammar = cpd(asked("hmm_rank"))
    drawn = bind(grammar, seed=0)
    given = {name: drawn[name] for name in ("step_0", "step_1", "step_2", "init")}
    assert {n: a.tolist() for n, a in bind(grammar, given).items()} == {
        n: a.tolist() for n, a in drawn.items()
    }
    one = np.full((3, 2), 0.5)
    mixed = bind(grammar, {"step_0": one}, seed=0)
    assert (mixed["step_0"] == one).all() and (mixed["step_1"] == drawn["step_1"]).all()


TIED = """
domain T = 3
factor trans(T -> T) rank 2
factor first(-> T) with tied = stationary(trans)
nonterminal S()
start S
rule S -> first(a) trans(a, b) trans(b, c)
"""


def test_what_is_tied_to_a_decomposed_factor_follows_its_product() -> None:
    grammar = loads(TIED)
    result = cpd(grammar)
    assert solve(result, "exact", seed=1).value == solve(grammar, "exact", seed=1).value == 1
    whole, parts = bind(grammar, seed=1), bind(result, seed=1)
    np.testing.assert_allclose(whole["first"], parts["first"])
    given = {name: parts[name] for name in ("trans_0", "trans_1")}
    np.testing.assert_allclose(bind(result, given)["first"], whole["first"])


def test_the_definition_agrees_on_decomposed_grammars() -> None:
    grammar = asked("cnf")
    flat, other = (ground(g, inputs={"w": [0, 2, -1]}) for g in (grammar, cpd(grammar)))
    assert brute_force(other, bind(other, seed=2)) == pytest.approx(
        brute_force(flat, bind(flat, seed=2))
    )


def test_attributes_go_to_the_pieces() -> None:
    grammar = loads(
        "domain A = 2\ndomain B = 3\n"
        "factor f(A -> B, B) rank 2 with prior = dirichlet(0.5), net = residual(dim=8)\n"
        "factor g(A, B) rank 2 with frozen = yes\n"
        "factor h(A, B) = 1 rank 2\n"
        "nonterminal S()\nstart S\nrule S -> f(a, b, b) g(a, b) h(a, b)\n"
    )
    result = cpd(grammar)
    assert_well_formed(result)
    for factor in result.factors:
        piece = factor.definition
        keys = [attribute.key for attribute in written_attributes(factor)]
        if isinstance(piece, Piece):
            assert keys == (
                ["prior", "net", "piece"] if piece.source == "f" else ["frozen", "piece"]
            )
    (rule,) = result.rules
    assert [e.label for e in rule.rhs.edges][-1] == "h"
    assert result.factor["g_0"].domains == ("R_g",) and result.factor["g_0"].given is None
    assert result.factor["f_0"].given == result.factor["f_1"].given == 1


def test_ranks_can_be_declared_where_there_are_none() -> None:
    dense = asked("cnf")
    dense = replace(
        dense, factors=tuple(replace(f, rank=None) for f in dense.factors), domains=dense.domains
    )
    result = cpd(dense, {"binary": 2})
    assert domain_size(result, "R_binary") == 2
    assert_same(rank_space(decomposed(result)), asked("cnf"))
    for ranks, reason in (
        ({"nothing": 2}, "no factor `nothing`"),
        ({"binary": 0}, "not positive"),
        ({"root": 2}, "fewer than two nodes"),
    ):
        with pytest.raises(CpdImpossible, match=reason):
            cpd(dense, ranks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("factor p(A -> R) with piece = g(0)", "there is no factor `g`"),
        ("factor p(A -> R) with piece = f(1)", "cannot be piece 1 of `f`"),
        ("factor p(A, R) with piece = f(0)", "cannot be piece 0 of `f`"),
        ("factor p(A -> B) with piece = f(0)", "cannot be piece 0 of `f`"),
        ("factor p(R -> B) with piece = f(7)", "cannot be piece 7 of `f`"),
        ("factor p(A -> R) = uniform with piece = f(0)", "cannot be piece 0 of `f`"),
        ("factor p(A -> R) with piece = f", "attribute `piece` cannot have this value"),
        ("factor p(A -> R) with piece = f(0.5)", "attribute `piece` cannot have this value"),
        ("factor p(A -> R) with piece = f(-1)", "attribute `piece` cannot have this value"),
    ],
)
def test_what_cannot_be_a_piece_is_an_error(text: str, message: str) -> None:
    source = (
        "domain A = 2\ndomain B = 2\nrank R = 3\nfactor f(A -> B) rank 3\n"
        f"{text}\nnonterminal S()\nstart S\nrule S -> p(a, b) f(c, d)\n"
    )
    with pytest.raises(GrammarError) as caught:
        loads(source)
    assert any(d.code == "F134" and message in d.message for d in caught.value.diagnostics)


def test_pieces_say_what_they_are() -> None:
    grammar = cpd(asked("hmm_rank"))
    assert grammar.factor["step_2"].definition == Piece("step", 2)
    assert grammar.factor["step_2"].attribute("frozen") != Word("yes")


def test_pieces_are_renamed_and_counted_as_the_whole() -> None:
    grammar = asked("pcfg")
    result = cpd(grammar)
    renamed = rename(result, factors={"binary": "two"})
    assert renamed.factor["binary_1"].definition == Piece("two", 1)
    assert_well_formed(renamed)
    assert [free_parameters(result, f) for f in result.factors if f.definition is None] == [
        free_parameters(grammar, f) for f in grammar.factors
    ]
    assert not any(free_parameters(result, f) for f in result.factors if f.definition)
