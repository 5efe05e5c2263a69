"""Grammars with blocked emissions: a semi-Markov model, a PCFG, a chain that emits on arrival."""

from __future__ import annotations

HSMM = """
size m = 2
size k = 2
size d = 5
size dmax = 3
domain M = m
domain K = k
domain T = M * K
domain W = d
domain None = 1
domain More = dmax - 1
domain D = None + More
domain Less = dmax - 1
domain Most = 1
domain E = Less + Most
factor minus_one(More, Less) = eye
factor same(E, D) = eye
factor clusters(W -> M) = map(0, 1, 1, 0, 1)
factor init(-> T)
factor trans(T -> T)
factor duration(T -> D)
factor emit(T -> W) with blocks = clusters
factor done(None) = 1
nonterminal S()
nonterminal X(T, D)
start S
rule begin: S       -> init(t) duration(t, c) X(t, c)
rule more:  X(t, c) -> emit(t, o) minus_one(c.More, e.Less) same(e, b) X(t, b)
rule next:  X(t, c) -> emit(t, o) done(c.None) trans(t, u) duration(u, b) X(u, b)
rule last:  X(t, c) -> emit(t, o)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule more:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
  rule next:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> o = w[n-1]
}
"""

PCFG = """
size nt = 2
size m = 3
size p = 2
size d = 5
domain N = nt
domain M = m
domain K = p
domain P = M * K
domain C = N + P
domain W = d
factor clusters(W -> M) = map(0, 2, 1, 0, 1)
factor root(-> N)
factor binary(N -> C, C)
factor emit(P -> W) with blocks = clusters
nonterminal S()
nonterminal X(C)
start S
rule root:   S    -> root(a.N) X(a)
rule binary: X(a) -> binary(a.N, b, c) X(b) X(c)
rule word:   X(a) -> emit(a.P, o)
query string(w: W[n]) {
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule word:   X[i,i+1] -> o = w[i]
}
"""

# Emission on arrival: the first state emits nothing, so no observation fixes its block.
ARRIVAL = """
domain M = 3
domain K = 2
domain T = M * K
domain W = 7
factor clusters(W -> M) = map(cycle)
factor first(-> T)
factor trans(T -> T)
factor emit(T -> W) with blocks = clusters
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> first(t) X(t)
rule step:  X(t) -> trans(t, u) emit(u, o) X(u)
rule end:   X(t) ->
query string(w: W[n]) {
  rule begin: S    -> X[0]
  rule step:  X[i] -> o = w[i] X[i+1]   for 0 <= i < n
  rule end:   X[n] ->
}
"""
