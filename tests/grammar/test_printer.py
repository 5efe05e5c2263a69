"""What is printed parses back, says everything once, and looks as people would write it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from fgg.compiler import load_text
from fgg.diagnostics import render_all
from fgg.grammar import Grammar
from fgg.grammar.print_values import WIDTH, print_constant, print_number, print_string
from fgg.grammar.printer import print_grammar, print_rule
from fgg.grammar.values import Sparse
from tests.conftest import Golden
from tests.generators.grammars import any_grammars
from tests.helpers.places import LIBRARY

FILES = sorted(LIBRARY.glob("*.fgg"))


def load(text: str, folder: str = ".") -> Grammar:
    grammar, diagnostics, source = load_text(text, folder=folder)
    assert grammar is not None, text + render_all(diagnostics, source)
    return grammar


@settings(max_examples=300)
@given(any_grammars())
def test_a_printed_grammar_parses_back_to_an_equal_one(grammar: Grammar) -> None:
    assert load(print_grammar(grammar)) == grammar


@settings(max_examples=100)
@given(any_grammars())
def test_printing_again_changes_nothing(grammar: Grammar) -> None:
    text = print_grammar(grammar)
    assert print_grammar(load(text)) == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_library_grammars_are_printed_back(path: Path) -> None:
    grammar = load(path.read_text("utf-8"), str(path.parent))
    text = print_grammar(grammar)
    assert load(text, str(path.parent)) == grammar
    assert all(len(line) <= WIDTH for line in text.split("\n"))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e-9, "1e-9"),
        (1e300, "1e300"),
        (2.5e20, "2.5e20"),
        (123456789.0, "123456789"),
        (Fraction(1, 3), "1/3"),
        (Fraction(2), "2/1"),
    ],
)
def test_numbers_are_short(number: float | Fraction, text: str) -> None:
    assert print_number(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("dog", "dog"),
        ("42", "42"),
        ("'s", '"\'s"'),
        ("rule", '"rule"'),
        ("a b", '"a b"'),
        ('"', r'"\""'),
        ("\n\u2028", r'"\n\u2028"'),
        ("été", "été"),
        ("1.5", '"1.5"'),
        ("٣", '"٣"'),
        ("", '""'),
    ],
)
def test_domain_values_are_bare_where_possible(value: str, text: str) -> None:
    assert print_constant(value) == text


def test_what_cannot_be_seen_is_escaped() -> None:
    assert print_string("a\x00\x7f\U000e0001") == r'"a\u0000\u007f\udb40\udc01"'


def test_a_fixed_node_is_written_in_place_only_if_its_name_comes_back() -> None:
    text = """
    domain W = 2   input w: W[n]   factor f(W)   factor g(W, W)
    nonterminal X[i]() for 0 <= i < n   start X[0]
    rule plain:    X[i] -> f(w[i])
    rule twice:    X[i] -> g(w[i], w[i]) g(w[i], w[i+1]) for i < n - 1
    rule own_name: X[i] -> f(o) o = w[i]
    rule taken:    X[i] -> g(w, w[i]) w = w[0]
    rule whole:    X[i] -> w = w[i]
    """
    grammar = load(text)
    printed = [print_rule(grammar, rule).split("-> ")[1] for rule in grammar.rules]
    assert printed == [
        "f(w[i])",
        "g(w[i], w[i]) g(w[i], w[i+1])   for i < n - 1",
        "f(o) o = w[i]",
        "g(w, w[i]) w = w[0]",
        "w = w[i]",
    ]
    assert load(print_grammar(grammar)) == grammar


def test_files_are_named_as_the_grammar_names_them(tmp_path: Path) -> None:
    tmp_path.joinpath("words.txt").write_text("the\ndog\n'\"\n", "utf-8")
    np.save(tmp_path / "f.npy", np.array([0.5, 0.25, 0.25]))
    text = """
    domain W = file("words.txt")
    factor f(-> W) = load("f.npy")
    factor g(W) = {"'\\"": 2, dog: 1}
    nonterminal S() start S rule S -> f(w) g(w)
    """
    grammar = load(text, str(tmp_path))
    printed = print_grammar(grammar)
    assert 'file("words.txt")' in printed and 'load("f.npy")' in printed
    assert '{dog: 1, "\'\\"": 2}' in printed
    assert load(printed, str(tmp_path)) == grammar


def test_a_map_by_names_that_are_not_clear_is_printed_as_a_table() -> None:
    text = """
    domain A = {"B.x", x} domain `A.B` = {x} domain C = {"B.x"} domain U = A + `A.B` + C
    factor f(A) = {x: 1} factor g(U)
    nonterminal S() start S rule S -> f(a) g(u)
    """
    grammar = load(text)
    sparse = Sparse((((0,), 1.0), ((2,), 0.5)))
    factors = (grammar.factors[0], replace(grammar.factors[1], value=sparse))
    printed = print_grammar(replace(grammar, factors=factors))
    assert "factor f(A) = {x: 1}" in printed
    assert "factor g(U) = [1, 0, 0.5, 0]" in printed


def test_the_text_of_a_model_with_queries(golden: Golden) -> None:
    path = next(path for path in FILES if path.stem == "pcfg")
    golden(print_grammar(load(path.read_text("utf-8"))), "fgg")


EVERYTHING = """
size k = 2 size m = 2*k - 1
domain T = k domain Tag = {Noun, Verb, "'s", "a b", 7} domain C = T + Tag domain L = T * Tag
domain M = C rank R = m
domain Long = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,
  a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29}
input w: Tag[n] input s: T[n, n+1] input table left[n] input factor phi[i](T, T) for 0 <= i < n-1
factor a() factor b(-> T) = [1/3, 2/3] factor c(T -> T) = uniform factor d(T, T) = eye
factor e(T, Tag) = {0: {Noun: 1, "'s": 0.25}, 1: {7: 3}} factor f(C) = {0: 1, Noun: 2}
factor g(Long) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
  24, 25, 26, 27, 28, 29, 30]
factor h(T, Tag) = [[1000000, 2000000, 3000000, 4000000, 5000000], [0.00001, 0.00002, 0.5, 0.25, 1]]
factor hh(T, Tag) = [[10000000, 20000000, 30000000, 40000000, 50000000],
  [0.0000100001, 0.00002, 0.5, 0.25, 100000000]]
factor i(T -> Tag) rank k with prior = dirichlet(0.1), net = residual(dim=256, layers=2),
  init = normal
factor j(Tag -> T) = map(0, 1, 0, 1, 0) factor k(T -> Tag) with blocks = j
factor kk(Long -> T) = map(runs)
factor `the rule`(T) = 0.5
nonterminal S() nonterminal X[i, j](T) for 0 <= i < j <= n nonterminal Y(T, T)
start S
rule begin: S -> X[0, n](t)
rule word: X[i, i+1](t) -> i(t, w[i]) phi[i](t, t) for i < n - 1
rule binary: X[i, j](t) -> c(t, u) d(t, v) Y(u, v) X[i, k2](u) X[k2, j](v) c(u, v) c(v, u)
  d(u, v) d(v, u) (x: Long) (y: L) e(y.T, y.Tag) for i < k2 < j, 2*i - n <= j
rule same: Y(t, t) -> `the rule`(t) (`a b`: L)
rule S -> a k(t, u) kk(x, t)
"""


def test_the_text_of_everything(golden: Golden) -> None:
    grammar = load(EVERYTHING)
    text = print_grammar(grammar)
    assert load(text) == grammar
    golden(text, "fgg")
