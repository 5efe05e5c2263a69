"""Grammars for rank space, and what tests ask of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgg.api.compile import selected
from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.compiler.passes.close_start import close
from fgg.compiler.passes.cpd import cpd
from fgg.compiler.passes.narrow import narrow
from fgg.compiler.passes.split import split
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.rewrite.ground import ground
from fgg.runtime.reference.solve import solve

CNF = """
size t = 3
size d = 4
size r = 2
domain N = t
domain W = d
factor root(-> N)
factor binary(N -> N, N) rank r
factor emit(N -> W)
nonterminal S()
nonterminal X(N)
start S
rule root:   S    -> root(a) X(a)
rule binary: X(a) -> binary(a, b, c) X(b) X(c)
rule word:   X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,m] X[m,j]   for i < m < j
  rule word:   X[i,i+1] -> o = w[i]
}
"""


TERNARY = """
size t = 3
size d = 4
size r = 2
size s = 3
domain N = t
domain W = d
factor root(-> N)
factor two(N -> N, N) rank r
factor three(N -> N, N, N) rank s
factor emit(N -> W)
nonterminal S()
nonterminal X(N)
start S
rule root:  S    -> root(a) X(a)
rule two:   X(a) -> two(a, b, c) X(b) X(c)
rule three: X(a) -> three(a, b, c, d) X(b) X(c) X(d)
rule word:  X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root:  S        -> X[0,n]
  rule two:   X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule three: X[i,j]   -> X[i,k] X[k,l] X[l,j]   for i < k < l < j
  rule word:  X[i,i+1] -> o = w[i]
}
"""


# Y's own rules are dense, X's of low rank; each uses the other.
MIXED = """
size t = 3
size d = 4
size r = 2
domain N = t
domain M = 2
domain W = d
factor root(-> M)
factor low(N -> N, M) rank r
factor dense(M -> N, N)
factor last(N -> W)
factor other(M -> W)
nonterminal S()
nonterminal X(N)
nonterminal Y(M)
start S
rule root: S    -> root(a) Y(a)
rule low:  X(a) -> low(a, b, c) X(b) Y(c)
rule high: Y(a) -> dense(a, b, c) X(b) X(c)
rule last: X(a) -> last(a, o)
rule word: Y(a) -> other(a, o)
query string(w: W[n]) {
  rule root: S        -> Y[0,n]
  rule low:  X[i,j]   -> X[i,k] Y[k,j]   for i < k < j
  rule high: Y[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule last: X[i,i+1] -> o = w[i]
  rule word: Y[i,i+1] -> o = w[i]
}
"""


# Two nonterminals touch one node; a potential of low rank; a start symbol with a node.
SHARED = """
size t = 3
size r = 2
domain T = t
domain W = 4
factor pair(T, T) rank r
factor step(T -> T, W) rank r
factor weigh(T)
nonterminal X(T)
nonterminal Y(T)
start X
rule both: X(a) -> pair(a, b) X(b) Y(b)
rule one:  X(a) -> weigh(a) pair(a, b) Y(b)
rule step: Y(a) -> step(a, b, o) Y(b)
rule end:  Y(a) -> weigh(a)
query string(w: W[n]) {
  nonterminal X[i] for 0 <= i <= n
  nonterminal Y[i] for 0 <= i <= n
  start X[0]
  rule both: X[i] -> X[i+1] Y[i]   for 0 <= i < n
  rule one:  X[i] -> Y[i]          for 0 <= i <= n
  rule step: Y[i] -> Y[i+1] o = w[i]   for 0 <= i < n
  rule end:  Y[n] ->
}
"""


# Several rules of one family with different factors, and unary chains on one level.
SEVERAL = """
size t = 3
size r = 2
domain T = t
domain W = 4
factor root(-> T)
factor f(T -> T, T) rank r
factor g(T -> T, W) rank r + 1
factor h(T, T) rank r
factor e(T -> W)
nonterminal S()
nonterminal X(T)
start S
rule root: S    -> root(a) X(a)
rule top:  S    -> root(a) h(a, b) X(b)
rule f:    X(a) -> f(a, b, c) X(b) X(c)
rule left: X(a) -> g(a, b, o) X(b)
rule turn: X(a) -> g(a, b, o) X(b)
rule free: X(a) -> h(a, b) X(c) (b: T)
rule word: X(a) -> e(a, o)
query string(w: W[n]) {
  rule root: S        -> X[0,n]
  rule top:  S        -> X[0,n]
  rule f:    X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule left: X[i,j]   -> X[i+1,j] o = w[i]   for i + 1 < j
  rule turn: X[i,j]   -> X[i,j-1] o = w[j-1]   for i + 1 < j
  rule free: X[i,j]   -> X[i+1,j]   for i + 1 < j
  rule word: X[i,i+1] -> o = w[i]
}
"""


OWN = {"cnf": CNF, "ternary": TERNARY, "mixed": MIXED, "shared": SHARED, "several": SEVERAL}


LIBRARY = ("pcfg", "lpcfg", "hmm_rank")


WHOLE = ("pcfg", "lpcfg", "hmm_rank", "cnf", "ternary", "several")


SIZES = {"pcfg": (2, 3, 4, 2), "lpcfg": (2, 3, 4, 2), "hmm_rank": (3, 4, 2), "lhmm": (3, 4, 2)}


def asked(name: str, sizes: Sequence[int] = ()) -> Grammar:
    """A grammar joined with its query."""
    if name in OWN:
        return selected(loads(OWN[name]), None)
    names = [size.name for size in load(name).sizes]
    return selected(load(name, sizes=dict(zip(names, sizes or SIZES[name], strict=True))), None)


def decomposed(grammar: Grammar) -> Grammar:
    return narrow(split(cpd(close(grammar))))


def values(grammar: Grammar, semiring: str, seeds: Sequence[int] = (0, 1)) -> list[Any]:
    """Z for strings of several lengths, some words missing, with random weights."""
    found = []
    for seed in seeds:
        for n in range(6 if semiring == "real" else 5):
            words = random.Random(n + 10 * seed).choices([-1, 0, 1, 2, 3], k=n)
            flat = ground(grammar, inputs={"w": words})
            value = np.asarray(solve(flat, semiring, seed=seed).value).sum()
            found.append(value % (2**31 - 1) if semiring == "gf" else value)
    return found


def assert_same(one: Grammar, two: Grammar) -> None:
    """Assert that two grammars have the same values: in floating point, and exactly."""
    assert all(values(one, "real")[2:6])
    np.testing.assert_allclose(values(one, "real"), values(two, "real"), rtol=1e-10)
    for semiring in ("gf", "exact"):
        assert values(one, semiring, (3,)) == values(two, semiring, (3,)), semiring


def assert_well_formed(grammar: Grammar) -> None:
    assert not [d for d in check_grammar(grammar) if d.is_error or d.code == "F204"]
    assert loads(print_grammar(grammar)) == grammar


def small_dense(name: str) -> Grammar:
    grammar = load(name)
    sizes = {s.name: 2 for s in grammar.sizes if not [*s.value.names()]}
    return selected(load(name, sizes=sizes), None)
