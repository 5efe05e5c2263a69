"""Grammars found by chance that once had wrong numbers or no program, and stepped heads."""

from __future__ import annotations

HEAD = """
domain T = 2
domain W = 3
domain C = T + W
domain L = T * W
input w: W[n]
input z: L[n]
input table left[n]
input factor link[i, j]() for 0 <= i < n, 0 <= j <= n
input factor phi[i](T, T) for 0 <= i < n
factor init(T)
factor emit(T, W)
factor trans(T, T)
factor union_T(C, T)
nonterminal S()
start S
"""


# Each of these gave wrong numbers, or no program at all.
FOUND = {
    "a node that nothing touches counts": "rule a: S -> (u: T) (v: W) emit(u, w[0])",
    "its parts count too": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[0](t) (v: C)
        rule b: X[i](t) -> trans(t, u) X[i+1](u) (v: W) for i < n
        rule c: X[n](t) ->""",
    "an index that follows from another is checked": """
        nonterminal X[i, j](T) for 0 <= i <= j <= n
        rule a: S -> X[0, n](t)
        rule b: X[i, i+1](t) -> emit(t, w[i])""",
    "a rule of a free region writes inside its chart": """
        nonterminal X[i, j](T) for 0 <= i <= j <= n
        nonterminal Y[i, j](T) for 0 <= i <= n, 0 <= j <= n
        rule a: S -> X[p, n](t) for 0 <= p <= n
        rule b: X[i, j](t) -> Y[j, i](t) emit(t, w[j-i])
        rule c: Y[i, j](t) -> emit(t, w[i]) emit(t, w[j])""",
    "two clamps and a chart": """
        nonterminal X[i, j]() for 0 <= i <= n, 0 <= j <= n
        rule a: S -> X[p, n]() trans(u.T, v) (u: L) u = z[0] for 0 <= p <= n
        rule b: X[n, j]() ->""",
    "evidence alone has no gradient": """
        nonterminal X[i](L) for 0 <= i <= n
        rule a: S -> X[p](u) for 0 <= p < n
        rule b: X[i](a) -> phi[i](a.T, v) a = z[i]""",
    "a length that follows from a table": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[p](t) for 0 <= p < n
        rule b: X[i](t) -> emit(t, w[n-1]) link[n-1, left[i]]() for left[i] >= n, left[i] <= n""",
    "a length that follows from another": """
        input y: W[m]
        rule a: S -> link[m, n-1]() for m < n, n - 1 <= m""",
    "nodes may have the names of indices": """
        nonterminal X[i, j](T) for 0 <= i < j <= n
        rule a: S -> X[0, n](i)
        rule b: X[i, i+1](i) -> emit(i, w[i])
        rule c: X[i, j](i) -> X[i, k](k) X[k, j](j) trans(i, k) trans(i, j) for i < k < j""",
    "a diagonal of what is the same everywhere": """
        nonterminal X[i](T, T) for 0 <= i <= n
        rule a: S -> X[p](u, u) for 0 <= p <= n
        rule b: X[n](a, b) -> emit(v, w[1])""",
    "a part whose name looks like a transposed matrix": """
        nonterminal X[i](C) for 0 <= i <= n
        rule a: S -> X[0](c) init(c.T)
        rule b: X[i](c) -> union_T(c, t) union_T(d, t) X[i+1](d) for i < n
        rule c: X[n](c) ->""",
    "levels without gradients": """
        nonterminal X[i]() for 0 <= i <= n
        rule a: S -> X[0]() init(t)
        rule b: X[i]() -> t = w[i] for i < n
        rule c: X[i]() -> t = w[i] X[i+1]() for i < n""",
    "tables end with their items": """
        nonterminal X(C)
        rule a: S -> X(u) for left[0] < 2
        rule b: X(a) -> init(a.T)""",
    "so do positions that are looked up": """
        nonterminal X[i]() for 0 <= i <= n
        rule a: S -> X[n]()
        rule b: X[i]() -> emit(t, w[i-1]) emit(u, w[left[i]])""",
    "a chart without cells": """
        nonterminal X[i, j](T) for 0 <= i, i + 2 <= j, j <= n
        rule a: S -> X[left[p], n](t) init(t) for 0 <= p < n
        rule b: S -> init(t)
        rule c: X[i, j](t) -> emit(t, w[i]) emit(t, w[j-1])""",
    "masked points among the head's own cells": """
        nonterminal X[i, j]() for 0 <= i, i + 2 <= j, j <= n
        rule a: S -> X[p, n]() for 0 <= p, p + 2 <= n
        rule b: X[0, n]() -> X[p, q]() for 0 <= p, p + 2 <= q, q < n
        rule c: X[0, j]() -> init(t)""",
    "indices below zero": """
        nonterminal X[i](T) for -1 <= i <= n
        rule a: S -> X[n](t)
        rule b: X[i](t) -> trans(t, u) X[i-1](u) for 0 <= i
        rule c: X[-1](t) -> init(t)""",
    "rules of the same cells with another between": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[0](t) init(t)
        rule b: X[i](t) -> trans(t, u) X[p](u) for i < p, p <= n
        rule c: X[n](t) -> emit(t, w[n-1])
        rule d: X[i](t) -> init(t)""",
    "a message of inputs alone has a name": """
        nonterminal X[i, c](T) for 0 <= i <= n, 0 <= c <= 2
        rule a: S -> X[0, p](t) init(t) for 0 <= p <= 2
        rule b: X[i, c](t) -> X[i+c, c](t) (u: W) (v: C) u = w[c+1] v.T = z[p].T
            for 1 <= c, i + c <= n, c <= p, p < n
        rule c: X[i, c](t) ->""",
    "a small union that a part of it is clamped in": """
        domain K = 1
        domain D = T + K
        domain E = D + W
        input v: D[n]
        nonterminal X[i](E) for 0 <= i <= n
        rule a: S -> X[0](u)
        rule b: X[i](a) -> (u: E) (x: E) u.D = v[i] x.D.T = z[i].T X[i+1](u) X[i+1](x) init(a.D.T)
            for i < n
        rule c: X[n](a) ->""",
    "what the rest of a rule sums is not summed in a shared product too": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[0](t) init(t)
        rule b: X[i](t) -> X[p](t) X[p](t) emit(t, w[q]) init(u) for i < p, p <= n, i <= q, q < n
        rule c: X[i](t) -> X[p](t) X[p](t) emit(t, w[q]) trans(u, u)
            for i < p, p <= n, i <= q, q < n
        rule d: X[i](t) ->""",
    "an adjoint in the empty half of a chart that is filled across": """
        nonterminal X[i, j](T) for 0 <= i <= j <= n
        rule a: S -> X[n, n](t)
        rule b: X[i, j](t) -> X[i-1, j](t) X[i, j-1](u) trans(t, u) for 0 < i < j
        rule c: X[0, j](t) -> emit(t, w[j])
        rule d: X[i, i](t) -> init(t)""",
    "where a rule writes does not depend on what it sums": """
        nonterminal X[i](T) for 0 <= i <= n
        nonterminal Y[i](T) for 0 <= i <= n
        rule a: S -> X[p](t) for 0 <= p <= n
        rule b: X[i](t) -> Y[p](u) emit(t, w[i]) for 0 <= p, p < i, 2*i <= n
        rule c: Y[i](t) -> emit(t, w[i])""",
    "weights on their own beside several products": """
        input factor cost[i]() for 0 <= i < n
        nonterminal X(C)
        rule a: S -> X(c)
        rule b: X(c) -> union_T(c, t) init(t) cost[q]() for 0 <= q < n""",
    "a matrix that is added along an axis which only a parameter has": """
        factor triple(T, K, T)
        domain K = 1
        nonterminal X[i, j](T) for 0 <= i < j <= n
        nonterminal Y[i, j](K) for 0 <= i < j <= n
        rule a: S -> X[0, n](t) init(t)
        rule b: X[i, j](t) -> Y[i, j](a) triple(u, a, t)
        rule c: Y[i, j](a) ->""",
    "an input factor has nothing outside its range": """
        input factor above[i, j](T) for 0 <= i < j <= n
        rule a: S -> above[left[p], q](t) for 0 <= p < n, 0 <= q <= n""",
    "cells that a rule leaves empty have no part in the gradient of its parameters": """
        nonterminal Y[i](T) for 0 <= i <= n
        nonterminal Z[i](T) for 0 <= i <= n
        rule a: S -> Y[p](u) for 0 <= p <= n
        rule b: Y[i](u) -> Z[i](t) trans(t, u) for 2*i <= n
        rule c: Z[i](t) -> emit(t, w[i])
        rule d: Z[n](t) -> init(t)""",
    "nor have those of a level by level chart": """
        nonterminal Y[i](T) for 0 <= i <= n
        nonterminal Z[i](T) for 0 <= i <= n
        rule a: S -> Y[p](u) for 0 <= p <= n
        rule b: Y[i](u) -> Z[i](t) trans(t, u) for 3*i <= n
        rule c: Z[i](t) -> trans(t, u) Z[i+1](u) for i < n
        rule d: Z[n](t) -> init(t)""",
    "nor have those that only a table leads to": """
        nonterminal Y[i](T) for 0 <= i <= n
        nonterminal Z[i](T) for 0 <= i <= n
        rule a: S -> Y[left[p]](u) for 0 <= p < n
        rule b: Y[i](u) -> Z[i](t) trans(t, u) for 2 <= i
        rule c: Z[i](t) -> trans(t, u) Z[i+1](u) for i < n
        rule d: Z[n](t) -> init(t)
        rule e: S -> Z[0](u)""",
    "a level that neither index follows from": """
        nonterminal X[i, j](T) for 0 <= i <= n, 0 <= j <= n
        rule a: S -> X[p, q](u) for 0 <= p <= n, 0 <= q <= n
        rule b: X[i, j](t) -> X[i-1, j+1](u) trans(t, u) for 0 < i, j < n
        rule c: X[i, j](t) -> X[i+2, j-3](u) trans(t, u) for i + 2 <= n, 3 <= j
        rule d: X[i, j](t) -> emit(t, w[i])""",
    "points at which a rule is zero read cells that its other points write": """
        nonterminal X[i, h, j](T) for 0 <= i <= h < j <= n
        nonterminal Y[i, j]() for 0 <= i < j <= n
        rule a: S -> X[0, 0, n](t)
        rule b: X[2*i, h, j](t) -> X[2*i, h, p](t) Y[p, j]() for h < p < j
        rule c: Y[i, j]() -> X[i, i, j](u)
        rule d: X[i, h, j](t) -> init(t)
        rule e: X[i, h, j](t) -> X[p, h, j](t) for i < p <= h""",
    "names like those of strides": """
        nonterminal X[i](T) for 0 <= i <= n
        nonterminal X_0[i](T) for 0 <= i <= n
        nonterminal X_s[i](T) for 0 <= i <= n
        rule a: S -> X[0](t)
        rule b: X[i](t) -> trans(t, u) X[i+1](u) X_0[i](u) X_s[i+1](t) for i < n
        rule c: X[n](t) ->
        rule d: X_0[i](t) -> emit(t, w[i])
        rule e: X_s[i](t) -> trans(t, u)""",
}


# Indices of heads with coefficients other than 1.
STEPPED = {
    "every second cell": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[n](u)
        rule b: X[2*i](t) -> emit(t, w[i])
        rule c: X[1](t) -> init(t)""",
    "beside a rule for all cells": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[p](u) for 0 <= p <= n
        rule b: X[2*i](t) -> init(t)
        rule c: X[i](t) -> emit(t, w[k]) for 0 <= k < i""",
    "even and odd cells, one level after the other": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[p](u) for 0 <= p <= n
        rule b: X[2*i](t) -> emit(t, w[i])
        rule c: X[2*i+1](t) -> X[i](u) trans(t, u) for 0 < i
        rule d: X[1](t) -> init(t)""",
    "backwards, from a number and from a length": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[p](u) for 0 <= p <= n
        rule b: X[n-2*i](t) -> emit(t, w[i])
        rule c: X[5-2*i](t) -> init(t) emit(t, w[i])""",
    "two indices": """
        nonterminal X[i, j](T) for 0 <= i <= n, 0 <= j <= n
        rule a: S -> X[p, q](u) for 0 <= p <= n, 0 <= q <= n
        rule b: X[i, 2*i](t) -> emit(t, w[i])
        rule c: X[2*i, 2*i+k](t) -> emit(t, w[i]) emit(t, w[k])
        rule d: X[3*i+1, 2*i](t) -> init(t)
        rule e: X[2*i, 3*j](t) -> emit(t, w[i]) emit(t, w[j])
        rule f: X[n-2*i, 3*i](t) -> emit(t, w[i])
        rule g: X[2*i, 6-3*i](t) -> emit(t, w[i]) init(t)""",
    "two indices and a level": """
        nonterminal X[i, j](T) for 0 <= i <= n, 0 <= j <= n
        rule a: S -> X[p, q](u) for 0 <= p <= n, 0 <= q <= n
        rule b: X[2*i, j](t) -> X[i, j](u) trans(t, u) for 0 < i
        rule c: X[i, 3*j](t) -> X[i, k](u) trans(t, u) emit(t, w[j]) for 0 <= k < j
        rule d: X[i, 0](t) -> init(t)
        rule e: X[2*i+1, 2*k+i](t) -> X[i, k](u) trans(t, u) for 0 <= k""",
    "a sum of multiples": """
        nonterminal X[i](T) for 0 <= i <= n
        rule a: S -> X[p](u) for 0 <= p <= n
        rule b: X[2*i+3*k](t) -> emit(t, w[i]) emit(t, w[k]) X[i](u) for 0 < i
        rule c: X[2*i+2*k](t) -> init(t) emit(t, w[i]) for 0 <= k <= n
        rule d: X[1](t) -> init(t)""",
    "a linear map of every third cell": """
        nonterminal X[i](T) for 0 <= i <= n
        nonterminal Y[i](T) for 0 <= i <= n
        rule a: S -> Y[p](u) for 0 <= p <= n
        rule b: Y[3*i](u) -> X[3*i](t) trans(t, u)
        rule c: X[i](t) -> init(t)""",
}
