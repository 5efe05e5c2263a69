"""What a program for best derivations has besides: maxima in place of sums.

Weights are positive, so that the greatest product is that of the greatest logarithms; cells have
scales as in sums, and nothing under- or overflows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fgg.runtime.prelude.charts import Batch, Term, shares_of

BLOCK = 2**17


def best(left: Tensor, right: Tensor, keep: int, rank: int) -> Tensor:
    """The greatest products over all axes but the first ones; missing axes come first.

    Large products are made in blocks: the memory is that of the result.
    """
    left = left[(None,) * (rank - left.dim())]
    right = right[(None,) * (rank - right.dim())]
    shape = [max(a, b) for a, b in zip(left.shape, right.shape, strict=True)]
    count = 1
    for extent in shape:
        count *= extent
    if count <= BLOCK or 0 in shape:
        return (left * right).flatten(keep).amax(-1)
    widest = max(range(keep), key=lambda i: shape[i], default=keep)
    inner = widest >= keep or shape[widest] == 1
    axis = max(range(keep, rank), key=lambda i: shape[i]) if inner else widest
    pieces = max(2, min(shape[axis], count // BLOCK))
    size = -(-shape[axis] // pieces)
    parts = [
        best(block(left, axis, start, size), block(right, axis, start, size), keep, rank)
        for start in range(0, shape[axis], size)
    ]
    return torch.stack(parts).amax(0) if inner else torch.cat(parts, axis)


def block(values: Tensor, axis: int, start: int, size: int) -> Tensor:
    """A part of an axis, or all of one that has length one."""
    extent = values.shape[axis]
    return values if extent == 1 else values.narrow(axis, start, min(size, extent - start))


def einsum(spec: str, *operands: Tensor) -> Tensor:
    """A product of several tensors, its greatest over the letters that are not kept."""
    inputs, out = spec.split("->")
    terms = inputs.split(",")
    letters = [*out, *sorted({x for term in terms for x in term if x not in out})]
    found = None
    for term, values in zip(terms, operands, strict=True):
        # Each letter once, in order: where one occurs twice, the diagonal.
        aligned = torch.einsum(f"{term}->{''.join(x for x in letters if x in term)}", values)
        aligned = aligned[tuple(slice(None) if x in term else None for x in letters)]
        found = aligned if found is None else found * aligned
    assert found is not None
    return found.flatten(len(out)).amax(-1) if len(letters) > len(out) else found


def marked(new: Tensor, scale: Tensor | None, marks: Tensor) -> Term:
    """Values with their cells' marks."""
    return new * marks, scale


def total(batch: Batch, terms: list[Term], rank: int) -> Term:
    """The greatest of several values with scales."""
    if len(terms) == 1:
        return terms[0]
    shares, top = shares_of(batch, terms, rank)
    new = terms[0][0] * shares[0]
    for (values, _), share in zip(terms[1:], shares[1:], strict=True):
        new = torch.maximum(new, values * share)
    return new, top


def log_total(terms: list[Tensor]) -> Tensor:
    """The greatest of several logarithms."""
    found = terms[0]
    for e in terms[1:]:
        found = torch.maximum(found, e)
    return found


def extended(source: Tensor, axis: int) -> Tensor:
    """A factor with two more entries on an axis: for impossible (-2) and missing (-1) tokens."""
    top = source.amax(axis, keepdim=True)
    return torch.cat([source, torch.zeros_like(top), top], axis)
