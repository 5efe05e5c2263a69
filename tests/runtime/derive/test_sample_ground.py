"""Draws against the distribution they claim to come from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from fgg.compiler.resolve.load import loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.runtime.derive.decode_ground import sample
from tests.helpers.engine_grammars import scalars
from tests.oracles.enumeration import trees
from tests.runtime.reference.test_posterior import ACYCLIC, random_weights

DRAWS = 20_000


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


def check(grammar: Grammar, weights: dict[str, object], depth: int | None = None) -> None:
    """Compare the frequencies of derivations with their probabilities."""
    expected = {
        tree.key: tree.weight for _, tree in trees(grammar, weights=weights, max_depth=depth)
    }
    total = sum(expected.values())
    draws = sample(grammar, DRAWS, weights=weights, generator=generator())
    counts = Counter(d.key for d in draws)
    likely = {k: float(w / total) * DRAWS for k, w in expected.items()}
    big = [k for k, number in likely.items() if number >= 10]
    seen = [counts[k] for k in big]
    want = [likely[k] for k in big]
    rest = DRAWS - sum(want)
    if rest > 10:
        seen, want = [*seen, DRAWS - sum(seen)], [*want, rest]
    want = [w * sum(seen) / sum(want) for w in want]
    assert chisquare(seen, want).pvalue > 1e-3
    if depth is None:
        assert set(counts) <= set(expected)


def test_derivations_are_drawn_as_often_as_they_weigh() -> None:
    grammar = loads(ACYCLIC)
    check(grammar, {n: w.numpy() for n, w in random_weights(grammar).items()})


def test_a_geometric_number_of_steps_is_drawn() -> None:
    grammar = scalars("S -> p S; S -> q", p=0.6, q=0.3)
    lengths = Counter(len(d.steps) for d in sample(grammar, DRAWS, generator=generator()))
    want = [DRAWS * 0.4 * 0.6**i for i in range(12)]
    seen = [lengths[i + 1] for i in range(12)]
    assert chisquare([*seen, DRAWS - sum(seen)], [*want, DRAWS - sum(want)]).pvalue > 1e-3


def test_trees_of_a_branching_recursion_are_drawn() -> None:
    check(scalars("S -> a S S; S -> b; S -> c S", a=0.1, b=0.4, c=0.2), {}, depth=5)


def test_a_start_symbol_with_nodes_draws_their_values_too() -> None:
    grammar = loads(
        "domain T = 3\nfactor f(T, T) = [[1, 2, 3], [0, 4, 0], [5, 5, 1]]\n"
        "nonterminal S(T, T)\nstart S\nrule s: S(a, b) -> f(a, b)\nrule t: S(a, a) ->"
    )
    check(grammar, {})


def test_a_generator_or_a_seed_fixes_the_draws() -> None:
    grammar = scalars("S -> p S; S -> q", p=0.6, q=0.3)
    first, second = (sample(grammar, 30, generator=generator()) for _ in range(2))
    assert [d.key for d in first] == [d.key for d in second]
    assert [d.key for d in sample(grammar, 30, seed=1)] == [
        d.key for d in sample(grammar, 30, seed=1)
    ]
    assert [d.key for d in sample(grammar, 30, seed=1)] != [
        d.key for d in sample(grammar, 30, seed=2)
    ]


def test_weights_of_draws_are_their_own() -> None:
    grammar = scalars("S -> a S S; S -> b", a=0.2, b=0.5)
    for d in sample(grammar, 20, seed=0):
        assert d.weight == pytest.approx(0.2 ** d.rules.count("r0") * 0.5 ** d.rules.count("r1"))


def test_a_draw_that_grows_too_long_is_given_up() -> None:
    grammar = scalars("S -> p S; S -> q", p=0.999999, q=0.000001)
    with pytest.raises(GrammarError, match="F422"):
        sample(grammar, 1, seed=0, max_steps=100)


@pytest.mark.parametrize("weights", [{"p": 2.0, "q": 1.0}, {"p": 0.5, "q": 0.0}])
def test_nothing_is_drawn_from_zero_or_infinity(weights: dict[str, float]) -> None:
    with pytest.raises(GrammarError, match="F424"):
        sample(scalars("S -> p S; S -> q", **weights))


def test_what_counts_for_nothing_is_never_drawn() -> None:
    grammar = scalars("S -> z X; S -> o; X -> t X; X -> o", z=0.0, o=1.0, t=2.0)
    assert {d.rules for d in sample(grammar, 50, seed=0)} == {("r1",)}


def test_a_draw_may_be_long() -> None:
    grammar = scalars("S -> p S; S -> q", p=0.9999, q=0.0001)
    assert max(len(d.steps) for d in sample(grammar, 5, seed=3)) > 5000
