"""Evidence: parameters at the tokens of an input, log-potentials, and parts of domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.runtime.prelude.cells import NEGATIVE, hide, spread
from fgg.runtime.prelude.indices import Condition, loops
from fgg.runtime.prelude.scaled import TINY, tops

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch


def tokens_of(tokens: Tensor, size: int, missing: bool) -> Tensor:
    """Tokens as rows of an extended table, or held inside it where none is missing."""
    return tokens.remainder(size + 2) if missing else tokens.clamp(min=0)


def extended(source: Tensor, axis: int) -> Tensor:
    """A factor with two more entries on an axis: for impossible (-2) and missing (-1) tokens."""
    total = source.sum(axis, keepdim=True)
    return torch.cat([source, torch.zeros_like(total), total], axis)


def gather(
    source: Tensor,
    tokens: list[tuple[int, Tensor]],
    missing: bool,
    groups: tuple[int, ...] = (),
    extend: Callable[[Tensor, int], Tensor] = extended,
) -> Tensor:
    """The entries of a factor at tokens, `[*indices of all groups, batch, *other axes]`.

    Each token tensor is `[*indices, batch]`; -1 sums over an axis, -2 gives zero. Tokens of one
    group have their indices in common; without groups, each has its own.
    """
    groups = groups or tuple(range(len(tokens)))
    ranks = {group: found.dim() - 1 for group, (_, found) in zip(groups, tokens, strict=True)}
    own: dict[int, Tensor] = {}
    impossible = None
    for group, (axis, found) in zip(groups, tokens, strict=True):
        before = sum(rank for other, rank in ranks.items() if other < group)
        after = sum(rank for other, rank in ranks.items() if other > group)
        shape = (1,) * before + tuple(found.shape[:-1]) + (1,) * after + (found.shape[-1],)
        zero = (found == -2).reshape(shape)
        impossible = zero if impossible is None else impossible | zero
        own[axis] = tokens_of(found, source.shape[axis], missing).reshape(shape)
    if missing:
        for axis in own:
            source = extend(source, axis)
    last = max(own)
    if last == source.dim() - 1:
        # Rows would be single numbers: what is gathered comes first, in a copy.
        source = source.movedim(list(own), list(range(len(own))))
        own = dict(enumerate(own.values()))
        last = len(own) - 1
    # A row is what lies behind the last gathered axis; axes before it are read value by value.
    between = [axis for axis in range(last) if axis not in own]
    rows: Tensor | None = None
    for axis in range(last + 1):
        size = source.shape[axis]
        if axis in own:
            here = own[axis].reshape(own[axis].shape + (1,) * len(between))
        else:
            inner = [size if other == axis else 1 for other in between]
            here = torch.arange(size, device=source.device).reshape(inner)
        rows = here if rows is None else rows * size + here
    assert rows is not None and impossible is not None
    states = source.shape[last + 1 :]
    flat = source.reshape(-1, max(states.numel(), 1))
    found = torch.nn.functional.embedding(rows, flat).reshape(rows.shape + states)
    return found if missing else found.masked_fill_(spread(impossible, found), 0.0)


def shifted(tokens: Tensor, shifts: tuple[int, ...]) -> Tensor:
    """Tokens some positions further, impossible where there are none."""
    for axis, shift in enumerate(shifts):
        if shift:
            size = tokens.shape[axis]
            place = torch.arange(size, device=tokens.device) + shift
            shape = [-1 if other == axis else 1 for other in range(tokens.dim())]
            beyond = ((place < 0) | (place >= size)).reshape(shape)
            moved = tokens.index_select(axis, place.clamp(min=0).clamp(max=size - 1))
            tokens = moved.masked_fill(beyond, -2)
    return tokens


def mapped(tokens: Tensor, values: Sequence[int]) -> Tensor:
    """The blocks of tokens; what is missing or impossible stays so."""
    blocks = torch.tensor(values, device=tokens.device)
    return torch.where(tokens < 0, tokens, blocks[tokens.clamp(min=0)])


def known(name: str, tokens: Tensor | None) -> None:
    """Refuse missing tokens where rules read them twice or through a map."""
    if tokens is None or bool((tokens == -1).any()):
        raise ValueError(
            f"tokens of {name!r} are missing, and this program takes them as known; "
            "compile it with `--missing` to sum them out"
        )


def indicator(
    values: Sequence[int], blocks: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A map as a factor: 1 for the block of each value."""
    found = torch.tensor(values, device=device).unsqueeze(-1)
    return (found == torch.arange(blocks, device=device)).to(dtype)


def part_of(tokens: Tensor, offset: int, size: int, stride: int, period: int) -> Tensor:
    """Tokens of a part of a union or a component of a product; impossible in another part."""
    inner = tokens // stride % period - offset
    inner = torch.where((inner >= 0) & (inner < size), inner, -2)
    return torch.where(tokens < 0, tokens, inner)


def one_hot(tokens: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Evidence as weights: one for a token, all for a missing one, none for an impossible one."""
    values = torch.arange(size, device=tokens.device)
    known = tokens.unsqueeze(-1) == values
    return (known | (tokens == -1).unsqueeze(-1)).to(dtype)


Conditions = Callable[..., tuple[Condition | bool, ...]]
"""The conditions on the indices of an input factor."""


def potentials(
    batch: Batch,
    logs: Tensor,
    rank: int,
    where: Conditions | None = None,
    mixed: Conditions | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-potentials `[batch, *indices, *states]` as values and scales, indices first.

    They are zero where a condition on the indices does not hold; `mixed` ones always hold unless
    lengths differ.
    """
    logs = logs.movedim(0, rank)
    for conditions in (where, mixed if batch.mixed else None):
        if conditions is not None:
            indices = loops(*(range(extent) for extent in logs.shape[:rank]))
            fails = batch.fails(rank, *conditions(*indices))
            logs = hide(logs, fails, NEGATIVE, logs.dim() - rank - 1)
    # A copy of its own: views of it are taken from the beginning of its storage.
    scale = (
        tops(logs, rank + 1).detach().to(torch.float64).clone(memory_format=torch.contiguous_format)
    )
    safe = scale.masked_fill(scale == NEGATIVE, 0.0).to(logs.dtype)
    values = (logs - spread(safe, logs)).exp().to(batch.dtype)
    if logs.dim() > rank + 1:
        lost = (values.detach() < TINY[batch.dtype]) & (logs.detach() > NEGATIVE)
        batch.lost.append(lost.movedim(rank, -1).flatten(0, -2).any(0))
    return values, scale
