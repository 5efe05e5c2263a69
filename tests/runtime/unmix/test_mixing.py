"""Unmixing: backbones and the mixing matrix against moments."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch

import fgg
from fgg.api.compile import selected
from fgg.api.unmix import mixing_matrix
from fgg.runtime.unmix.mixing import compound, mixing
from fgg.runtime.unmix.moments import ExactMoments
from fgg.runtime.unmix.structure import States, shape_of
from tests.helpers.unmixing import load

TREES = ("pcfg_ie", "pcfg_i", "hmm", "lcm", "dep_ies", "dep_ie", "dep_i")


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
