"""Splitting: derivations and gradients map back to the source."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgg.compiler import loads
from fgg.compiler.passes.split import split
from fgg.grammar import Grammar, Origin
from fgg.grammar.domains import select
from fgg.grammar.provenance import origins_of, traced
from fgg.rewrite.ground import ground
from fgg.runtime.derive.decode_ground import viterbi
from fgg.runtime.program.bind import bind
from fgg.runtime.reference.solve import solve
from tests.helpers.splitting import NESTED, asked, observation


def mapped_back(grammar: Grammar, seed: int) -> None:
    """Check that the best derivation of the split grammar is one of the grammar, as good."""
    result = split(traced(grammar))
    origins = origins_of(result)
    weights = bind(grammar, seed=seed)
    best, expected = viterbi(result, weights=weights), viterbi(grammar, weights=weights)
    assert best.log_weight == pytest.approx(expected.log_weight, rel=1e-12)
    sources = {rule.name: rule for rule in grammar.rules}
    total = 0.0
    whole = []
    for step in best.steps:
        origin = origins[step.rule.name]
        source = sources[origin.rule]
        assert step.rule.origin == (source.origin or Origin(rule=source.name))
        values = origin.values(grammar, step.values)
        assert {*values} == {node.name for node in source.rhs.nodes}
        touched = []
        for edge in source.rhs.edges:
            place = [
                select(grammar, source.rhs.by_name[a.node].domain, a.path, values[a.node])
                for a in edge.attachments
            ]
            if edge.label in grammar.nonterminal:
                touched.append(place)
            else:
                total += float(np.log(weights[edge.label][tuple(place)]))
        whole.append(([values[x] for x in source.rhs.externals], touched))
    assert total == pytest.approx(best.log_weight, rel=1e-12)
    for number, step in enumerate(best.steps):
        for place, child in zip(whole[number][1], step.children, strict=True):
            assert whole[child][0] == place


@pytest.mark.parametrize(
    ("name", "query"),
    [("pcfg_la", "tree"), ("pcfg_la", "string"), ("pair_hmm", "pair"), ("lexpcfg", "string")],
)
def test_derivations_map_back(name: str, query: str) -> None:
    grammar = asked(name, query)
    for n in (2, 3):
        mapped_back(ground(grammar, inputs=observation(grammar, name, n)), n)


def test_nested_derivations_map_back() -> None:
    for seed in range(3):
        mapped_back(loads(NESTED), seed)


def test_gradients_reach_the_source_of_a_slice() -> None:
    grammar = loads(NESTED)
    result = split(grammar)
    weights = {name: torch.tensor(array) for name, array in bind(grammar, seed=0).items()}
    found = []
    for item in (grammar, result):
        leaf = weights["f"].clone().requires_grad_()
        value = solve(item, "log", weights={**weights, "f": leaf}).value
        found.append(torch.autograd.grad(value, leaf)[0])
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)
