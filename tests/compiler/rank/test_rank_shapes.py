"""Rank space on grammars of many shapes: what moves, what stays and why; the value is the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from fgg.api.compile import compile, selected
from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.compiler.passes.cpd import cpd
from fgg.compiler.passes.fold import fold
from fgg.compiler.rank.nodes import state_uses
from fgg.compiler.rank.rank_space import kept, rank_space
from fgg.compiler.rank.uses import NotRankSpace
from fgg.grammar import Grammar
from fgg.rewrite.ground import ground
from fgg.runtime.reference.solve import solve
from tests.helpers.rank_grammars import assert_well_formed, decomposed
from tests.oracles.comparing import compare, random_item, random_weights, reference

HEAD = """
domain T = 3
domain U = 2
domain A = 2
domain W = 2
nonterminal S()
start S
"""

# A segment's state, duration and word are drawn in one step; words are those of whole segments.
SEGMENTS = """
domain D = 3
input o: W[n, n+1]
input length: D[n+1]
factor init(-> T)
factor step(T -> T, D, W) rank 2
nonterminal X[i](T) for 0 <= i <= n
rule S -> init(t) X[0](t)
rule X[i](t) -> step(t, u, length[j-i], o[i,j]) X[j](u)   for i < j <= n, j - i <= 3
rule X[n](t) ->
"""

# The same with a low-rank transition; a duration and the words come from the state that follows.
LASTING = """
domain D = 3
input o: W[n, n+1]
input length: D[n+1]
factor init(-> T)
factor trans(T -> T) rank 2
factor last(T -> D, W)
nonterminal X[i](T) for 0 <= i <= n
rule S -> init(t) X[0](t)
rule X[i](t) -> trans(t, u) last(u, length[j-i], o[i,j]) X[j](u)   for i < j <= n, j - i <= 3
rule X[n](t) ->
"""

# One factor twice in a rule, each time with a rank node of its own.
TWICE = """
input w: W[n]
factor pair(T -> T) rank 2
factor emit(T -> W)
nonterminal X[i, j](T) for 0 <= i < j <= n
rule S -> X[0,n](a)
rule X[i,j](a) -> pair(a, b) pair(b, c) X[i,j-1](c)   for i < j - 1
rule X[i,i+1](a) -> emit(a, w[i])
"""

# Two external nodes, each below a rank node; a use of both; a use of one node in two places.
PAIRS = """
input w: W[n]
factor left(T -> T) rank 2
factor right(U -> U, W) rank 2
factor root(-> T, U)
nonterminal X[i](T, U) for 0 <= i <= n
rule S -> root(a, b) X[0](a, b)
rule X[i](a, b) -> left(a, c) right(b, d, w[i]) X[i+1](c, d)   for i < n
rule X[n](a, b) ->
"""

PRODUCT = """
domain L = T * U
input w: W[n]
factor root(-> L)
factor two(L -> L, L) rank 3
factor emit(L -> W)
nonterminal X[i, j](L) for 0 <= i < j <= n
rule S -> root(a) X[0,n](a)
rule X[i,j](a) -> two(a, b, c) X[i,k](b) X[k,j](c)   for i < k < j
rule X[i,i+1](a) -> emit(a, w[i])
"""

# A potential of low rank between spans; a score of the span, and of the label of a word.
SPANS = """
input factor score[i, j]() for 0 <= i < j <= n
input factor label[i](T) for 0 <= i < n
factor two(T, T, T) rank 2
nonterminal X[i, j](T) for 0 <= i < j <= n
rule S -> X[0,n](a)
rule X[i,j](a) -> score[i,j] two(a, b, c) X[i,k](b) X[k,j](c)   for i < k < j
rule X[i,i+1](a) -> label[i](a)
"""

# Unary rules to another family, and two rules of the start symbol.
CHAINS = """
input w: W[n]
factor root(-> T)
factor top(-> U)
factor unary(T -> U) rank 2
factor two(U -> T, T) rank 2
factor emit(U -> W)
nonterminal X[i, j](T) for 0 <= i < j <= n
nonterminal Y[i, j](U) for 0 <= i < j <= n
rule S -> root(a) X[0,n](a)
rule S -> top(a) Y[0,n](a)
rule X[i,j](a) -> unary(a, b) Y[i,j](b)
rule Y[i,j](a) -> two(a, b, c) X[i,k](b) X[k,j](c)   for i < k < j
rule Y[i,i+1](a) -> emit(a, w[i])
"""

# A leaf that no position of the source is seen in: an index that must not be lost.
UNSEEN = """
input s: A[m]
input w: W[n]
factor root(-> T)
factor two(T, A -> T, T) rank 2
factor emit(T -> W)
nonterminal X[i, j, v](T) for 0 <= i < j <= n, 0 <= v < m
rule S -> root(a) X[0,n,v](a)   for 0 <= v < m
rule X[i,j,v](a) -> two(a, s[v], b, c) X[i,k,u](b) X[k,j,t](c)
    for i < k < j, 0 <= u < m, 0 <= t < m
rule X[i,i+1,v](a) -> emit(a, w[i])
"""

LIBRARY = {"qcfg": "aligned", "lexpcfg_rank": None}
SHAPES = {
    "segments": SEGMENTS,
    "twice": TWICE,
    "pairs": PAIRS,
    "product": PRODUCT,
    "spans": SPANS,
    "chains": CHAINS,
    "unseen": UNSEEN,
}
ALL = [*SHAPES, *LIBRARY]
STAY = {"unseen"}


def shape(name: str) -> Grammar:
    if name in SHAPES:
        return loads(HEAD + SHAPES[name])
    sizes = {"nt": 2, "pt": 3, "words": 2, "r": 2, "labels": 2}
    grammar = load(name)
    found = {n: x for n, x in sizes.items() if n in grammar.size}
    return selected(load(name, sizes=found), LIBRARY[name])


def item(grammar: Grammar, n: int, m: int, seed: int) -> dict[str, Any]:
    """Random inputs, none of them missing."""
    rng = np.random.default_rng([seed, n, m])
    tokens = {"w": (n,), "s": (m,), "o": (n, n + 1)}
    scores = {"score": (n, n + 1), "label": (n, 3)}
    found: dict[str, Any] = {x: rng.integers(2, size=tokens[x]).tolist() for x in tokens}
    found["length"] = [0, *range(3), *([-2] * n)][: n + 1]
    found |= {x: rng.normal(size=scores[x]).tolist() for x in scores}
    return {x: y for x, y in found.items() if x in {*grammar.input, *grammar.input_factor}}


def value(grammar: Grammar, semiring: str, n: int, m: int, seed: int) -> Any:
    lengths = {"n": n, "m": m} if "s" in grammar.input else {"n": n}
    flat = ground(grammar, inputs=item(grammar, n, m, seed), lengths=lengths)
    return np.asarray(solve(flat, semiring, seed=seed).value).sum()


@pytest.mark.parametrize("name", ALL)
def test_the_value_stays(name: str) -> None:
    grammar = shape(name)
    before = decomposed(grammar)
    ranks = rank_space(before)
    assert_well_formed(ranks)
    if name not in STAY:
        assert not kept(before) and not [*state_uses(ranks)]
    for form in (before, ranks, fold(before), fold(ranks)):
        for n, m in ((1, 1), (2, 2), (3, 1), (4, 2))[: 4 if form is ranks else 3]:
            assert value(form, "gf", n, m, 5) == value(grammar, "gf", n, m, 5), (n, m)
        wanted = value(grammar, "real", 3, 2, 6)
        assert value(form, "real", 3, 2, 6) == pytest.approx(wanted, rel=1e-10)
    assert wanted > 0


@pytest.mark.parametrize("name", ["qcfg", "lexpcfg_rank", "segments", "pairs", "spans"])
def test_programs_agree_with_the_source(name: str) -> None:
    grammar = shape(name)
    ranks = rank_space(decomposed(grammar))
    program = compile(ranks, fallback=False)
    weights = program.weights(seed=7)
    for n, m in ((2, 3), (4, 2)):
        given = item(grammar, n, m, 7)
        used = {x: [y] for x, y in given.items()}
        wanted = solve(ground(grammar, inputs=given), "log", seed=7).value
        assert float(program.log_z(weights, used)[0]) == pytest.approx(float(wanted), rel=1e-5)


def test_missing_labels_and_words_of_a_pair_are_summed() -> None:
    grammar = shape("qcfg")
    ranks = rank_space(decomposed(grammar))
    for s in ([-1, 0], [-1, -1], [-2, 1]):
        given = {"s": s, "w": [0, -1, 1]}
        one, two = (
            solve(ground(g, inputs=given), "exact", seed=2).value.item() for g in (grammar, ranks)
        )
        assert one == two


def test_an_index_that_only_the_parameters_depend_on_is_no_index_of_a_rank() -> None:
    ranks = rank_space(decomposed(shape("qcfg")))
    assert {x.name: len(x.indices) for x in ranks.nonterminals} == {
        **{"S": 0, "X_NA_rank": 2},
        **{f"X_binary_{i}": 2 for i in (1, 2)},
    }
    folded = fold(rank_space(decomposed(selected(load("qcfg"), "aligned"))))
    products = [x for x in folded.nonterminals if x.domains == ("R_binary", "R_binary")]
    assert len(products) == 2 and not any(x.indices for x in products)  # H and I of a source


def test_heads_of_modifiers_are_summed_in_their_message() -> None:
    ranks = rank_space(decomposed(shape("lexpcfg_rank")))
    families = {x.name: x.indices for x in ranks.nonterminals}
    assert families["X_N_rank"] == families["X_N_expand_2"] == ("i", "h", "j")
    assert families["X_N_expand_3_expand_4"] == ("i", "j")


def test_two_external_nodes_go_to_two_rank_nodes() -> None:
    ranks = rank_space(decomposed(shape("pairs")))
    assert ranks.nonterminal["X_rank"].domains == ("R_left", "R_right")


REFUSED = {
    "crf": (
        "input factor score[i](T) for 0 <= i <= n\ninput w: W[n]\nfactor trans(T, T) rank 2\n"
        "nonterminal X[i](T) for 0 <= i <= n\nrule S -> X[0](t)\n"
        "rule next: X[i](t) -> score[i](t) trans(t, u) X[i+1](u)   for i < n\nrule X[n](t) ->\n",
        ("next", "t", "the input factor `score` touches it"),
    ),
    "tagged": (
        "input y: T[n+1]\nfactor trans(T, T) rank 2\nnonterminal X[i](T) for 0 <= i <= n\n"
        "rule S -> X[0](t)\nrule next: X[i](t) -> trans(t, u) X[i+1](u) t = y[i]   for i < n\n"
        "rule X[n](t) ->\n",
        ("next", "t", "it is observed"),
    ),
    "lasting": (LASTING, ("X", "u", "`last` depends on the input there")),
    "touching": (
        "input w: W[n]\nfactor trans(T, T) rank 2\nnonterminal X[i](T) for 0 <= i <= n\n"
        "nonterminal Y[i](T) for 0 <= i <= n\nrule S -> X[0](t)\n"
        "rule both: X[i](t) -> trans(t, u) Y[i+1](t) X[i+1](u)   for i < n\nrule X[n](t) ->\n"
        "rule more: Y[i](t) -> trans(t, u) X[i](t) (u: T)   for i < n\nrule Y[n](t) ->\n",
        ("both", "t", "the nonterminal `Y` touches it"),
    ),
    "two ranks": (
        "input w: W[n]\nfactor f(T, T) rank 2\nfactor g(T, T) rank 2\n"
        "nonterminal X[i, j](T) for 0 <= i < j <= n\nrule S -> X[0,n](t)\nrule X[i,i+1](t) ->\n"
        "rule fork: X[i,j](t) -> f(t, u) g(t, v) X[i,k](u) X[k,j](v)   for i < k < j\n",
        ("fork", "t", "factors lead from the external node to 2 rank nodes"),
    ),
    "no node": (
        "input w: W[n]\nfactor f(T, W) rank 2\nnonterminal X[i]() for 0 <= i <= n\n"
        "nonterminal Y[i](T) for 0 <= i <= n\nrule S -> X[0]\n"
        "rule step: X[i] -> f(t, w[i]) Y[i](t) X[i+1]   for i < n\nrule X[n] ->\n"
        "rule copy: Y[i](t) -> Y[i+1](t)   for i < n\nrule Y[n](t) ->\n",
        ("copy", "t", "the nonterminal `Y` touches it"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_outside_the_class_is_refused_with_its_place(name: str) -> None:
    text, (rule, node, reason) = REFUSED[name]
    with pytest.raises(NotRankSpace) as caught:
        rank_space(decomposed(loads(HEAD + text)))
    assert (caught.value.rule, caught.value.node) == (rule, node), str(caught.value)
    assert caught.value.reason.startswith(reason)


def test_an_index_that_a_leaf_does_not_show_is_not_lost() -> None:
    reasons = {item.reason for item in kept(decomposed(shape("unseen")))}
    assert reasons == {"a rule of `X` does not depend on the index `v`"}


# Children are read through a unary rule of low rank, on the same level.
UNARY = """
factor bb(T -> T, T) rank 2
factor un(T -> T) rank 2
factor wb(T -> W)
input w: W[n]
nonterminal Y[i, j](T)
nonterminal Z[i, j](T)
rule S -> Z[0, n](a)
rule Y[i, j](a) -> bb(a, b, c) Z[i, k](b) Z[k, j](c)   for i < k < j
rule Z[i, j](c) -> un(c, b) Y[i, j](b)
rule Y[i, i+1](b) -> wb(b, w[i])
"""


@pytest.mark.parametrize("space", ["auto", "rank", "state"])
def test_gradients_through_a_unary_rule_of_low_rank(space: str) -> None:
    grammar = loads(HEAD + UNARY)
    pieces = cpd(grammar)
    rng = random.Random(1)
    weights = random_weights(pieces, rng)
    items = [random_item(grammar, {"n": n}, rng) for n in (4, 1, 3)]
    answers = [reference(pieces, item, weights) for item in items]
    program = compile(grammar, space=space, fallback=False)
    compare(program, items, [a for a in answers if a is not None], weights)


def test_leaves_are_not_written_out_where_they_never_are() -> None:
    text = """
    input w: W[n]
    factor two(T, T, U)
    factor step(U -> U, W) rank 2
    factor last(U)
    nonterminal X[i](T) for 0 <= i <= n
    nonterminal Y[i](U) for 0 <= i <= n
    rule S -> X[0](a)
    rule X[i](a) -> two(a, b, c) X[i+1](b) Y[i](c)   for i < n
    rule X[n](a) ->
    rule Y[n](c) -> last(c)
    rule Y[i](c) -> step(c, d, w[i]) step(d, e, w[i]) Y[i+1](e)   for i < n
    """
    ranks = rank_space(decomposed(loads(HEAD + text)))
    assert not [d for d in check_grammar(ranks) if d.is_error]
