"""Derivatives where weights or values are zero, in tensors of other types, and out of range."""

from __future__ import annotations

import pytest
import torch

from fgg.compiler import loads
from fgg.runtime.derive.decode_ground import k_best
from fgg.runtime.reference.posterior import gradients
from fgg.runtime.reference.solve import solve

RESTING = """
factor a() = 0.3 factor b() = 0 factor c() = 1
nonterminal S() nonterminal X()
start S
rule s: S -> X
rule t: S -> c
rule l: X -> b
rule r: X -> a X
"""
BRANCHING = "factor a() factor b() = 0.5 nonterminal S() start S rule r: S -> a S S rule l: S -> b"
UNION = """
domain N = 2 domain P = 1 domain C = N + P
factor f(N -> C) factor g(P) = 0.5
nonterminal S() nonterminal X(C)
start S
rule s: S -> X(a)
rule n: X(a) -> f(a.N, b) X(b)
rule p: X(a) -> g(a.P)
"""


def test_a_recursion_at_rest_has_a_derivative() -> None:
    found = gradients(loads(RESTING), of="z")
    assert float(found["b"]) == pytest.approx(1 / 0.7)
    assert float(found["c"]) == pytest.approx(1.0)


def test_a_value_of_zero_has_a_derivative() -> None:
    grammar = loads(RESTING.replace("start S", "start X"))
    assert float(gradients(grammar, of="z")["b"]) == pytest.approx(1 / 0.7)


def test_a_recursion_at_rest_that_would_blow_up_is_left_out() -> None:
    grammar = loads(RESTING.replace("factor a() = 0.3", "factor a() = 3"))
    assert float(gradients(grammar, of="z")["c"]) == pytest.approx(1.0)


@pytest.mark.parametrize("semiring", ["real", "log"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_of_any_type_keep_their_gradients(semiring: str, dtype: torch.dtype) -> None:
    weight = torch.tensor(0.3, dtype=dtype, requires_grad=True)
    value = solve(loads(BRANCHING), semiring, weights={"a": weight}).value
    (grad,) = torch.autograd.grad(value, weight)
    root = (1 - 4 * 0.3 * 0.5) ** 0.5
    z = (1 - root) / 0.6
    expected = z**2 / root / (z if semiring == "log" else 1.0)
    assert float(grad) == pytest.approx(expected, rel=1e-6)


def test_parts_of_unions_keep_their_gradients_in_recursions() -> None:
    weight = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.4, 0.5]], dtype=torch.float64)
    weight.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: solve(loads(UNION), "real", weights={"f": w}).value, (weight,)
    )


@pytest.mark.parametrize(("weight", "word"), [("1e200", "large"), ("1e-200", "small")])
def test_real_numbers_say_when_they_are_out_of_range(weight: str, word: str) -> None:
    text = f"factor f() = {weight} nonterminal S() start S rule s: S -> f f"
    (warning,) = solve(loads(text), "real").warnings
    assert warning.code == "F433" and word in warning.message


def test_a_true_zero_is_no_warning() -> None:
    text = "factor f() = 0 nonterminal S() start S rule s: S -> f"
    assert solve(loads(text), "real").warnings == []


@pytest.mark.parametrize("number", [0, -1])
def test_no_derivations_are_asked_for(number: int) -> None:
    assert k_best(loads(BRANCHING), number, weights={"a": 0.3}) == []
