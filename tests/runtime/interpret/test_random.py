"""The interpreter gives the numbers of programs on grammars that nobody thought of."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fgg.api.compile import compile
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.runtime.interpret.interpret import interpret, outside
from fgg.runtime.program.prepared_batch import start
from tests.generators.indexed import write_grammar
from tests.helpers.kernels import spaces_of
from tests.oracles.comparing import collated, lengths_of, random_item, random_weights


def gradients(total: torch.Tensor, weights: Mapping[str, torch.Tensor]) -> Sequence[Any]:
    """The derivative by each weight; None where there is none."""
    if not total.requires_grad:
        return [None] * len(weights)
    return torch.autograd.grad(total, list(weights.values()), allow_unused=True)


def agrees(grammar: Grammar, seed: int) -> str:
    """Assert that both have the same Z, derivatives and possible cells; what became of it."""
    spaces = spaces_of(grammar)
    try:
        program = compile(grammar, space=spaces[seed % len(spaces)], fallback=False)
    except GrammarError as error:
        assert [d.code for d in error.diagnostics] == ["F425"]
        return "refused"
    rng = random.Random(seed)
    weights = random_weights(cpd(grammar), rng, zero=0.1)
    lengths = [{n: rng.randint(0, 4) for n in lengths_of(grammar)} for _ in range(3)]
    missing = rng.choice([0.0, 0.15])
    items = [random_item(grammar, own, rng, missing=missing) for own in lengths]
    inputs, own_lengths = collated(items, torch.float64)
    leaves = program.weights(dict(weights), dtype=torch.float64)
    run = start(program.compiled, leaves, inputs, own_lengths or None)
    plan = run.program.plan
    wholes = {n: w.detach().double().requires_grad_() for n, w in run.weights.items()}
    plain = {name: x.detach() for name, x in inputs.items()}
    log_z = run.program.log_z(wholes, plain, own_lengths or None)
    charts = interpret(plan, wholes, plain, own_lengths or None)
    np.testing.assert_allclose(charts.z.detach(), log_z.detach(), rtol=1e-9, atol=1e-9)
    possible = interpret(plan, wholes, plain, own_lengths or None, "boolean")
    assert possible.z.tolist() == torch.isfinite(log_z).tolist()
    reached = outside(possible).arrays
    marginals = outside(interpret(plan, wholes, plain, own_lengths or None, "counting")).arrays
    for name, cells in reached.items():
        assert np.array_equal(cells, marginals[name] > 0), name
    live = torch.isfinite(log_z)
    if not live.any() or not wholes:
        return "zero"
    wanted, slopes = (gradients(z[live].sum(), wholes) for z in (log_z, charts.z))
    for whole, want, slope in zip(wholes.values(), wanted, slopes, strict=True):
        # Expected counts: the gradient of a logarithm has none where a weight is 0.
        counts = [torch.zeros_like(whole) if x is None else x * whole for x in (want, slope)]
        torch.testing.assert_close(counts[1], counts[0], rtol=1e-7, atol=1e-9)
    return "finite"


@pytest.mark.parametrize(
    "seeds",
    [
        range(40),
        *(pytest.param(range(n, n + 490), marks=pytest.mark.slow) for n in range(40, 2000, 490)),
    ],
)
def test_random_grammars(seeds: range) -> None:
    done: Counter[str] = Counter()
    for seed in seeds:
        made = write_grammar(random.Random(seed).choice)
        assert made is not None
        try:
            done[agrees(made[0], seed)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{made[1]}") from error
    assert done["finite"] >= len(seeds) // 5, done
