"""Unmixing: backbones and the mixing matrix against moments, and parameters from them."""

from __future__ import annotations

import re
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.api.compile import selected
from fgg.api.unmix import checked, curve, draw, mixing_matrix, unmix
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.runtime.program.bind import stationary
from fgg.runtime.unmix import spectral
from fgg.runtime.unmix.mixing import compound, mixing
from fgg.runtime.unmix.moments import ExactMoments, sampled
from fgg.runtime.unmix.result import aligned
from fgg.runtime.unmix.solve import expected, refine, solve
from fgg.runtime.unmix.spectral import project
from fgg.runtime.unmix.structure import Arcs, States, shape_of
from fgg.runtime.unmix.topology import topologies
from tests.helpers.places import LIBRARY

TREES = ("pcfg_ie", "pcfg_i", "hmm", "lcm", "dep_ies", "dep_ie", "dep_i")
TRUTH = {
    "root": np.array([0.4, 0.6]),
    "child": np.array([[0.8, 0.2], [0.3, 0.7]]),
    "emit": np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5]]),
}


def load(name: str, **sizes: int) -> Grammar:
    known = fgg.load(name).size
    return fgg.load(name, sizes={n: v for n, v in sizes.items() if n in known})


def instance(random: np.random.Generator, k: int, d: int) -> dict[str, Any]:
    """Parameters with T = (I + Dirichlet) / 2."""
    return {
        "root": random.dirichlet(np.ones(k)),
        "child": (np.eye(k) + random.dirichlet(np.ones(k), size=k)) / 2,
        "emit": random.dirichlet(np.ones(d), size=k),
    }


def test_a_result_is_short_in_a_session_and_a_table_in_a_notebook() -> None:
    result = unmix(load("pcfg_ie", k=2, d=4), weights=TRUTH)
    assert repr(result).startswith(
        "Unmixing('pcfg_ie_string', root [2], child [2, 2], emit [2, 4], "
    )
    assert "| `emit` | [2, 4] |" in result._repr_markdown_().splitlines()


# backbones and the mixing matrix


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", TREES)
def test_mixed_compound_parameters_are_the_moments(name: str, order: int) -> None:
    program = fgg.compile(load(name, k=2, d=3))
    weights = program.weights(seed=3, dtype=torch.float64)
    numbers = {n: w.numpy() for n, w in weights.items()}
    mixed = mixing(program.grammar, range(order, 6), order=order)
    eta = np.random.default_rng(0).normal(size=3) if order == 3 else None
    psi = np.stack([compound(backbone, numbers, eta) for backbone in mixed.columns])
    found = np.einsum("op,pij->oij", mixed.matrix, psi)
    exact = ExactMoments(program, weights, ())
    for at, matrix in zip(mixed.rows, found, strict=True):
        joint = exact.joint(at.length, at.positions)
        np.testing.assert_allclose(matrix, joint if eta is None else joint @ eta, atol=1e-14)


def test_topologies_are_counted() -> None:
    arcs = mixing(selected(load("dep_ies"), None), range(2, 7), order=2)
    assert list(arcs.topologies.values()) == [2, 7, 30, 143, 728]
    trees = mixing(selected(load("pcfg_ie"), None), range(2, 8), order=2)
    assert list(trees.topologies.values()) == [comb(2 * n, n) // (n + 1) for n in range(1, 7)]


def test_the_mixing_matrix_of_ten_words_has_the_size_and_the_rank_of_the_paper() -> None:
    mixed = mixing_matrix(load("pcfg_ie"), 10)
    assert mixed.matrix.shape == (990, 2376)
    assert mixed.rank == 974
    assert len(mixed.determined) == 12
    shape = shape_of(selected(load("pcfg_ie"), None))
    assert isinstance(shape, States)
    for target in (shape.target, shape.transposed):
        weights = mixed.combination({target: 1.0})
        assert weights is not None
        assert {at.length for at in weights} == {3}, "longer sentences add nothing"
        assert sorted(np.round(list(weights.values()), 9)) == [-1, 1, 1]


def test_rows_of_the_mixing_matrix_are_shares() -> None:
    mixed = mixing_matrix(load("pcfg_ie"), 6)
    np.testing.assert_allclose(mixed.matrix.sum(axis=1), 1)
    assert mixed.rank == np.linalg.matrix_rank(mixed.matrix)


def test_the_rank_of_compound_parameters_of_unequal_children_is_too_low() -> None:
    # Of PCFG-I nothing is determined [ID App. C.2, footnote].
    assert mixing_matrix(load("pcfg_i"), 5).determined == ()


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
        ("hmm", "no tree of three words"),
        ("lcm", "children by no factor"),
        ("dep_ie", "`root` is not the stationary distribution of `arc`"),
        ("dep_i", "draw others by `left` and `right`"),
        ("dmv", "not a distribution of one node given one other"),
        ("pair_hmm", "no query with one string"),
        ("crf", "no query with one string"),
    ],
)
def test_other_grammars_are_refused_with_the_condition_that_fails(name: str, reason: str) -> None:
    with pytest.raises(fgg.GrammarError) as caught:
        unmix(fgg.load(name), weights={})
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


# PCFG-IE


def medians(k: int, number: int) -> tuple[float, float]:
    program = fgg.compile(load("pcfg_ie", k=k, d=k))
    shape = shape_of(program.grammar)
    random = np.random.default_rng(k)
    errors = []
    for seed in range(number):
        truth = instance(random, k, k)
        exact = ExactMoments(program, checked(program, truth), (3,))
        errors.append(solve(program, shape, exact, 3, 20, seed).error(truth))
    return float(np.median(errors)), max(errors)


@pytest.mark.parametrize("k", [2, 4, 8])
def test_exact_moments_give_the_parameters(k: int) -> None:
    median, worst = medians(k, 15)
    assert median <= 1e-10
    assert worst <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("k", range(2, 9))
def test_exact_moments_give_the_parameters_of_hundreds_of_instances(k: int) -> None:
    median, _ = medians(k, 200)
    assert median <= 1e-10


def test_decompose_needs_the_transpose_of_the_slice_that_the_paper_gives_it() -> None:
    """With Ψ₃ the eigenvectors are the columns of A; with Ψ₂ they are not."""
    truth = instance(np.random.default_rng(4), 3, 3)
    a = (truth["child"] @ truth["emit"]).T
    step, tau = truth["child"].T, np.array([0.3, -1.0, 0.4])
    middle = step @ np.diag(truth["root"])
    whole, slice = a @ middle @ a.T, a @ np.diag(a.T @ tau) @ middle @ a.T

    def distance(x: Any, y: Any) -> float:
        columns, _ = spectral.decompose(x, y, 3)
        columns = columns.real / columns.real.sum(axis=0)
        return float(max(np.abs(columns - c[:, None]).sum(axis=0).min() for c in a.T))

    assert distance(whole, slice) < 1e-10
    assert distance(whole.T, slice.T) > 1e-2


def test_the_best_of_several_directions_is_better_than_one() -> None:
    program = fgg.compile(load("pcfg_ie", k=4, d=4))
    shape = shape_of(program.grammar)
    random = np.random.default_rng(0)
    one, many = [], []
    for seed in range(30):
        truth = instance(random, 4, 4)
        exact = ExactMoments(program, checked(program, truth), (3,))
        one.append(solve(program, shape, exact, 3, 1, seed).error(truth))
        many.append(solve(program, shape, exact, 3, 20, seed).error(truth))
    assert np.median(many) < np.median(one)


def test_errors_fall_as_sentences_grow_in_number() -> None:
    found = curve(load("pcfg_ie", k=2, d=4), TRUTH, (10_000, 100_000, 1_000_000), draws=5)
    first, second, third = (point.error for point in found)
    assert third < second < first
    assert third < 0.1 < first


def test_estimates_outside_the_simplex_are_projected_and_said_to_be() -> None:
    grammar = load("pcfg_ie", k=2, d=4)
    found = unmix(grammar, {3: draw(grammar, TRUTH, 3, 300, seed=0)})
    assert [note.code for note in found.notes] == ["F464"]
    assert found.moved > 1e-6
    for value in found.weights.values():
        assert value.min() >= 0
        np.testing.assert_allclose(value.sum(axis=-1), 1)
    assert unmix(grammar, weights=TRUTH).notes == ()


def test_projection_finds_the_nearest_distribution() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(50, 4))
    found = project(rows)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1)
    for _ in range(50):
        others = random.dirichlet(np.ones(4) * random.choice([0.1, 1.0]), size=50)
        near = np.linalg.norm(rows - found, axis=1)
        assert (near <= np.linalg.norm(rows - others, axis=1) + 1e-12).all()
    inside = random.dirichlet(np.ones(4), size=5)
    np.testing.assert_allclose(project(inside), inside, atol=1e-15)


def test_states_are_matched_up_to_a_permutation() -> None:
    truth = instance(np.random.default_rng(3), 5, 7)
    order = np.array([3, 0, 4, 1, 2])
    mixed_up = {
        "root": truth["root"][order],
        "child": truth["child"][np.ix_(order, order)],
        "emit": truth["emit"][order],
    }
    found = aligned(States("root", "child", "emit", 5, 7), mixed_up, truth)
    for name, value in truth.items():
        np.testing.assert_array_equal(found[name], value)


# DEP-IES


def worst_of_arcs(d: int, number: int) -> tuple[float, int]:
    """The greatest error over instances, and how often the principal roots are the wrong ones."""
    program = fgg.compile(load("dep_ies", d=d))
    shape = shape_of(program.grammar)
    random = np.random.default_rng(d)
    worst, principal = 0.0, 0
    for _ in range(number):
        arc = random.dirichlet(np.ones(d), size=d)
        truth = {"arc": arc, "root": stationary(arc)}
        exact = ExactMoments(program, checked(program, truth), (2, 3))
        worst = max(worst, solve(program, shape, exact, 3, 1, 0).error(truth))
        principal += bool((np.linalg.eigvals(arc).real < -0.5).any())
    return worst, principal


@pytest.mark.parametrize("d", [2, 3, 5])
def test_pairs_of_words_give_the_arcs(d: int) -> None:
    worst, principal = worst_of_arcs(d, 20)
    assert worst <= 1e-9
    assert d > 2 or principal > 0, "some instance needs the other root"


@pytest.mark.slow
@pytest.mark.parametrize("d", range(2, 9))
def test_pairs_of_words_give_the_arcs_of_a_thousand_instances(d: int) -> None:
    worst, _ = worst_of_arcs(d, 1000)
    assert worst <= 1e-9


def test_the_other_root_is_chosen_where_the_residual_says_so() -> None:
    arc = np.array([[0.1, 0.9], [0.8, 0.2]])  # eigenvalues 1 and -0.7, not -0.3
    found = unmix(load("dep_ies", d=2), weights={"arc": arc})
    np.testing.assert_allclose(found.weights["arc"], arc, atol=1e-12)
    assert found.facts["polynomial"] == "λ^2 + λ"
    assert found.facts["choices"] == 2


def test_five_words_give_the_arcs_without_roots() -> None:
    arc = np.random.default_rng(0).dirichlet(np.ones(4), size=4)
    found = unmix(load("dep_ies", d=4), weights={"arc": arc}, max_length=5)
    assert found.facts["polynomial"] == "λ"
    np.testing.assert_allclose(found.weights["arc"], arc, atol=1e-11)


def test_sentences_of_three_words_alone_determine_no_polynomial() -> None:
    grammar = load("dep_ies", d=2)
    with pytest.raises(fgg.GrammarError, match="F461"):
        unmix(grammar, {3: draw(grammar, {"arc": np.full((2, 2), 0.5)}, 3, 50)})


def test_arcs_come_from_sentences_too() -> None:
    grammar = load("dep_ies", d=3)
    arc = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])
    truth = {"arc": arc, "root": stationary(arc)}
    few, many = curve(grammar, truth, (1_000, 1_000_000), draws=3)
    assert many.error < few.error / 5
    assert many.error < 0.02


# EM


@pytest.mark.parametrize(("name", "sizes"), [("pcfg_ie", {"k": 2, "d": 3}), ("dep_ies", {"d": 3})])
def test_em_raises_the_likelihood_at_each_step(name: str, sizes: dict[str, int]) -> None:
    grammar = load(name, **sizes)
    program = fgg.compile(grammar)
    truth = program.weights(seed=1, dtype=torch.float64)
    own = {n: draw(grammar, truth, n, 500, seed=n) for n in (2, 3, 4)}
    data = sampled(own, 3)
    start = program.weights(seed=2, dtype=torch.float64)
    weights, levels = refine(program, start, data, steps=15)
    assert len(levels) > 5
    assert all(b >= a for a, b in pairwise(levels))
    assert levels[-1] > levels[0] + 1e-3
    for value in weights.values():
        np.testing.assert_allclose(value.sum(dim=-1), 1)
    if name == "dep_ies":
        np.testing.assert_allclose(weights["root"], weights["root"] @ weights["arc"])


def test_counts_of_different_sentences_are_those_of_all() -> None:
    grammar = load("pcfg_ie", k=2, d=3)
    program = fgg.compile(grammar)
    weights = program.weights(seed=0, dtype=torch.float64)
    own = draw(grammar, weights, 3, 60, seed=0)
    _, counts = expected(program, weights, sampled({3: own}, 3))
    whole = program.expected_counts(weights, {"w": own})
    for name, value in whole.items():
        torch.testing.assert_close(counts[name], value)


@pytest.mark.slow
def test_em_from_the_estimate_uses_all_sentences() -> None:
    grammar = load("pcfg_ie", k=2, d=4)
    own = {n: draw(grammar, TRUTH, n, 20_000, seed=n) for n in (3, 5)}
    plain = unmix(grammar, own)
    refined = unmix(grammar, own, refine=60)
    assert refined.levels[-1] > refined.levels[0]
    assert refined.error(TRUTH) < plain.error(TRUTH)


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


def test_the_first_sentences_drawn_are_a_sample_too() -> None:
    grammar = fgg.load("lcm", sizes={"k": 1, "d": 2})
    weights = {"class": [1.0], "emit": [[0.5, 0.5]]}
    own = draw(grammar, weights, 3, 10_000, seed=0)
    assert own.shape == (10_000, 3)
    assert abs(own[:1000].mean() - 0.5) < 0.05
