"""What tests of splitting share: library grammars with inputs, and nested unions and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgg.compiler.passes.split import whole_unions
from fgg.grammar import Grammar, Product, Union
from fgg.grammar.domains import domain_size, size_values
from fgg.rewrite.conjoin import conjoin
from tests.runtime.reference.test_library import scores, small, trees


def is_atomic(grammar: Grammar) -> bool:
    nodes = [node for rule in grammar.rules for node in rule.rhs.nodes]
    edges = [edge for rule in grammar.rules for edge in rule.rhs.edges]
    domains = {node.domain for node in nodes}
    domains |= {d for edge in edges for d in grammar.signature(edge.label) or ()}
    whole = whole_unions(grammar)
    return not (
        any(isinstance(grammar.domain[d].shape, Union | Product) for d in domains - whole)
        or any(a.path for edge in edges for a in edge.attachments)
        or any(clamp.attachment.path for rule in grammar.rules for clamp in rule.rhs.clamps)
    )


def asked(name: str, query: str | None) -> Grammar:
    grammar = small(name)
    return grammar if query is None else conjoin(grammar, grammar.query[query])


def observation(grammar: Grammar, name: str, n: int) -> dict[str, Any]:
    """Inputs of length n with random tokens, some of them missing."""
    rng = np.random.default_rng(n)
    inputs: dict[str, Any] = {}
    if name == "ctc":
        inputs["y"] = [1 + i % 2 for i in range((n + 1) // 2)]
    elif grammar.tables:
        inputs |= trees(n)
    extents = {
        **{x: n for item in grammar.inputs for e in item.shape for x in e.names()},
        **({"m": 2 * n - 1} if "left" in inputs else {}),
        **size_values(grammar),
    }
    for item in grammar.inputs:
        shape = [e.evaluate(extents) or 0 for e in item.shape]
        inputs[item.name] = rng.integers(-1, domain_size(grammar, item.domain), shape).tolist()
    return {**inputs, **scores(name, n)}


NESTED = """
domain A = 2
domain B = {x, y, z}
domain U = A + B
domain L = A * U
domain V = L + B
domain M = V * A2
domain A2 = A
factor f(V, M)
factor g(M -> V)
factor h(A, U)
nonterminal S()
nonterminal X(M, U)
nonterminal Y(V)
start S
rule begin: S -> g(m, v) X(m, m.V.L.U) f(v, m) Y(v)
rule twice: S -> Y(v) Y(v) f(v, m) Y(m.V)
rule one:   X(m, u) -> h(m.A2.A, u) Y(m.V)
rule same:  X(m, u) -> h(u.A, u) f(m.V, m) (n: L)
rule end:   Y(v) -> h(v.L.A, v.L.U)
rule part:  Y(v) -> h(a, v.L.U) h(v.L.A, w.U) (w: L)
rule other: Y(v) -> (v: V)
"""


CLAMPED = """
domain A = {a, b}
domain B = 3
domain U = A + B
domain L = A * U
factor f(U)
factor g(A, U)
factor h(L)
input w: U[n]
input p: L[n]
nonterminal S[i]() for 0 <= i <= n
nonterminal X[i](U)
start S[0]
rule union:   S[i] -> f(u) u = w[i] X[i](u) S[i+1] for i < n
rule pair:    S[i] -> h(l) l = p[i] X[i](l.U) S[i+1] for i < n
rule part:    S[i] -> g(l.A, l.U) (l: L) l.U = w[i] S[i+1] for i < n
rule partial: S[i] -> f(u) u.A = p[i].A u = p[i].U S[i+1] for i < n
rule one:     X[i](u) -> g(u.A, u) u = w[i] for 0 <= i < n
rule two:     X[i](u) -> f(u) for 0 <= i < n
rule end:     S[n] ->
"""
