"""Three views of a hidden node: HMMs, latent classes, and other grammars of that structure."""

from __future__ import annotations

import numpy as np
import pytest

import fgg
from fgg.api.compile import selected
from fgg.api.unmix import draw, unmix
from fgg.runtime.unmix.structure import shape_of
from fgg.runtime.unmix.three_views import Views
from tests.helpers.unmixing import load, random_weights


@pytest.mark.parametrize("name", ["hmm", "lcm"])
@pytest.mark.parametrize(("k", "d"), [(2, 3), (5, 6)])
def test_exact_moments_give_the_parameters(name: str, k: int, d: int) -> None:
    for seed in range(4):
        grammar, weights = random_weights(name, seed, k=k, d=d)
        unmixing = unmix(grammar, weights=weights, method="spectral")
        assert unmixing.facts["method"] == "three views"
        assert unmixing.error(weights) < 1e-9


def test_paths_say_which_factors_are_quotients() -> None:
    shape = shape_of(selected(load("hmm", k=2, d=3), None))
    assert isinstance(shape, Views)
    assert {shape.first, shape.third} == {("emit",), ("trans", "emit")}
    assert shape.up == ("trans",) and shape.down == ("emit",)
    assert [q.result for q in shape.quotients] == [("trans",)]


def test_every_word_may_have_a_factor_of_its_own() -> None:
    """Three words of one class by three factors: a mixture, and nothing is named as in an HMM."""
    text = """
    domain C = 3  domain V = 4
    factor kind(-> C)  factor one(C -> V)  factor two(C -> V)  factor three(C -> V)
    nonterminal S()
    start S
    rule all: S -> kind(c) one(c, x) two(c, y) three(c, z)
    query string(w: V[n]) {
      rule all: S -> x = w[0] y = w[1] z = w[n-1]
    }
    """
    grammar = fgg.loads(text)
    random = np.random.default_rng(0)
    truth = {
        "kind": random.dirichlet(np.full(3, 5)),
        **{name: random.dirichlet(np.ones(4), size=3) for name in ("one", "two", "three")},
    }
    unmixing = unmix(grammar, weights=truth, method="spectral")
    assert unmixing.weights.keys() == truth.keys()
    assert unmixing.error(truth) < 1e-9


def test_errors_from_sentences_are_near_to_those_of_the_greatest_likelihood() -> None:
    truth = {
        "init": np.array([0.7, 0.3]),
        "trans": np.array([[0.8, 0.2], [0.3, 0.7]]),
        "emit": np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
    }
    grammar = load("hmm", k=2, d=3)
    unmixing = unmix(grammar, {3: draw(grammar, truth, 3, 100_000, seed=0)})
    assert unmixing.error(truth) < 0.05
    assert unmixing.moved < 0.05, "rows of estimates sum to one up to error, and are projected"


def test_states_that_are_alike_are_refused() -> None:
    grammar, weights = random_weights("lcm", 0, k=2, d=3)
    weights["emit"][1] = weights["emit"][0]
    with pytest.raises(fgg.GrammarError, match="F461"):
        unmix(grammar, weights=weights)
    with pytest.raises(fgg.GrammarError, match="2 words for 3 states"):
        unmix(load("hmm", k=3, d=2), [[0, 1, 0]])
