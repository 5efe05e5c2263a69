"""Unmixing: parameters from exact moments and from sentences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.api.unmix import checked, curve, draw, unmix
from fgg.runtime.stationary_distribution import stationary
from fgg.runtime.unmix import pcfg_ie
from fgg.runtime.unmix.likelihood import expected, refine
from fgg.runtime.unmix.moments import ExactMoments, sampled
from fgg.runtime.unmix.pcfg_ie import project
from fgg.runtime.unmix.solve import solve
from fgg.runtime.unmix.structure import shape_of
from tests.helpers.unmixing import TRUTH, instance, load


def test_a_result_is_short_in_a_session_and_a_table_in_a_notebook() -> None:
    result = unmix(load("pcfg_ie", k=2, d=4), weights=TRUTH)
    assert repr(result).startswith(
        "Unmixing('pcfg_ie_string', root [2], child [2, 2], emit [2, 4], "
    )
    assert "| `emit` | [2, 4] |" in result._repr_markdown_().splitlines()


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
        columns, _ = pcfg_ie.decompose(x, y, 3)
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
    refined = refine(program, start, data, steps=40)
    weights, levels = refined.weights, refined.levels
    assert len(levels) > 25
    assert all(b >= a for a, b in pairwise(levels))
    assert levels[-1] > levels[0] + 1e-3
    for value in weights.values():
        np.testing.assert_allclose(value.sum(dim=-1), 1)
    if name == "dep_ies":
        np.testing.assert_allclose(weights["root"], weights["root"] @ weights["arc"])


@pytest.mark.parametrize(("name", "sizes"), [("lcm", {"k": 2, "d": 3}), ("dep_ies", {"d": 3})])
def test_the_likelihood_is_maximised_to_a_stated_gradient(name: str, sizes: dict[str, int]) -> None:
    """The maximum is one: neither way along a log-weight raises it, and slopes are as small."""
    grammar = load(name, **sizes)
    program = fgg.compile(grammar)
    own = {n: draw(grammar, program.weights(seed=1), n, 2_000, seed=n) for n in (2, 3)}
    data = sampled(own, sizes["d"])
    found = refine(program, program.weights(seed=1, dtype=torch.float64), data, steps=500)
    assert found.gradient <= 1e-7
    best, _ = expected(program, found.weights, data)
    assert abs(best - found.levels[-1]) < 1e-12
    for leaf in ("arc",) if name == "dep_ies" else ("class", "emit"):
        levels = []
        for sign in (-1, 1):
            moved = found.weights[leaf].log().clone()
            moved.view(-1)[1] += sign * 1e-4
            trial = {**found.weights, leaf: moved.softmax(dim=-1)}
            if name == "dep_ies":
                trial["root"] = torch.as_tensor(stationary(trial["arc"].numpy()))
            levels.append(expected(program, trial, data)[0])
        assert abs(levels[1] - levels[0]) / 2e-4 < 2e-7
        assert max(levels) <= best + 1e-12


def test_the_norm_of_the_gradient_does_not_depend_on_the_number_of_sentences() -> None:
    grammar = load("pcfg_ie", k=2, d=4)
    program = fgg.compile(grammar)
    own = draw(grammar, TRUTH, 3, 500, seed=0)
    start = {name: torch.as_tensor(value) for name, value in TRUTH.items()}
    once = refine(program, start, sampled({3: own}, 4), steps=0)
    twice = refine(program, start, sampled({3: np.concatenate([own, own])}, 4), steps=0)
    assert once.gradient == pytest.approx(twice.gradient, abs=1e-12)
    assert once.gradient > 1e-3


def test_errors_need_no_weights_that_follow_from_others() -> None:
    arc = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])
    found = unmix(load("dep_ies", d=3), weights={"arc": arc})
    assert found.errors({"arc": arc}).keys() == {"root", "arc"}
    assert found.error({"arc": arc}) < 1e-10
    for wrong in ({}, {"arc": arc[:2]}, {"arc": arc, "ark": arc}):
        with pytest.raises(fgg.GrammarError):
            found.error(wrong)


def test_counts_of_different_sentences_are_those_of_all() -> None:
    grammar = load("pcfg_ie", k=2, d=3)
    program = fgg.compile(grammar)
    weights = program.weights(seed=0, dtype=torch.float64)
    own = draw(grammar, weights, 3, 60, seed=0)
    _, counts = expected(program, weights, sampled({3: own}, 3))
    whole = program.posterior(weights, {"w": own}).counts
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


def test_the_first_sentences_drawn_are_a_sample_too() -> None:
    grammar = fgg.load("lcm", sizes={"k": 1, "d": 2})
    weights = {"class": [1.0], "emit": [[0.5, 0.5]]}
    own = draw(grammar, weights, 3, 10_000, seed=0)
    assert own.shape == (10_000, 3)
    assert abs(own[:1000].mean() - 0.5) < 0.05
