"""Tensors in emitted code: a label for each axis, and products of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Value:
    """A tensor in emitted code: a name (or an expression) and a label for each axis."""

    code: str
    dims: tuple[str, ...]


def aligned(value: Value, dims: Sequence[str]) -> str:
    """A value with its axes in the order of `dims`, length one where it has none."""
    code = value.code
    order = [d for d in dims if d in value.dims]
    assert len(order) == len(value.dims), (value, dims)
    if order != list(value.dims):
        code = f"{code}.permute({', '.join(str(value.dims.index(d)) for d in order)})"
    if len(order) == len(dims):
        return code
    missing = [d not in value.dims for d in dims]
    if not order:
        return f"{code}.reshape({', '.join('1' for _ in dims)})" if dims else code
    # Leading axes of length one need not be written: broadcasting adds them.
    first = missing.index(False)
    tail = missing[first:]
    if not any(tail):
        return code
    while tail and not tail[-1]:
        tail.pop()
    index = ", ".join("None" if m else ":" for m in tail)
    return f"{code}[{index}]"


def product_code(left: Value, right: Value, dims: Sequence[str]) -> str:
    """The product of two values, summed over the axes that are not in `dims`."""
    together = set(left.dims) | set(right.dims)
    summed = together - set(dims)
    assert set(dims) <= together, (left, right, dims)
    if not summed:
        return f"{aligned(left, dims)} * {aligned(right, dims)}"
    matrix = _matrix_code(left, right, dims) or _matrix_code(right, left, dims)
    if matrix is not None:
        return matrix
    if set(left.dims) == set(right.dims):
        return _sum_code(left, right, dims)
    outer = _outer_code(left, right, dims) or _outer_code(right, left, dims)
    if outer is not None:
        return outer
    letters = dict(zip(sorted(together), LETTERS, strict=False))
    spec = ",".join("".join(letters[d] for d in v.dims) for v in (left, right))
    return f'torch.einsum("{spec}->{"".join(letters[d] for d in dims)}", {left.code}, {right.code})'


def best_code(left: Value, right: Value, dims: Sequence[str]) -> str:
    """The product of two values, its greatest over the axes that are not in `dims`."""
    gone = tuple(d for d in dict.fromkeys((*left.dims, *right.dims)) if d not in dims)
    every = (*dims, *gone)
    if not gone:
        return product_code(left, right, dims)
    return f"best({aligned(left, every)}, {aligned(right, every)}, {len(dims)}, {len(every)})"


def _matrix_code(left: Value, right: Value, dims: Sequence[str]) -> str | None:
    """A product of rows with a matrix, if that is what it is."""
    if len(right.dims) != 2 or len(left.dims) < 1 or len(dims) < 1:
        return None
    inner, outer = left.dims[-1], dims[-1]
    if inner in dims or outer in left.dims or set(right.dims) != {inner, outer}:
        return None
    if tuple(dims[:-1]) != left.dims[:-1]:
        return None
    turned = right.code if right.dims == (inner, outer) else transposed(right.code)
    # Many rows are one product with the matrix, not one for each cell.
    return f"times({left.code}, {turned})" if len(left.dims) > 2 else f"{left.code} @ {turned}"


def _outer_code(left: Value, right: Value, dims: Sequence[str]) -> str | None:
    """The sum over all cells of the products of rows with rows, if that is what it is."""
    if len(dims) != 2 or left.dims[:-1] != right.dims[:-1] or len(left.dims) < 3:
        return None
    if (left.dims[-1], right.dims[-1]) != tuple(dims):
        return None
    return f"flat({left.code}).mT @ flat({right.code})"


def _sum_code(left: Value, right: Value, dims: Sequence[str]) -> str:
    """A sum of products entry by entry: there is no matrix in it."""
    gone = tuple(number for number, d in enumerate(left.dims) if d not in dims)
    found = f"dot({left.code}, {aligned(right, left.dims)}, {gone})"
    kept = tuple(d for d in left.dims if d in dims)
    return aligned(Value(found, kept), dims)


def transposed(code: str) -> str:
    """A matrix turned; a parameter `p_` is turned once, as `q_`."""
    return f"q_{code[2:]}" if code.isidentifier() and code.startswith("p_") else f"{code}.mT"
