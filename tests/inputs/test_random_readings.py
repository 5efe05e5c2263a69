"""Random grammars that read a position twice have the values of their readings written out."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from tests.generators.missing import write_reading_grammar, written_out
from tests.oracles.comparing import random_item, random_weights


def agrees(seed: int) -> bool:
    """Assert that all engines give a random grammar the value of its readings written out."""
    rng = random.Random(seed)
    grammar = write_reading_grammar(rng.choice)
    weights = random_weights(grammar, rng)
    length = rng.choice([1, 1, 2])
    items = [random_item(grammar, {"n": length}, rng, missing=0.5) for _ in range(2)]
    wanted: list[float] = []
    slopes: dict[str, Any] = {}
    for item in items:
        inputs = {name: array.tolist() for name, array in item.inputs.items()}
        leaves = {n: torch.tensor(w, requires_grad=True) for n, w in weights.items()}
        flat = written_out(grammar, item.lengths, inputs)
        for semantics in (flat, fgg.rewrite.ground(grammar, lengths=item.lengths, inputs=inputs)):
            value = torch.logsumexp(
                fgg.reference.solve(semantics, "log", weights=leaves).value.reshape(-1), 0
            )
            wanted.append(float(value.detach()))
        assert wanted[-1] == pytest.approx(wanted[-2])
        wanted.pop()
        if np.isfinite(wanted[-1]):
            grads = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
            for name, grad in zip(leaves, grads, strict=True):
                slopes[name] = slopes.get(name, 0) + (0 if grad is None else grad)
    batch = {
        name: torch.stack([torch.as_tensor(item.inputs[name]) for item in items])
        for name in items[0].inputs
    }
    program = fgg.compile(grammar, fallback=False)
    leaves = {n: torch.tensor(weights[n], requires_grad=True) for n in program.parameter_names}
    log_z = program.log_z(leaves, batch, {"n": [length] * 2})
    assert log_z.tolist() == pytest.approx(wanted)
    alive = torch.isfinite(log_z)
    if bool(alive.any()):
        torch.autograd.backward(log_z[alive].sum())
        for name, leaf in leaves.items():
            slope = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            assert torch.allclose(slope, slopes[name] + torch.zeros_like(leaf)), name
    found = program.posterior(weights, batch, {"n": [length] * 2}).charts("log").z
    assert found.tolist() == pytest.approx(wanted)
    return bool(alive.any())


@pytest.mark.parametrize("number", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_random_readings_have_the_values_of_their_readings_written_out(number: int) -> None:
    assert sum(agrees(seed) for seed in range(number)) >= number // 2


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_random_readings_for_very_many(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        agrees(seed)
