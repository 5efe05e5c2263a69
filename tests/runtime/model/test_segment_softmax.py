"""Sums and distributions within groups."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fgg
from fgg.runtime.model.segment_softmax import (
    group_sums,
    group_tensor,
    log_softmax_in_groups,
    softmax_in_groups,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(0, 100))
def test_each_group_is_a_softmax_of_its_own(groups: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 20 * torch.randn(3, len(groups), generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    normalised = softmax_in_groups(logits, group_tensor(groups), 5)
    wanted = torch.zeros_like(logits)
    for group in set(groups):
        members = [i for i, g in enumerate(groups) if g == group]
        wanted = wanted.index_copy(1, torch.tensor(members), logits[:, members].softmax(-1))
    assert torch.allclose(normalised, wanted)
    sums = group_sums(normalised, group_tensor(groups), 5)
    present = torch.tensor([g in groups for g in range(5)], dtype=sums.dtype)
    assert torch.allclose(sums, present.expand_as(sums))
    weights = torch.randn(normalised.shape, generator=generator, dtype=normalised.dtype)
    (one,) = torch.autograd.grad((normalised * weights).sum(), logits, retain_graph=True)
    (two,) = torch.autograd.grad((wanted * weights).sum(), logits)
    assert torch.allclose(one, two)


def test_weights_of_zero_stay_zero() -> None:
    logits = torch.tensor([0.0, -torch.inf, 1.0])
    logs = log_softmax_in_groups(logits, group_tensor([0, 0, 1]))
    assert logs.tolist() == [0.0, -torch.inf, 0.0]


def test_a_model_is_normalised_within_blocks() -> None:
    program = fgg.compile(fgg.load("hmm_blocks", sizes={"m": 3, "k": 2, "d": 8}))
    model = program.model(seed=1)
    groups = group_tensor([i % 3 for i in range(8)])
    assert torch.allclose(group_sums(model.weights()["emit"], groups), torch.ones(2, 3))
    model(w=torch.tensor([[0, 5, 7]])).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
