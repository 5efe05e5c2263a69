"""Sums and softmax within groups of the last axis, such as the words of each block.

`groups`, `[entries]`, holds the group number of each entry of the last axis. Nothing larger than
the logits is allocated: the sum of a group is an `index_add` over its entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def group_tensor(
    groups: Sequence[int] | Tensor, device: torch.device | str | None = None
) -> Tensor:
    """Group numbers as a tensor of integers, `[entries]`, on a device."""
    return torch.as_tensor(groups, dtype=torch.long, device=device)


def group_sums(values: Tensor, groups: Tensor, count: int | None = None) -> Tensor:
    """The sum of each group, `[…, count]`, of values `[…, entries]`; 0 for empty groups."""
    size = int(groups.max()) + 1 if count is None else count
    return values.new_zeros((*values.shape[:-1], size)).index_add(-1, groups, values)


def log_softmax_in_groups(logits: Tensor, groups: Tensor, count: int | None = None) -> Tensor:
    """Log-weights `[…, entries]` of logits, normalised so that each group sums to one."""
    size = int(groups.max()) + 1 if count is None else count
    with torch.no_grad():
        top = logits.new_full((*logits.shape[:-1], size), -torch.inf)
        top.scatter_reduce_(-1, groups.expand_as(logits), logits.detach(), "amax")
        top = torch.where(torch.isfinite(top), top, 0.0)  # empty group, or weights all 0
    moved = logits - top.index_select(-1, groups)
    sums = group_sums(moved.exp(), groups, size)
    return moved - sums.log().index_select(-1, groups)


def softmax_in_groups(logits: Tensor, groups: Tensor, count: int | None = None) -> Tensor:
    """Weights `[…, entries]` of logits, normalised so that each group sums to one."""
    return log_softmax_in_groups(logits, groups, count).exp()
