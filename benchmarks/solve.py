"""The reference engine: ground grammars beside the fggs library and an evaluation rule by rule.

With `states` the point is an HMM, with `symbols` a PCFG in Chomsky normal form, each for a string
of n words; without n it is that PCFG without a string, whose value is a least fixed point. The
ground grammar is made beforehand for everyone: log Z and its gradients are timed, in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import checkouts
from benchmarks.measure import OURS, Call, Goal, Point, Suite, Values, gradients_of
from benchmarks.rule_by_rule import Evaluation
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size

WORDS = 50


def data(point: Point) -> tuple[Grammar, dict[str, Tensor]]:
    """A ground grammar, and random weights that require gradients."""
    chance = torch.Generator().manual_seed(0)
    name = "hmm" if "states" in point else "cnf"
    model = fgg.load(name, sizes={"k": point.get("states", point.get("symbols", 0)), "d": WORDS})
    weights = {}
    for factor in model.factors:
        shape = [domain_size(model, d) for d in factor.domains]
        values = torch.rand(shape, generator=chance, dtype=torch.float64)
        weights[factor.name] = values / values.sum(
            tuple(range(factor.given or 0, len(shape))), True
        )
    if "n" in point:
        words = torch.randint(WORDS, (point["n"],), generator=chance).tolist()
        grammar = fgg.rewrite.ground(model, query="string", inputs={"w": words})
    else:
        # So that the sum over all trees is finite: x = x² / 4 + 1 / 2, but for the root.
        grammar = fgg.rewrite.ground(model)
        weights |= {"binary": weights["binary"] / 4, "emit": weights["emit"] / 2}
    return grammar, {name: w.requires_grad_() for name, w in weights.items()}


def ours(point: Point) -> Call:
    """The engine."""
    grammar, weights = data(point)

    def call() -> Values:
        return gradients_of(fgg.reference.solve(grammar, "log", weights=weights).value, weights)

    return call


def by_hand(point: Point) -> Call:
    """One contraction for each ground rule, by autograd."""
    grammar, weights = data(point)
    evaluation = Evaluation(grammar)
    return lambda: gradients_of(evaluation(weights).log(), weights)


def fggs(point: Point) -> Call:
    """The fggs library, with real numbers."""
    return checkouts.fggs_call(*data(point))


SUITE = Suite(
    name="solve",
    title="The reference engine: log Z of ground grammars and gradients, float64",
    makers={OURS: ours, "by hand, rule by rule": by_hand, "fggs": fggs},
    points=[
        {"n": 10, "states": 256},
        {"n": 20, "states": 256},
        {"n": 10, "symbols": 10},
        {"n": 20, "symbols": 10},
        {"symbols": 10},
    ],
    goals=[Goal(peer="fggs", least=10, at={"n": (20,)})],
)
