"""Products of tensors as Python: which torch operation multiplies and sums two values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Value:
    """A tensor in emitted code: an expression, and a name for each axis.

    `fresh`: it is a result that nothing else reads, so that it may be overwritten.
    """

    code: str
    dims: tuple[str, ...]
    fresh: bool = False


@dataclass(frozen=True)
class Product:
    """A product of two values, and the operation that computes it.

    `kind` is "multiply" (entry by entry), "matmul" (rows times a matrix), "outer" (a matrix
    product that sums over cells), "dot" (entry by entry, then summed) or "einsum".
    """

    kind: str
    left: str
    right: str
    code: str


def aligned(value: Value, dims: Sequence[str]) -> str:
    """A value with its axes in the order of `dims`, of length one where it has none."""
    code = value.code
    order = [d for d in dims if d in value.dims]
    assert len(order) == len(value.dims), (value, dims)
    if order != list(value.dims):
        code = f"{atomic(code)}.permute({', '.join(str(value.dims.index(d)) for d in order)})"
    if len(order) == len(dims):
        return code
    missing = [d not in value.dims for d in dims]
    if not order:
        return code  # one number: it goes with any shape
    # Leading axes of length one need not be written: broadcasting adds them.
    tail = missing[missing.index(False) :]
    count = tail.count(True)
    if not count:
        return code
    if all(tail[-count:]):
        return f"{atomic(code)}[..., {', '.join(['None'] * count)}]"
    while not tail[-1]:
        tail.pop()
    index = ", ".join("None" if m else ":" for m in tail)
    return f"{atomic(code)}[{index}]"


def atomic(code: str) -> str:
    """Code that an index or a method can be put behind."""
    depth = 0
    for character in code:
        depth += character in "([{"
        depth -= character in ")]}"
        if character == " " and not depth:
            return f"({code})"
    return code


def product(left: Value, right: Value, dims: Sequence[str]) -> Product:
    """The product of two values, summed over the axes that are not in `dims`."""
    together = {*left.dims, *right.dims}
    assert set(dims) <= together, (left, right, dims)
    if not together - set(dims):
        one, two = atomic(aligned(left, dims)), atomic(aligned(right, dims))
        return Product("multiply", one, two, f"{one} * {two}")
    found = _matmul(left, right, dims) or _matmul(right, left, dims)
    if found is None and set(left.dims) == set(right.dims):
        found = _dot(left, right, dims)
    found = found or _outer(left, right, dims) or _outer(right, left, dims)
    return found or _einsum((left, right), dims)


def _einsum(values: Sequence[Value], dims: Sequence[str]) -> Product:
    names = dict.fromkeys(d for value in values for d in value.dims)
    letters = dict(zip(names, LETTERS, strict=False))
    spec = ",".join("".join(letters[d] for d in value.dims) for value in values)
    out = "".join(letters[d] for d in dims)
    codes = ", ".join(value.code for value in values)
    return Product("einsum", "", "", f'torch.einsum("{spec}->{out}", {codes})')


def einsum(values: Sequence[Value], dims: Sequence[str]) -> str:
    """The product of several values, summed over the axes that are not in `dims`."""
    return _einsum(values, dims).code


def best_product(left: Value, right: Value, dims: Sequence[str]) -> Product:
    """The product of two values, its greatest over the axes that are not in `dims`."""
    gone = tuple(d for d in dict.fromkeys((*left.dims, *right.dims)) if d not in dims)
    if not gone:
        return product(left, right, dims)
    every = (*dims, *gone)
    one, two = aligned(left, every), aligned(right, every)
    return Product("best", one, two, f"best({one}, {two}, {len(dims)}, {len(every)})")


def _matmul(left: Value, right: Value, dims: Sequence[str]) -> Product | None:
    """A product of rows with a matrix, if that is what it is."""
    if len(right.dims) != 2 or len(left.dims) < 1 or len(dims) < 1:
        return None
    inner, outer = left.dims[-1], dims[-1]
    if inner in dims or outer in left.dims or set(right.dims) != {inner, outer}:
        return None
    if tuple(dims[:-1]) != left.dims[:-1]:
        return None
    turned = right.code if right.dims == (inner, outer) else f"{atomic(right.code)}.mT"
    if len(left.dims) > 2:
        # Many rows are one product with the matrix, not one for each cell.
        return Product("matmul", left.code, turned, f"times({left.code}, {turned})")
    # `@` and `*` bind alike: a factor that is itself a product needs its brackets.
    one, two = atomic(left.code), atomic(turned)
    return Product("matmul", one, two, f"{one} @ {two}")


def _outer(left: Value, right: Value, dims: Sequence[str]) -> Product | None:
    """The sum over all cells of the products of rows with rows, if that is what it is."""
    if len(dims) != 2 or left.dims[:-1] != right.dims[:-1] or len(left.dims) < 2:
        return None
    if (left.dims[-1], right.dims[-1]) != tuple(dims):
        return None
    one, two = f"{_flat(left)}.mT", _flat(right)
    return Product("outer", one, two, f"{one} @ {two}")


def _flat(value: Value) -> str:
    """The vectors of all cells as the rows of a matrix."""
    return atomic(value.code) if len(value.dims) == 2 else f"flat({value.code})"


def _dot(left: Value, right: Value, dims: Sequence[str]) -> Product:
    """A sum of products entry by entry: there is no matrix in it."""
    if right.fresh and not left.fresh:
        left, right = right, left
    axes = tuple(number for number, d in enumerate(left.dims) if d not in dims)
    name = "dot_" if left.fresh else "dot"
    other = aligned(right, left.dims)
    code = f"{name}({left.code}, {other}, {axes_code(axes)})"
    kept = tuple(d for d in left.dims if d in dims)
    return Product("dot", left.code, other, aligned(Value(code, kept), dims))


def axes_code(axes: Sequence[int]) -> str:
    """Axes to sum over."""
    return str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
