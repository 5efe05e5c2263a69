"""Grammars made in Python."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import fgg
from fgg import build
from fgg.compiler import loads
from fgg.compiler.resolve.builder import Builder, EdgeTerm
from fgg.diagnostics import GrammarError
from fgg.grammar.values import Constant, Eye, Table


def hmm() -> tuple[Builder, EdgeTerm]:
    b = fgg.build.Builder("hmm")
    T, W = b.domain("T", 2), b.domain("W", ["the", "dog's"])
    init = b.factor("init", over=[T], value=[0.5, 0.5])
    trans = b.factor("trans", given=[T], over=[T], value=np.eye(2))
    emit = b.factor("emit", given=[T], over=[W], attributes={"prior": "dirichlet(0.1)"})
    S, X = b.nonterminal("S"), b.nonterminal("X", [T])
    b.rule("begin", S(), init("t"), X("t"))
    b.rule("step", X("t"), emit("t", "o"), trans("t", "u"), X("u"))
    b.rule("last", X("t"), emit("t", "o"))
    i, n = fgg.build.symbols("i n")
    q = b.query("string")
    w = q.input("w", W, n)
    q.rule("begin", S, X[0])
    q.rule("step", X[i], X[i + 1], fgg.build.fix("o", w[i]), where=[i >= 0, i < n - 1])
    q.rule("last", X[n - 1], fgg.build.fix("o", w[n - 1]))
    return b, S


def test_a_built_grammar_equals_the_same_text() -> None:
    b, S = hmm()
    text = """
    domain T = 2
    domain W = {the, "dog's"}
    factor init(-> T) = [0.5, 0.5]
    factor trans(T -> T) = [[1, 0], [0, 1]]
    factor emit(T -> W) with prior = dirichlet(0.1)
    nonterminal S()
    nonterminal X(T)
    start S
    rule begin: S -> init(t) X(t)
    rule step: X(t) -> emit(t, o) trans(t, u) X(u)
    rule last: X(t) -> emit(t, o)
    query string(w: W[n]) {
      rule begin: S -> X[0]
      rule step: X[i] -> X[i+1] o = w[i] for i >= 0, i < n-1
      rule last: X[n-1] -> o = w[n-1]
    }
    """
    assert b.grammar(start=S) == loads(text)


def test_families_inputs_tables_unions_and_parts() -> None:
    b = fgg.build.Builder("everything")
    m = b.size("m", 3)
    N, P = b.domain("N", m), b.domain("P", m + 1)
    C = b.union("C", N, P)
    D = b.product("D", N, P)
    R = b.domain("R", 5, rank=True)
    i, n = fgg.build.symbols("i n")
    w = b.input("w", P, n)
    left = b.table("left", n)
    phi = b.input_factor("phi", [N], indices=["i"], where=[i >= 0, i < n])
    f = b.factor("f", given=[N], over=[C, C], rank=4)
    g = b.factor("g", [P], value=0.5)
    h = b.factor("h", [N, R])
    eye = b.factor("same", [N, N], value=Eye())
    X = b.nonterminal("X", [C], indices=["i"], where=[i >= 0, i < n])
    body: list[EdgeTerm | str] = [
        f("a.N", "b", "c"),
        X[left[i]]("b"),
        phi[i]("a.N"),
        eye("a.N", "d.N"),
        "d: D",
    ]
    b.rule("a", X[i]("a"), *body)
    b.rule("b", X[i]("a"), g(w[i]), h("a.N", "r"))
    grammar = b.grammar(start=X[0])
    assert grammar == loads(str(grammar))
    assert grammar.factor["g"].value == Constant(0.5)
    assert D in grammar.domain and grammar.domain["R"].rank


def test_errors_point_at_the_statement_that_is_wrong() -> None:
    b, S = hmm()
    b.rule("wrong", S(), EdgeTerm("emit")("t"))
    with pytest.raises(GrammarError) as error:
        b.grammar(start=S)
    assert "error[F112]" in str(error.value)
    assert "rule wrong: S() -> emit(t)" in str(error.value)


def test_values_are_checked() -> None:
    b, S = hmm()
    b.factor("bad", ["T"], value=[0.5, -1.0])
    with pytest.raises(GrammarError, match="F126"):
        b.grammar(start=S)


def test_arrays_become_tables() -> None:
    b, S = hmm()
    assert b.grammar(start=S).factor["trans"].value == Table(((1.0, 0.0), (0.0, 1.0)))


def test_a_chain_of_comparisons_is_refused() -> None:
    i, j = fgg.build.symbols("i j")
    with pytest.raises(TypeError, match="chain"):
        _ = 0 <= i < j


def test_domains_and_arrow_exclude_each_other() -> None:
    with pytest.raises(TypeError):
        fgg.build.Builder().factor("f", ["T"], over=["T"])


def test_the_example_of_the_public_module_runs() -> None:
    results = doctest.testmod(build)
    assert results.attempted > 10 and not results.failed
