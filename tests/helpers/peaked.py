"""A chain that cannot change its state, and small library grammars."""

from __future__ import annotations

from fgg.api.compile import selected
from fgg.compiler import load
from fgg.grammar import Grammar
from fgg.grammar.domains import with_sizes

DIALECTS = """
domain T = {a, b}
domain W = {x, y}
factor init(-> T) = [.5, .5]
factor trans(T -> T) = eye
factor emit(T -> W) = [[.9, .1], [.1, .9]]
input w: W[n]
nonterminal S()
nonterminal X[i](T)
start S
rule begin: S -> init(t) X[0](t)
rule step: X[i](t) -> emit(t, w[i]) trans(t, u) X[i+1](u) for i < n - 1
rule last: X[i](t) -> emit(t, w[i]) for i == n - 1
"""
"""An HMM that cannot change its state: log Z of x^100 y^60 is -149.38."""


def small(name: str, query: str | None = None) -> Grammar:
    grammar = load(name)
    sizes = {k: v for k, v in {"k": 2, "d": 3, "nt": 2, "pt": 2, "words": 3, "r": 2}.items()}
    own = {k: v for k, v in sizes.items() if k in grammar.size}
    return selected(with_sizes(grammar, own), query)
