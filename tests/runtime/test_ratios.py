"""Gradients where a term that is zero stands beside tiny ones."""

from __future__ import annotations

from math import exp

import pytest
import torch

import fgg

WORDS = """
size k = 1
size d = 3
domain T = k
domain W = d
factor first(-> T)
factor next(T -> T)
factor word(T -> W)
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> first(t) X(t)
rule step:  X(t) -> word(t, m) next(t, u) X(u)
rule last:  X(t) -> word(t, m)
query text(s: W[n, n+1]) {
  rule begin: S    -> X[0]
  rule step:  X[i] -> m = s[i,j] X[j]   for 0 <= i < j < n
  rule last:  X[i] -> m = s[i,n]        for 0 <= i < n
}
"""


def test_impossible_parts_beside_unlikely_ones_leave_gradients_finite() -> None:
    """What all letters together would be worth as one part, e^723, is no number."""
    length = 100
    program = fgg.compile(fgg.loads(WORDS))
    parts = [[-2] * (length + 1) for _ in range(length)]
    for i in range(length):
        parts[i][i + 1] = int(i == length - 1)
    weights = {
        "first": torch.ones(1, dtype=torch.float64),
        "next": torch.ones(1, 1, dtype=torch.float64),
        "word": torch.tensor([[exp(-7), exp(-30), 0.9]], dtype=torch.float64),
    }
    own = {name: w.clone().requires_grad_() for name, w in weights.items()}
    log_z = program.log_z(own, {"s": [parts]})
    assert float(log_z.detach()) == pytest.approx(-723.0)
    torch.autograd.backward(log_z.sum())
    uses = {
        name: float((w.grad * w.detach()).sum()) for name, w in own.items() if w.grad is not None
    }
    assert uses == pytest.approx({"word": length, "next": length - 1, "first": 1})
