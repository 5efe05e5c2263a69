"""Derivations and expectations from plans, against the reference engine and by enumeration."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from fgg.diagnostics import GrammarError
from fgg.rewrite.ground import ground
from fgg.runtime.derive import decode_ground as reference
from fgg.runtime.derive.decode import k_best, sample, viterbi
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.mbr import marginals, mbr
from fgg.runtime.interpret.interpret import interpret, outside
from fgg.runtime.posterior.expectation import entropy, expected_counts, kl
from fgg.runtime.posterior.moments import moments
from fgg.runtime.posterior.rule_marginals import rule_marginals
from fgg.runtime.program.chart_reader import DerivationCharts
from fgg.runtime.reference.posterior import gradients
from fgg.runtime.reference.solve import solve
from tests.helpers.plans import CASES, Case, case, needed

MANY = 100_000
TINY: list[tuple[str, str | None]] = [
    ("crf", "tags"),
    ("dmv", "string"),
    ("eisner", None),
    ("hmm", "string"),
    ("hsmm", "string"),
    ("lexpcfg", "string"),
    ("morphology", "word"),
    ("odd", None),
    ("pair_hmm", "pair"),
    ("pcfg_dense", "string"),
    ("semicrf", "segments"),
    ("tabled", None),
]
"""Cases whose derivations of short inputs can all be listed."""


def derivable(given: Case, sizes: tuple[int, ...]) -> list[int]:
    """The lengths for which there is a derivation."""
    inputs, lengths = given.batch(sizes)
    truth = interpret(given.plan, given.weights(), inputs, lengths, "boolean").z
    return [n for n, found in zip(sizes, truth.tolist(), strict=True) if found]


def called(given: Case, sizes: list[int], *, seed: int = 1) -> tuple[Any, Any, Any, Any]:
    """The arguments of every function: plan, weights, inputs, lengths."""
    inputs, lengths = given.batch(sizes)
    return given.plan, given.weights(seed=seed), inputs, lengths


def charts_of(given: Case, sizes: list[int], *, seed: int = 1) -> DerivationCharts:
    return DerivationCharts.of(*called(given, sizes, seed=seed))


@cache
def everything(name: str, query: str | None, seed: int = 1) -> list[list[Derivation]]:
    """All derivations of short inputs."""
    given = case(name, query)
    sizes = derivable(given, (2, 3))
    found = k_best(charts_of(given, sizes, seed=seed), number=MANY, source=given.source)
    assert all(0 < len(item) < MANY for item in found)
    return found


def chances(derivations: list[Derivation]) -> tuple[np.ndarray[Any, Any], float]:
    """The probability of each derivation, and log Z."""
    logs = np.array([d.log_weight for d in derivations])
    z = float(np.logaddexp.reduce(logs))
    return np.exp(logs - z), z


@pytest.mark.parametrize(("name", "query"), CASES)
def test_derivations_are_those_of_the_reference_engine(name: str, query: str | None) -> None:
    given = case(name, query)
    sizes = derivable(given, (1, 2, 3))
    if not sizes:
        return
    best = viterbi(charts_of(given, sizes), source=given.source)
    lists = k_best(charts_of(given, sizes), number=6, source=given.source)
    for n, found, several in zip(sizes, best, lists, strict=True):
        grammar = given.ground(n)
        weights = needed(given.weights(), grammar)
        wanted = reference.viterbi(grammar, weights=weights, seed=1)
        assert found.log_weight == pytest.approx(wanted.log_weight, abs=1e-9)
        assert found.key == wanted.key
        assert found.spans() == wanted.spans()
        assert found.brackets() == wanted.brackets()
        assert str(found) == str(wanted)
        assert found.as_json()["steps"] == wanted.as_json()["steps"]
        assert found.to_svg("rules") == wanted.to_svg("rules")
        ranked = reference.k_best(grammar, 6, weights=weights, seed=1)
        np.testing.assert_allclose(
            [d.log_weight for d in several], [d.log_weight for d in ranked], atol=1e-9
        )
        assert len({d.key for d in several}) == len(several)


@pytest.mark.parametrize(("name", "query"), TINY)
def test_all_derivations_make_up_the_sum(name: str, query: str | None) -> None:
    given = case(name, query)
    arguments = called(given, derivable(given, (2, 3)))
    z = interpret(*arguments).z
    numbers = interpret(*arguments, semiring="counting").z
    for found, own, number in zip(everything(name, query), z, numbers, strict=True):
        assert len(found) == number
        assert chances(found)[1] == pytest.approx(float(own), abs=1e-9)
        weights = [d.log_weight for d in found]
        assert weights == sorted(weights, reverse=True) or np.all(np.diff(weights) < 1e-9)


@pytest.mark.parametrize(("name", "query"), TINY)
def test_entropy_is_that_of_the_list_of_derivations(name: str, query: str | None) -> None:
    given = case(name, query)
    arguments = called(given, derivable(given, (2, 3)))
    for found, own in zip(everything(name, query), entropy(*arguments), strict=True):
        p, _ = chances(found)
        assert float(own) == pytest.approx(-float((p * np.log(p)).sum()), abs=1e-9)


@pytest.mark.parametrize(("name", "query"), TINY)
def test_divergence_is_that_of_the_lists_of_derivations(name: str, query: str | None) -> None:
    given = case(name, query)
    plan, weights, inputs, lengths = called(given, derivable(given, (2, 3)))
    other = given.weights(seed=2)
    found = kl(plan, weights, other, inputs, lengths)
    assert kl(plan, weights, weights, inputs, lengths).abs().max() < 1e-9
    lists = zip(everything(name, query), everything(name, query, 2), strict=True)
    for (own, against), value in zip(lists, found, strict=True):
        p, _ = chances(own)
        q, _ = chances(against)
        by_key = {d.key: x for d, x in zip(against, q, strict=True)}
        wanted = sum(x * (np.log(x) - np.log(by_key[d.key])) for d, x in zip(own, p, strict=True))
        assert float(value) == pytest.approx(wanted, abs=1e-9)


def test_divergence_from_what_cannot_be_is_infinite() -> None:
    given = case("hmm", "string")
    plan, weights, inputs, lengths = called(given, [3])
    inputs = {"w": torch.tensor([[0, 0, 0]])}
    other = {k: np.array(w) for k, w in weights.items()}
    other["emit"][0, 0] = 0.0
    assert kl(plan, weights, other, inputs, lengths).tolist() == [float("inf")]
    assert torch.isfinite(kl(plan, other, weights, inputs, lengths)).all()


def test_entropy_has_a_gradient() -> None:
    given = case("hmm", "string")
    names = list(given.plan.parameters)
    _, weights, inputs, lengths = called(given, [1, 3])

    def value(*tensors: torch.Tensor) -> torch.Tensor:
        return entropy(given.plan, dict(zip(names, tensors, strict=True)), inputs, lengths)

    leaves = [torch.tensor(weights[n], requires_grad=True) for n in names]
    assert torch.autograd.gradcheck(value, leaves)


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize(("name", "query"), TINY)
def test_mbr_finds_the_greatest_sum_of_marginals(
    name: str, query: str | None, states: bool
) -> None:
    given = case(name, query)
    charts = charts_of(given, derivable(given, (2, 3)))
    indexed = {n.name for n in given.grammar.nonterminals if n.indices}

    def cells(derivation: Derivation) -> list[object]:
        spans = [s for s in derivation.spans() if s[0] in indexed]
        return [s if states else s[:2] for s in spans]

    decoded = mbr(charts, states=states, source=given.source)
    for found, best in zip(everything(name, query), decoded, strict=True):
        p, _ = chances(found)
        uses: Counter[object] = Counter()
        for derivation, x in zip(found, p, strict=True):
            for cell in cells(derivation):
                uses[cell] += x
        scores = {d.key: sum(uses[c] for c in cells(d)) for d in found}
        assert best.score == pytest.approx(max(scores.values()), abs=1e-9)
        assert scores[best.derivation.key] == pytest.approx(best.score, abs=1e-9)
        weights = {d.key: d.log_weight for d in found}
        own = best.derivation
        assert own.log_weight == pytest.approx(weights[own.key], abs=1e-9)


def test_mbr_counts_the_families_that_are_named() -> None:
    given = case("dmv", "string")
    charts = charts_of(given, [3])
    name = next(n.name for n in given.grammar.nonterminals if n.indices)
    (some,) = mbr(charts, families=[name], source=given.source)
    (every,) = mbr(charts, source=given.source)
    assert some.score <= every.score
    with pytest.raises(GrammarError):
        mbr(charts, families=["nothing"], source=given.source)


@pytest.mark.parametrize(("name", "query"), TINY)
def test_marginals_are_those_of_the_list_of_derivations(name: str, query: str | None) -> None:
    given = case(name, query)
    arguments = called(given, derivable(given, (2, 3)))
    own = marginals(interpret(*arguments), given.source)
    for item, found in enumerate(everything(name, query)):
        uses = {family: np.zeros(array.shape[1:]) for family, array in own.items()}
        for derivation, x in zip(found, chances(found)[0], strict=True):
            for family, indices, values in derivation.spans():
                uses[family][(*indices, *values)] += x
        for family, array in own.items():
            np.testing.assert_allclose(array[item], uses[family], atol=1e-9)


@pytest.mark.parametrize(("name", "query"), TINY)
def test_marginals_of_rules_are_those_of_the_list_of_derivations(
    name: str, query: str | None
) -> None:
    given = case(name, query)
    arguments = called(given, derivable(given, (2, 3)))
    for rule in given.grammar.rules:
        own = rule_marginals(*arguments, rule=rule.name, source=given.source)
        for item, found in enumerate(everything(name, query)):
            uses: Counter[tuple[Any, ...]] = Counter()
            for derivation, x in zip(found, chances(found)[0], strict=True):
                for step in derivation.steps:
                    if step.rule.origin and step.rule.origin.rule == rule.name:
                        values = tuple(step.values[node] for node in own.nodes)
                        uses[step.rule.origin.values, values] += x
            for (point, values), x in uses.items():
                here = own.at(**dict(point))[item]
                assert float(here[values]) == pytest.approx(x, abs=1e-9)
            assert float(own.values[item].sum()) == pytest.approx(sum(uses.values()), abs=1e-8)


def test_expected_counts_are_those_of_each_item() -> None:
    given = case("pcfg_dense", "string")
    weights = given.weights()
    found = expected_counts(*called(given, [1, 2, 3]))
    assert not any(bool(counts[0].any()) for counts in found.values())  # one word: no derivation
    for item, n in ((1, 2), (2, 3)):
        grammar = given.ground(n)
        slopes = gradients(grammar, weights=needed(weights, grammar), seed=1)
        for name, counts in found.items():
            wanted = slopes[name] * torch.as_tensor(weights[name])
            torch.testing.assert_close(counts[item], wanted, rtol=1e-8, atol=1e-10)


def test_best_derivations_through_cells_are_max_marginals() -> None:
    given = case("pcfg_dense", "string")
    charts = interpret(*called(given, derivable(given, (2, 3))), semiring="max")
    above = outside(charts)
    for item, found in enumerate(everything("pcfg_dense", "string")):
        best: dict[tuple[int, ...], float] = {}
        for derivation in found:
            for family, indices, values in derivation.spans():
                if family == "X" and indices[1] - indices[0] > 1:
                    best.setdefault((*indices, *values), derivation.log_weight)
        for (i, j, a), value in best.items():
            through = charts.value("X_N", i, j) + above.value("X_N", i, j)
            assert through[item][a] == pytest.approx(value)


@pytest.mark.parametrize(("name", "query"), [("hmm", "string"), ("pcfg_dense", "string")])
def test_draws_have_the_frequencies_of_the_posterior(name: str, query: str) -> None:
    given = case(name, query)
    charts = charts_of(given, derivable(given, (2, 3)))
    number = 4000
    drawn = sample(charts, number=number, seed=7, source=given.source)
    again = sample(charts, number=20, seed=7, source=given.source)
    assert [d.key for d in again[0]] == [d.key for d in drawn[0][:20]]
    for found, own in zip(everything(name, query), drawn, strict=True):
        p, _ = chances(found)
        counts = Counter(d.key for d in own)
        seen = np.array([counts[d.key] for d in found])
        assert seen.sum() == number
        # Under the null each term has mean below 1; five deviations of the sum are far off.
        terms = (seen - number * p) ** 2 / (number * p)
        assert terms.sum() < len(p) + 5 * np.sqrt(2 * len(p) + (1 / (number * p)).sum())


def test_draws_take_a_generator() -> None:
    given = case("hmm", "string")
    generator = torch.Generator().manual_seed(3)
    first = sample(charts_of(given, [3]), number=5, seed=generator, source=given.source)
    second = sample(charts_of(given, [3]), number=5, seed=generator, source=given.source)
    third = sample(charts_of(given, [3]), number=10, seed=3, source=given.source)
    assert [d.key for d in first[0] + second[0]] == [d.key for d in third[0]]


def test_an_item_without_derivations_is_reported() -> None:
    given = case("pcfg_dense", "string")
    arguments = called(given, [2, 1])
    charts = DerivationCharts.of(*arguments)
    for ask in (
        lambda: viterbi(charts),
        lambda: k_best(charts, number=2),
        lambda: sample(charts),
        lambda: mbr(charts),
        lambda: entropy(*arguments),
    ):
        with pytest.raises(GrammarError) as failure:
            ask()
        assert failure.value.diagnostics[0].code == "F421"
        assert "item 1" in failure.value.diagnostics[0].message


def test_a_plan_without_a_source_is_its_own() -> None:
    given = case("hmm", "string")
    (own,) = viterbi(charts_of(given, [3]))
    (same,) = viterbi(charts_of(given, [3]), source=given.source)
    assert own.key == same.key


def test_missing_words_are_filled_in() -> None:
    given = case("hmm", "string")
    (best,) = viterbi(
        DerivationCharts.of(given.plan, given.weights(), {}, {"n": [3]}), source=given.source
    )
    grammar = ground(given.grammar, inputs={"w": [-1, -1, -1]})
    wanted = reference.viterbi(grammar, weights=needed(given.weights(), grammar), seed=1)
    assert best.key == wanted.key


def test_moments_are_the_weights_of_every_assignment() -> None:
    given = case("hmm", "string")
    weights = given.weights()
    size = len(weights["emit"][0])
    tokens = torch.tensor([[0, -1, -1, 1], [-1, -1, 2, -2]])
    lengths = {"n": [4, 3]}
    keep = {"w": [0, 2]}
    found = moments(given.plan, weights, {"w": tokens}, lengths, keep=keep)
    exact = given.weights(exactly=True)
    residues = moments(given.plan, exact, {"w": tokens}, lengths, keep=keep, semiring="gf")
    assert found.shape == residues.shape == (2, size, size)
    for item, a, b in product(range(2), range(size), range(size)):
        words = tokens[item, : lengths["n"][item]].tolist()
        words[0], words[2] = a, b
        grammar = ground(given.grammar, inputs={"w": words})
        value = solve(grammar, "real", weights=needed(weights, grammar), seed=1).value
        assert float(found[item, a, b]) == pytest.approx(float(value), rel=1e-9)
        value = solve(grammar, "gf", weights=needed(exact, grammar), seed=1).value
        assert residues[item, a, b] == value.item()


@pytest.mark.parametrize("keep", [{"v": [0]}, {"w": [9]}, {"w": [(0, 0)]}, {"w": ["a"]}, {"w": -1}])
def test_positions_that_are_not_there_cannot_be_kept(keep: Any) -> None:
    given = case("hmm", "string")
    with pytest.raises(GrammarError) as failure:
        moments(*called(given, [3]), keep=keep)
    assert failure.value.diagnostics[0].code == "F411"


@pytest.mark.parametrize(("rule", "nodes"), [("nothing", None), ("step", ["x"])])
def test_unknown_rules_and_nodes_are_reported(rule: str, nodes: Any) -> None:
    given = case("hmm", "string")
    with pytest.raises(GrammarError) as failure:
        rule_marginals(*called(given, [3]), rule=rule, nodes=nodes, source=given.source)
    assert failure.value.diagnostics[0].code == "F415"
