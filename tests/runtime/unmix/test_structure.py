"""Unmixing: which grammars and which data it is for, and what it says of others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fgg
from fgg.api.compile import selected
from fgg.api.unmix import mixing_matrix, unmix
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.runtime.unmix.structure import Arcs, States, shape_of
from fgg.runtime.unmix.topology import topologies
from tests.helpers.places import LIBRARY
from tests.helpers.unmixing import TRUTH, instance, load

# which grammars


def renamed(name: str, names: dict[str, str], **sizes: int) -> Grammar:
    text = (LIBRARY / f"{name}.fgg").read_text("utf-8")
    for old, new in names.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return fgg.loads(text, sizes=sizes)


def test_structure_is_told_by_rules_and_not_by_names() -> None:
    names = {"root": "top", "child": "below", "emit": "says", "X": "Phrase", "S": "Z", "w": "v"}
    other = renamed("pcfg_ie", names, k=2, d=3)
    assert shape_of(selected(other, None)) == States("top", "below", "says", 2, 3)
    truth = instance(np.random.default_rng(0), 2, 3)
    found = unmix(other, weights=dict(zip(("top", "below", "says"), truth.values(), strict=True)))
    same = unmix(load("pcfg_ie", k=2, d=3), weights=truth)
    np.testing.assert_allclose(found.weights["says"], same.weights["emit"], atol=1e-12)
    arcs = renamed("dep_ies", {"root": "top", "arc": "draws", "CL": "A", "IL": "B"}, d=3)
    assert shape_of(selected(arcs, None)) == Arcs("top", "draws", 3)


def test_rules_may_be_written_in_another_way() -> None:
    """Left and right children of a phrase in rules of their own: two families in place of one."""
    text = """
    domain N = 2  domain W = 3
    factor root(-> N)  factor child(N -> N)  factor emit(N -> W)
    nonterminal S()  nonterminal X(N)  nonterminal Down(N)
    start S
    rule root:   S       -> root(a) X(a)
    rule binary: X(a)    -> Down(a) Down(a)
    rule down:   Down(a) -> X(b) child(a, b)
    rule word:   X(a)    -> emit(a, o)
    query string(w: W[n]) {
      rule root:   S         -> X[0,n]
      rule binary: X[i,j]    -> Down[i,m] Down[m,j]   for i < m < j
      rule down:   Down[i,j] -> X[i,j]                for i < j
      rule word:   X[i,i+1]  -> o = w[i]
    }
    """
    truth = instance(np.random.default_rng(1), 2, 3)
    assert unmix(fgg.loads(text), weights=truth).error(truth) < 1e-9


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pcfg_i", "children by `left` and `right`"),
        ("cnf", "`binary` is not a distribution of one node given one other"),
        ("dep_ie", "`root` is not the stationary distribution of `arc`"),
        ("dep_i", "draw others by `left` and `right`"),
        ("dmv", "not a distribution of one node given one other"),
        ("pair_hmm", "no query with one string"),
        ("crf", "no query with one string"),
    ],
)
def test_other_grammars_are_refused_with_the_condition_that_fails(name: str, reason: str) -> None:
    with pytest.raises(fgg.GrammarError) as caught:
        unmix(fgg.load(name), weights={}, method="spectral")
    (problem,) = caught.value.diagnostics
    assert problem.code == "F460"
    assert reason in problem.message


def test_a_branching_that_is_not_free_is_another_mixture() -> None:
    """Trees that branch to the right only: one topology a length, nothing to unmix."""
    text = (LIBRARY / "pcfg_ie.fgg").read_text("utf-8")
    right = fgg.loads(text.replace("for i < m < j", "for m == i + 1, i < m < j"), sizes={"d": 5})
    mixed = mixing_matrix(right, 5)
    assert set(mixed.topologies.values()) == {1}
    truth = instance(np.random.default_rng(2), 4, 5)
    found = unmix(right, weights=truth)
    assert found.used == ("length 3: 1 2; 3", "length 3: 1 3; 2"), "the same backbone twice"
    assert found.error(truth) < 1e-9


# what is wrong


@pytest.mark.parametrize(
    ("sentences", "code"),
    [
        ([], "F411"),
        ([[0, 1]], "F461"),
        ([[0, 1, 7]], "F411"),
        ([[0, -1, 1]], "F411"),
        ({3: [[0, 1]]}, "F411"),
    ],
)
def test_sentences_that_cannot_be_used_are_refused(sentences: Any, code: str) -> None:
    with pytest.raises(fgg.GrammarError, match=code):
        unmix(load("pcfg_ie", k=2, d=3), sentences)


def test_fewer_words_than_states_are_refused_before_any_moment() -> None:
    with pytest.raises(fgg.GrammarError, match="3 words for 4 states"):
        unmix(load("pcfg_ie", k=4, d=3), [[0, 1, 2]])


def test_weights_that_are_no_distributions_are_refused() -> None:
    wrong = {**TRUTH, "emit": TRUTH["emit"] * 2}
    with pytest.raises(fgg.GrammarError, match="`emit` are not distributions"):
        unmix(load("pcfg_ie", k=2, d=4), weights=wrong)


def test_large_tables_are_refused_before_they_are_made() -> None:
    with pytest.raises(fgg.GrammarError, match="F420"):
        unmix(load("pcfg_ie", k=2, d=1000), weights=instance(np.random.default_rng(0), 2, 1000))
    sentences = np.random.default_rng(0).integers(0, 1000, size=(100, 3))
    with pytest.raises(fgg.GrammarError, match="F420"):
        unmix(load("pcfg_ie", k=2, d=10**6), {3: sentences})


def test_derivations_that_are_no_trees_are_refused() -> None:
    text = (LIBRARY / "pcfg_ie.fgg").read_text("utf-8")
    twice = fgg.loads(text.replace("emit(a, o)", "emit(a, o) root(a)"))
    with pytest.raises(fgg.GrammarError, match="drawn twice"):
        topologies_of(twice)


def topologies_of(grammar: Grammar) -> object:
    assert topologies(selected(grammar, None), 3)
    return mixing_matrix(grammar, 3)


def test_words_that_are_no_numbers_are_refused() -> None:
    grammar = fgg.load("pcfg_ie", sizes={"k": 2, "d": 3})
    wrong: list[Any] = [[[0, 1, 0.5]], "abc", {3: [["a", "b", "c"]]}, {3: [[0, 1, 2], [0]]}]
    for sentences in wrong:
        with pytest.raises(GrammarError) as caught:
            fgg.unmix(grammar, sentences)
        assert caught.value.diagnostics[0].code == "F411"
