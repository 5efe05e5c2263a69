"""Moment matching: moments and derivatives against enumeration, fits, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.api.unmix import draw, moment_model_of, unmix
from fgg.runtime.matching.coordinates import Coordinates
from fgg.runtime.matching.fit import incidence
from fgg.runtime.matching.least_squares import least_squares
from fgg.runtime.matching.model_moments import all_strings
from fgg.runtime.unmix.alignment import alignment_of
from tests.helpers.unmixing import load, random_weights


def by_enumeration(
    program: Any, weights: Any, words: int, length: int, kept: tuple[int, ...]
) -> Any:
    """The joint distribution of kept words, as a sum over all sentences of the length."""
    strings = np.array(list(product(range(words), repeat=length)))
    whole = program.weights(weights, dtype=torch.float64)
    z = program.log_z(whole, {"w": torch.from_numpy(strings)}).exp().numpy()
    table = np.zeros((words,) * len(kept))
    np.add.at(table, tuple(strings[:, list(kept)].T), z / z.sum())
    return table.ravel()


@pytest.mark.parametrize(
    ("name", "sizes", "length"),
    [("hmm", {"k": 2, "d": 2}, 4), ("pcfg_i", {"k": 2, "d": 2}, 3), ("dep_ies", {"d": 2}, 3)],
)
def test_moments_and_their_derivatives_are_those_of_an_enumeration(
    name: str, sizes: dict[str, int], length: int
) -> None:
    grammar, weights = random_weights(name, 1, **sizes)
    model = moment_model_of(grammar, None, None, [length], "**")
    coordinates = Coordinates(model.parameters)
    values, rows = model.at(coordinates.point(weights), length)
    parts = model.by_length[length].kept
    assert len(parts) == length * (length - 1) // 2
    program = fgg.compile(grammar)
    expected = [by_enumeration(program, weights, 2, length, part.tokens) for part in parts]
    np.testing.assert_allclose(values, np.concatenate(expected), atol=1e-13)
    vector = coordinates.vector(weights)
    slopes = coordinates.by_log_weights(coordinates.point(weights), rows)
    step = 1e-5
    for place in range(0, coordinates.count, 3):
        moved = []
        for sign in (-1, 1):
            shifted = vector.copy()
            shifted[place] += sign * step
            moved.append(model.at(coordinates.point(coordinates.tables(shifted)), length)[0])
        np.testing.assert_allclose((moved[1] - moved[0]) / (2 * step), slopes[:, place], atol=1e-8)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("hmm", {"k": 2, "d": 3}),
        ("lcm", {"k": 2, "d": 3}),
        ("dep_i", {"d": 2}),
        ("dep_ie", {"d": 2}),
    ],
)
def test_exact_moments_give_the_parameters(name: str, sizes: dict[str, int]) -> None:
    grammar, weights = random_weights(name, 1, **sizes)
    fit = unmix(grammar, weights=weights, method="moments")
    assert fit.error(weights) < 1e-8
    assert fit.notes == ()
    assert fit.facts["solutions"] == 1


def test_grammars_that_moments_do_not_determine_are_refused_with_the_rank() -> None:
    for name, said in (("cnf", "determine 9 of 11"), ("hmm_rank", "determine 7 of 13")):
        grammar, weights = random_weights(name, 0, k=2 if name == "cnf" else 3, d=3, r=2)
        with pytest.raises(fgg.GrammarError, match=said):
            unmix(grammar, weights=weights)
    grammar, weights = random_weights("lcm", 0, k=2, d=3)
    with pytest.raises(fgg.GrammarError, match="F461"):
        unmix(grammar, weights=weights, method="moments", moments="**")
    with pytest.raises(fgg.GrammarError, match="F460"):
        unmix(load("crf"), [[0, 1, 2]])


def test_a_rank_is_that_of_what_lengths_have_together() -> None:
    """Conditional on the length, Z of the length is no moment: a scale is not determined."""
    grammar = load("dep_i", d=2)
    two = moment_model_of(grammar, None, None, [2], "**")
    both = moment_model_of(grammar, None, None, [2, 3], "**")
    assert two.rank(0) < both.rank(0) == both.parameters.count


def test_sentences_give_a_fit_that_a_test_does_not_reject() -> None:
    grammar, weights = random_weights("lcm", 1, k=2, d=3)
    fit = unmix(grammar, {3: draw(grammar, weights, 3, 20_000, seed=0)}, method="moments")
    assert fit.error(weights) < 0.03
    probability = fit.facts["probability"]
    assert isinstance(probability, float) and probability > 1e-3
    assert fit.facts["freedom"] == 26 - 5
    assert fit.notes == ()


def test_sentences_of_another_model_are_said_not_to_fit() -> None:
    grammar, weights = random_weights("hmm", 1, k=2, d=3)
    other, _ = random_weights("lcm", 1, k=1, d=3)
    own = {3: draw(grammar, weights, 3, 20_000, seed=0)}
    fit = unmix(other, own, method="moments")
    assert [note.code for note in fit.notes] == ["F466"]


def test_covariances_of_pairs_are_those_of_a_table() -> None:
    strings = all_strings(2, 3)
    model = moment_model_of(load("hmm", k=2, d=2), None, None, [3], "**")
    counts = incidence(strings, model.by_length[3].kept, 2).toarray()
    for row, string in zip(counts, strings, strict=True):
        pairs = [(0, 1), (0, 2), (1, 2)]
        places = [4 * i + 2 * string[a] + string[b] for i, (a, b) in enumerate(pairs)]
        assert sorted(np.flatnonzero(row)) == sorted(places)


def test_least_squares_finds_the_bottom_of_a_valley() -> None:
    def banana(vector: Any) -> Any:
        x, y = vector
        return np.array([10 * (y - x * x), 1 - x]), np.array([[-20 * x, 10], [-1, 0]])

    fit = least_squares(banana, np.array([-1.2, 1.0]), steps=200, tolerance=1e-12)
    assert fit is not None
    np.testing.assert_allclose(fit.vector, [1, 1], atol=1e-8)
    assert fit.steps < 100


@pytest.mark.parametrize("size", [4, 8])
def test_hidden_values_are_matched_in_any_order(size: int) -> None:
    grammar, weights = random_weights("hmm", 0, k=size, d=9)
    alignment = alignment_of(fgg.compile(grammar))
    assert alignment.sizes == {"T": size}
    order = np.roll(np.arange(size), 1)
    order[[0, 2]] = order[[2, 0]]
    moved = alignment.permuted(weights, {"T": order})
    assert alignment.distance(moved, weights) > 0.01
    renamed = alignment.aligned(moved, weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(renamed[name], value)
