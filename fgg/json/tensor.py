"""Weights read from JSON: numbers, nested lists, and structured tensors written out.

A structured tensor has a small `physical` tensor. `expand` prepends axes along which it is
repeated, and each of the `vaxes` makes an axis of the tensor from the physical ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isfinite, prod
from typing import TYPE_CHECKING, TypeVar

from fgg.grammar.values import Constant, Eye, Nested, Sparse, Table, Uniform, Value
from fgg.json.document import Located, Malformed, attempt, is_number, read_each, whole_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

MAX_DENSE = 2**24
MAX_SPARSE = 2**22
MAX_REPORTS = 5
MAX_WEIGHT = 1e300  # weights above are looked at more closely
MAX_DEPTH = 100


def read_weights(data: Located, shape: tuple[int, ...], given: int | None) -> Value:
    """The value of a factor of the given shape.

    Nested lists become a table; a structured tensor becomes whatever says the same most briefly.
    `given` is the number of domains left of the arrow, if there is one.
    """
    if isinstance(data.value, dict):
        tensor = _read_tensor(data)
        _check_shape(data, tuple(axis.size for axis in tensor.axes), shape)
        return _shortest_value(tensor, shape, given, data)
    lists_shape, weights = _read_nested(data)
    _check_shape(data, lists_shape, shape)
    return _table(weights, shape)


def read_weight(data: Located) -> float:
    """A finite weight that is not negative."""
    if not is_number(data.value):
        data.expected("a number")
    try:
        number = float(data.value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        data.fail("the weight is not a finite number")
    if number < 0:
        data.fail(f"weight {number:g} is negative")
    return number + 0.0  # without the sign of -0.0


def constant_value(number: float, shape: Sequence[int], given: int | None) -> Value:
    """The same weight everywhere, written `uniform` if it is the uniform distribution."""
    if given is not None and number == 1 / prod(shape[given:]):
        return Uniform()
    return Constant(number)


def nest(flat: Sequence[T], shape: Sequence[int], group: Callable[[list[T]], T]) -> T:
    """Entries listed row by row, grouped into a nested sequence of the given shape."""
    level = list(flat)
    for size in reversed(shape[1:]):
        level = [group(level[i : i + size]) for i in range(0, len(level), size)]
    return group(level) if shape else level[0]


def _table(flat: Sequence[float], shape: Sequence[int]) -> Value:
    if not shape:
        return Constant(flat[0])
    entries: list[Nested] = list(flat)
    return Table(nest(entries, shape, tuple))


def _check_shape(data: Located, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        data.fail(f"weights of shape {list(shape)}, but the terminal's type has {list(wanted)}")


def _read_nested(data: Located) -> tuple[tuple[int, ...], list[float]]:
    """The shape of nested lists and their numbers row by row."""
    shape: list[int] = []
    level: list[object] = [data.value]
    # Level by level, so that no nesting is too deep.
    while level and isinstance(level[0], list):
        length = len(level[0])
        below: list[object] = []
        for number, item in enumerate(level):
            if not isinstance(item, list):
                _entry(data, number, shape, item).expected("a list")
            if len(item) != length:
                message = f"{len(item)} entries, but the first list beside it has {length}"
                _entry(data, number, shape, item).fail(message)
            below += item
        shape.append(length)
        level = below
    weights: list[float] = []
    wrong = 0
    for number, item in enumerate(level):
        if is_number(item) and 0 <= item < MAX_WEIGHT:
            weights.append(item + 0.0)
            continue
        try:
            weights.append(read_weight(_entry(data, number, shape, item)))
        except Malformed:
            if (wrong := wrong + 1) == MAX_REPORTS:
                break
    if wrong:
        raise Malformed
    return tuple(shape), weights


def _entry(data: Located, number: int, shape: Sequence[int], value: object) -> Located:
    """An entry of nested lists, given its number row by row."""
    indices: list[int] = []
    for size in reversed(shape):
        number, index = divmod(number, size)
        indices.append(index)
    path = data.path + "".join(f"[{index}]" for index in reversed(indices))
    return replace(data, path=path, value=value)


@dataclass(frozen=True)
class Axis:
    """An axis of a structured tensor.

    The entry with index i_p on each physical axis p lies at `start` + Σ_p `strides[p]`·i_p.
    """

    size: int
    start: int
    strides: Mapping[int, int]

    def then(self, faster: Axis) -> Axis:
        """The product of two axes, the second one varying faster."""
        strides = {p: stride * faster.size for p, stride in self.strides.items()}
        for p, stride in faster.strides.items():
            strides[p] = strides.get(p, 0) + stride
        return Axis(self.size * faster.size, self.start * faster.size + faster.start, strides)


def _read_axis(data: Located, sizes: Sequence[int], depth: int = 0) -> Axis:
    """The axis that JSON describes, over physical axes of the given sizes."""
    value = data.value
    if depth > MAX_DEPTH:
        data.fail("the axis is nested too deep")
    if isinstance(value, list):
        parts = read_each(data.items(), lambda item: _read_axis(item, sizes, depth + 1))
        if len(parts) < len(value):
            raise Malformed
        return reduce(Axis.then, parts, Axis(1, 0, {}))
    if isinstance(value, dict):
        for key in ("before", "term", "after"):
            if key not in value:
                data.fail(f"there is no `{key}`")
        for key in ("before", "after"):
            if not whole_number(value[key]):
                data.child(key).fail("a whole number from 0 up was expected")
        term = _read_axis(data.child("term"), sizes, depth + 1)
        size = value["before"] + term.size + value["after"]
        return Axis(size, value["before"] + term.start, term.strides)
    if not isinstance(value, int) or isinstance(value, bool):
        data.expected("an axis")
    if not 0 <= value < len(sizes):
        data.fail(f"there is no physical axis {value}: there are {len(sizes)}")
    return Axis(sizes[value], 0, {value: 1})


@dataclass(frozen=True)
class StructuredTensor:
    """Entries placed in a tensor that has the weight `default` everywhere else.

    `entries` lists the physical tensor row by row, without the axes along which it is repeated;
    `sizes` are those of all physical axes, repeated ones first.
    """

    sizes: tuple[int, ...]
    entries: list[float]
    axes: tuple[Axis, ...]
    default: float

    @property
    def is_diagonal(self) -> bool:
        """Whether the entries lie on the diagonal of a matrix."""
        match self.axes:
            case (Axis(start=0) as row, column) if row == column:
                return list(row.strides.values()) == [1]
        return False


def _read_tensor(data: Located) -> StructuredTensor:
    if "physical" not in data.entries:
        data.fail("there is no `physical`")
    physical = attempt(_read_nested, data.child("physical"))
    default = attempt(read_weight, data.child("default", 0))
    expand = data.child("expand", [])
    if not isinstance(expand.value, list) or not all(map(whole_number, expand.value)):
        expand.fail("a list of sizes was expected")
    if physical is None or default is None:
        raise Malformed
    sizes = (*expand.value, *physical[0])
    vaxes = data.child("vaxes", list(range(len(sizes))))
    axes = read_each(vaxes.items(), lambda item: _read_axis(item, sizes))
    if len(axes) < len(vaxes.items()):
        raise Malformed
    for p, size in enumerate(sizes):
        if size > 1 and not any(p in axis.strides for axis in axes):
            vaxes.fail(f"physical axis {p} of size {size} is used nowhere")
    return StructuredTensor(sizes, physical[1], tuple(axes), default)


def _shortest_value(
    tensor: StructuredTensor, shape: tuple[int, ...], given: int | None, data: Located
) -> Value:
    if 0 in tensor.sizes:
        return constant_value(tensor.default, shape, given)
    first = tensor.entries[0]
    if all(entry == first for entry in tensor.entries):
        if prod(tensor.sizes) == prod(shape) or first == tensor.default:
            return constant_value(first, shape, given)
        if first == 1 and not tensor.default and tensor.is_diagonal:
            return Eye()
    return _written_out(tensor, shape, data)


def _written_out(tensor: StructuredTensor, shape: tuple[int, ...], data: Located) -> Value:
    """The tensor as a table, or as a list of its entries if that is shorter."""
    import numpy as np

    entries = np.asarray(tensor.entries)
    total = prod(shape)
    kept = np.arange(len(entries)) if tensor.default else np.flatnonzero(entries)
    count = prod(tensor.sizes) // len(entries) * len(kept)
    dense = bool(tensor.default) or total <= 64 or count * (len(shape) + 1) >= total
    if (total > MAX_DENSE if dense else count > MAX_SPARSE) or count > MAX_DENSE:
        data.fail(f"{total if dense else count:,} weights to write out are too many")
    # A physical entry has the number e * len(entries) + k: the repetition and the entry itself.
    repeats = np.arange(count // max(len(kept), 1)) * len(entries)
    numbers = (repeats[:, None] + kept[None, :]).reshape(-1)
    weights = np.tile(entries[kept], len(repeats))
    positions = [_positions(axis, numbers, tensor.sizes) for axis in tensor.axes]
    if not dense:
        rows = zip(*(column.tolist() for column in positions), strict=True)
        return Sparse(tuple(sorted(zip(rows, weights.tolist(), strict=True))))
    flat = np.full(total, tensor.default)
    places = np.zeros(numbers.shape, dtype=np.int64)
    for size, column in zip(shape, positions, strict=True):
        places = places * size + column
    flat[places] = weights
    return _table(flat.tolist(), shape)


def _positions(axis: Axis, numbers: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Where the physical entries with the given numbers lie on an axis."""
    import numpy as np

    positions = np.full(numbers.shape, axis.start, dtype=np.int64)
    for p, stride in axis.strides.items():
        positions += stride * (numbers // prod(sizes[p + 1 :]) % sizes[p])
    return positions
