"""A model with unions and products, and a query of it."""

from __future__ import annotations

from fgg.grammar import Rule


def domains(rule: Rule) -> dict[str, str]:
    return {node.name: node.domain for node in rule.rhs.nodes}


MODEL = """
size k = 3
domain N = k
domain P = 2 * k
domain C = N + P
domain W = {the, dog, barks}
domain L = N * W
factor root(-> N)
factor binary(N -> C, C)
factor emit(P -> W)
factor head(N, W)
nonterminal S()
nonterminal X(C)
start S
rule root:   S    -> root(a.N) X(a)
rule binary: X(a) -> binary(a.N, b, c) X(b) X(c)
rule word:   X(a) -> emit(a.P, o)
"""


QUERY = """
query string(w: W[n]) {
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,k2] X[k2,j]   for i < k2 < j
  rule word:   X[i,i+1] -> o = w[i]
}
"""


USE_HEAD = "rule lex: X(a) -> head(l.N, l.W) (l: L)\n"
