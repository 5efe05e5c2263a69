"""Programs in float32 at their limits: long, peaked, impossible."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import fgg
from fgg.runtime.program.program import Program


def hmm(k: int = 4, d: int = 5) -> Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": k, "d": d}))


def crf(k: int = 3) -> Program:
    return fgg.compile(fgg.load("crf", sizes={"k": k}))


def leaves(weights: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {n: w.detach().to(dtype).requires_grad_() for n, w in weights.items()}


def forward(weights: dict[str, Tensor], w: list[int]) -> float:
    """log Z of an HMM, by the forward algorithm in logarithms and float64."""
    init, trans, emit = (weights[n].detach().double().log() for n in ("init", "trans", "emit"))
    alpha = init + emit[:, w[0]]
    for token in w[1:]:
        alpha = torch.logsumexp(alpha[:, None] + trans, 0) + emit[:, token]
    return float(torch.logsumexp(alpha, 0))


def test_a_long_chain_keeps_its_precision_in_float32() -> None:
    program = hmm()
    tokens = torch.randint(5, (2, 2000), generator=torch.Generator().manual_seed(0))
    lengths = [2000, 1500]
    weights = leaves(program.weights(seed=3), torch.float32)
    log_z = program.log_z(weights, {"w": tokens}, lengths)
    wanted = [forward(weights, tokens[i, :n].tolist()) for i, n in enumerate(lengths)]
    np.testing.assert_allclose(log_z.detach().numpy(), wanted, rtol=1e-5)
    torch.autograd.backward(log_z.sum())
    wide = leaves(weights, torch.float64)
    torch.autograd.backward(program.log_z(wide, {"w": tokens}, lengths).sum())
    for name, leaf in weights.items():
        want = wide[name].grad
        assert leaf.grad is not None and want is not None
        np.testing.assert_allclose(leaf.grad.numpy(), want.numpy(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_may_be_tiny_at_every_step(dtype: torch.dtype) -> None:
    program = hmm(k=2, d=2)
    small = math.exp(-60)
    weights = leaves(
        {
            "init": torch.tensor([1.0, small]),
            "trans": torch.tensor([[1.0, small], [small, 1.0]]),
            "emit": torch.tensor([[small, 1.0], [1.0, small]]),
        },
        dtype,
    )
    tokens = [0, 1] * 25
    log_z = program.log_z(weights, {"w": [tokens]})
    np.testing.assert_allclose(float(log_z.detach()), forward(weights, tokens), rtol=1e-5)
    torch.autograd.backward(log_z.sum())
    for leaf in weights.values():
        assert leaf.grad is not None and torch.isfinite(leaf.grad).all()
    # Every step uses one transition: expected counts sum to their number.
    trans = weights["trans"]
    assert trans.grad is not None
    assert float((trans.grad * trans.detach()).sum()) == pytest.approx(49, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_impossible_items_have_no_gradient_and_spoil_no_others(dtype: torch.dtype) -> None:
    program = hmm(k=2, d=3)
    base = program.weights(seed=1)
    base["emit"] = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])
    good, bad = [0, 1, 1, 0], [0, 2, 1, 1]
    both = leaves(base, dtype)
    log_z = program.log_z(both, {"w": [good, bad, [0, -2, 1, 1]]})
    assert torch.isfinite(log_z[0]) and bool((log_z[1:] == -torch.inf).all())
    torch.autograd.backward(log_z.sum())
    alone = leaves(base, dtype)
    torch.autograd.backward(program.log_z(alone, {"w": [good]}).sum())
    for name, leaf in both.items():
        torch.testing.assert_close(leaf.grad, alone[name].grad)
    none = leaves(base, dtype)
    torch.autograd.backward(program.log_z(none, {"w": [bad]}).sum())
    assert all(leaf.grad is None or not leaf.grad.any() for leaf in none.values())
    marginals = program.posterior(alone, {"w": [good, bad]}).marginals
    assert all(not m[1].any() and torch.isfinite(m).all() for m in marginals.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_potentials_are_only_a_shift(dtype: torch.dtype, size: float) -> None:
    program = crf()
    weights = {n: w.to(dtype) for n, w in program.weights(seed=2).items()}
    score = torch.randn(1, 6, 3, dtype=dtype, generator=torch.Generator().manual_seed(1))
    moved = (score + size).requires_grad_()
    exact = (moved.detach().double() - size).to(dtype).requires_grad_()  # as rounded
    one = program.log_z(weights, {"score": moved}, [6])
    two = program.log_z(weights, {"score": exact}, [6])
    np.testing.assert_allclose(float(one.detach()), float(two.detach()) + 6 * size, rtol=1e-5)
    torch.autograd.backward(one.sum())
    torch.autograd.backward(two.sum())
    torch.testing.assert_close(moved.grad, exact.grad, rtol=1e-3, atol=1e-4)
    # Gradients are the probabilities of tags: each position has one.
    assert moved.grad is not None
    torch.testing.assert_close(moved.grad.sum(-1), torch.ones(1, 6, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_potentials_may_rule_out_tags(dtype: torch.dtype) -> None:
    program = crf()
    weights = {n: w.to(dtype) for n, w in program.weights(seed=2).items()}
    score = torch.randn(2, 5, 3, dtype=dtype, generator=torch.Generator().manual_seed(1))
    score[0, 1, 0] = score[0, 3, 2] = -torch.inf
    score[1, 2] = -torch.inf
    score.requires_grad_()
    log_z = program.log_z(weights, {"score": score}, [5, 5])
    assert torch.isfinite(log_z[0]) and log_z[1] == -torch.inf
    torch.autograd.backward(log_z.sum())
    assert score.grad is not None and torch.isfinite(score.grad).all()
    assert score.grad[0, 1, 0] == score.grad[0, 3, 2] == 0
    assert not score.grad[1].any()
    torch.testing.assert_close(score.grad[0].sum(-1), torch.ones(5, dtype=dtype))
