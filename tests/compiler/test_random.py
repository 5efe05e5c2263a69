"""Compiled programs agree with the reference engine on grammars that nobody thought of."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fgg.api.compile import compile
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from tests.generators.indexed import schedulable_grammars, write_grammar
from tests.oracles.agreeing import agrees
from tests.oracles.comparing import (
    collated,
    lengths_of,
    random_item,
    random_weights,
)
from tests.oracles.fractions_of_z import ExactAnswer

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(max_examples=50, suppress_health_check=CHECKS)
@given(schedulable_grammars(), st.integers(0, 99))
def test_compiled_is_reference(grammar: Grammar, seed: int) -> None:
    agrees(grammar, seed)


@pytest.mark.parametrize("number", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_compiled_is_reference_without_checks_in_between_and_hardly_anything_is_refused(
    number: int,
) -> None:
    found: Counter[str] = Counter()
    for seed in range(number):
        made = write_grammar(random.Random(seed).choice)
        assert made is not None
        found[agrees(made[0], seed, checked=seed % 2 == 0)] += 1
    assert found["refused"] <= number // 40
    assert found["finite"] >= number // 5


def exact_with_large_potentials(grammar: Grammar, seed: int) -> str:
    """Assert that log Z and its gradient are exact where log-potentials are up to +-1000."""
    rng = random.Random(seed)
    weights = random_weights(grammar, rng, zero=0.1)
    lengths = {name: rng.randint(1, 3) for name in lengths_of(grammar)}
    item = random_item(grammar, lengths, rng, missing=0.05)
    for factor in grammar.input_factors:
        array = item.inputs[factor.name]
        for index in np.ndindex(*array.shape):
            array[index] += rng.choice([-1000.0, 1000.0, 0.0])
    moving = {**weights, **{f.name: item.inputs[f.name] for f in grammar.input_factors}}
    directions = {
        name: np.array([rng.randint(-3, 3) for _ in range(array.size)]).reshape(array.shape)
        for name, array in moving.items()
    }
    exact = ExactAnswer(grammar, item, weights, directions)
    try:
        program = compile(grammar, fallback=False)
        wanted = exact.log_z
    except GrammarError as error:
        assert {d.code for d in error.diagnostics} <= {"F425", "F411"}
        return "refused"
    leaves = program.weights(dict(weights), dtype=torch.float64)
    inputs, numbers = collated([item], torch.float64)
    everything = {**leaves, **inputs}
    tensors = {n: everything[n].requires_grad_() for n in directions if n in everything}
    log_z = program.log_z(leaves, inputs, numbers or None)
    assert log_z.tolist() == pytest.approx([wanted], rel=1e-9)
    if not exact.z:
        return "zero"
    change = 0.0
    if log_z.requires_grad:
        gradients = torch.autograd.grad(log_z.sum(), list(tensors.values()), allow_unused=True)
        for (name, tensor), gradient in zip(tensors.items(), gradients, strict=True):
            if gradient is not None:
                amount = torch.tensor(directions[name]) * (1 if name in inputs else tensor.detach())
                change += float((gradient * amount).sum())
    assert change == pytest.approx(exact.derivative, rel=1e-7, abs=1e-7)
    return "finite"


def test_log_potentials_of_a_thousand_are_exact() -> None:
    done: Counter[str] = Counter()
    for seed in range(60):
        made = write_grammar(random.Random(seed).choice)
        assert made is not None
        if made[0].input_factors and cpd(made[0]) is made[0]:
            done[exact_with_large_potentials(made[0], seed)] += 1
    assert done["finite"] >= 8, done


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_compiled_is_reference_for_very_many(block: int) -> None:
    for seed in range(1000 + 500 * block, 1500 + 500 * block):
        made = write_grammar(random.Random(seed).choice)
        if made is None:
            continue
        try:
            agrees(made[0], seed)
            if made[0].input_factors and cpd(made[0]) is made[0]:
                exact_with_large_potentials(made[0], seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{made[1]}") from error
