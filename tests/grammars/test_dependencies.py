"""Dependency grammars of the library, each compared with the model that it claims to be."""

from __future__ import annotations

from itertools import product
from math import exp

import numpy as np
import pytest

from tests.helpers.library import TREES, ask, count, either, parameters
from tests.oracles import library_models as direct


@pytest.mark.parametrize("name", ["dep_i", "dep_ie", "dep_ies"])
@pytest.mark.parametrize("w", [[1], [0, 1], [1, 1, 0], [0, 2, 1, 0], [2, -1, 0]])
def test_dependency_models_sum_over_projective_trees(name: str, w: list[int]) -> None:
    weights = parameters(name, {"d": 3})
    left, right = either(weights, "left", "arc"), either(weights, "right", "arc")
    trees = list(direct.projective_trees(len(w)))
    known = [range(3) if word < 0 else [word] for word in w]  # a missing word is summed out
    expected = sum(
        direct.dependencies(weights["root"], left, right, words, heads)
        for heads in trees
        for words in product(*known)
    )
    assert len(trees) == TREES[len(w)]
    assert ask(name, "string", weights, {"d": 3}, w=w) == pytest.approx(expected)


def test_every_word_of_a_stationary_dependency_model_has_the_same_distribution() -> None:
    weights = parameters("dep_ies", {"d": 2})
    for position, word in product(range(3), range(2)):
        w = [word if i == position else -1 for i in range(3)]
        found = ask("dep_ies", "string", weights, {"d": 2}, w=w)
        assert found == pytest.approx(TREES[3] * weights["root"][word])


@pytest.mark.parametrize("w", [[1], [0, 1], [1, 0], [1, 1, 0], [0, 1, 0]])
def test_dmv_sums_over_trees_with_their_decisions(w: list[int]) -> None:
    weights = parameters("dmv", {"tags": 2})
    trees = direct.projective_trees(len(w))
    expected = sum(direct.valence(weights, w, heads) for heads in trees)
    assert ask("dmv", "string", weights, {"tags": 2}, w=w) == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_eisner_sums_the_scores_of_projective_trees(n: int) -> None:
    rng = np.random.default_rng(n)
    root, arc = rng.normal(size=n), rng.normal(size=(n, n))
    trees = list(direct.projective_trees(n))
    expected = sum(
        exp(sum(root[m] if h < 0 else arc[h, m] for m, h in enumerate(heads))) for heads in trees
    )
    found = ask("eisner", None, {}, {}, root=root.tolist(), arc=arc.tolist())
    assert found == pytest.approx(expected)
    assert count("eisner", None, n=n) == len(trees) == TREES[n]
