"""Weights read from JSON: numbers, nested lists, and structured tensors written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

from fgg.grammar.values import Constant, Eye, Nested, Sparse, Table, Uniform, Value
from fgg.json.axes import Axis, Physical, read_axis
from fgg.json.places import Fail, kind_of, whole_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DENSE = 2**24
MAX_SPARSE = 2**22
MAX_REPORTS = 5
MAX_WEIGHT = 1e300  # beyond, a weight is looked at more closely


def read_weights(
    data: object, shape: tuple[int, ...], given: int | None, path: str, fail: Fail
) -> Value | None:
    """The value of a factor of the given shape; None, and a report, if it cannot be used.

    Nested lists become a table; a structured tensor becomes whatever says the same most briefly.
    `given` is the number of domains left of the arrow, if there is one.
    """
    if isinstance(data, dict):
        tensor = _read_tensor(data, path, fail)
        if tensor is None or not _fits(tensor.shape, shape, path, fail):
            return None
        return _brief(tensor, shape, given, path, fail)
    flat = read_nested(data, path, fail)
    if flat is None or not _fits(flat[0], shape, path, fail):
        return None
    return Table(_reshape(flat[1], shape)) if shape else Constant(flat[1][0])


def read_weight(data: object, path: str, fail: Fail) -> float | None:
    """A finite weight that is not negative; None, and a report, if it is not one."""
    if isinstance(data, bool) or not isinstance(data, int | float):
        fail(path, f"a number was expected, not {kind_of(data)}")
        return None
    try:
        number = float(data)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        fail(path, "the weight is not a finite number")
        return None
    if number < 0:
        fail(path, f"weight {number:g} is negative")
        return None
    return number + 0.0  # without the sign of -0.0


def constant_value(number: float, shape: Sequence[int], given: int | None) -> Value:
    """The same weight everywhere, `uniform` if that is what it is."""
    if given is not None and number == 1 / prod(shape[given:]):
        return Uniform()
    return Constant(number)


def read_nested(data: object, path: str, fail: Fail) -> tuple[tuple[int, ...], list[float]] | None:
    """The shape of nested lists and their numbers row by row."""
    shape: list[int] = []
    level: list[Any] = [data]
    # Level by level, so that no nesting is too deep.
    while level and isinstance(level[0], list):
        length = len(level[0])
        for number, item in enumerate(level):
            if not isinstance(item, list):
                fail(_place(path, number, shape), f"a list was expected, not {kind_of(item)}")
                return None
            if len(item) != length:
                fail(
                    _place(path, number, shape),
                    f"{len(item)} entries, but the first list beside it has {length}",
                )
                return None
        shape.append(length)
        level = [entry for item in level for entry in item]
    numbers = [item for item in level if type(item) in (int, float) and 0 <= item < MAX_WEIGHT]
    if len(numbers) == len(level):
        return tuple(shape), [number + 0.0 for number in numbers]
    found: list[float] = []
    wrong = 0
    for number, item in enumerate(level):
        weight = read_weight(item, _place(path, number, shape), fail)
        if weight is not None:
            found.append(weight)
        elif (wrong := wrong + 1) == MAX_REPORTS:
            break
    return None if wrong else (tuple(shape), found)


def _place(path: str, number: int, shape: Sequence[int]) -> str:
    """The path of an entry, given its number row by row."""
    indices: list[int] = []
    for size in reversed(shape):
        number, index = divmod(number, size)
        indices.append(index)
    return path + "".join(f"[{index}]" for index in reversed(indices))


def _fits(found: Sequence[int], wanted: Sequence[int], path: str, fail: Fail) -> bool:
    if tuple(found) == tuple(wanted):
        return True
    fail(path, f"weights of shape {list(found)}, but the terminal's type has {list(wanted)}")
    return False


@dataclass
class _Tensor:
    """A structured tensor: physical entries row by row, repeated, and where they lie."""

    sizes: tuple[int, ...]
    entries: list[float]
    axes: tuple[Axis, ...]
    default: float

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def placed(self) -> int:
        """The number of entries that are not left to the default."""
        used = {index for axis in self.axes for index in axis.used()}
        return 0 if 0 in self.sizes else prod(self.sizes[index] for index in used)


def _read_tensor(data: dict[str, object], path: str, fail: Fail) -> _Tensor | None:
    if "physical" not in data:
        fail(path, "there is no `physical`")
        return None
    physical = read_nested(data["physical"], f"{path}.physical", fail)
    default = read_weight(data.get("default", 0), f"{path}.default", fail)
    expand = data.get("expand", [])
    if not isinstance(expand, list) or not all(whole_number(size) for size in expand):
        fail(f"{path}.expand", "a list of sizes was expected")
        return None
    if physical is None or default is None:
        return None
    sizes = (*expand, *physical[0])
    if "vaxes" not in data:
        axes: list[Axis | None] = [Physical(i, size) for i, size in enumerate(sizes)]
    elif isinstance(listed := data["vaxes"], list):
        axes = [read_axis(a, sizes, f"{path}.vaxes[{i}]", fail) for i, a in enumerate(listed)]
    else:
        fail(f"{path}.vaxes", f"a list was expected, not {kind_of(listed)}")
        return None
    found = tuple(axis for axis in axes if axis is not None)
    if len(found) < len(axes):
        return None
    used = {index for axis in found for index in axis.used()}
    for index, size in enumerate(sizes):
        if index not in used and size > 1:
            fail(f"{path}.vaxes", f"physical axis {index} of size {size} is used nowhere")
            return None
    return _Tensor(sizes, physical[1], found, default)


def _brief(
    tensor: _Tensor, shape: tuple[int, ...], given: int | None, path: str, fail: Fail
) -> Value | None:
    placed, total = tensor.placed, prod(shape)
    if not placed:
        return constant_value(tensor.default, shape, given)
    first = tensor.entries[0]
    if all(entry == first for entry in tensor.entries):
        if placed == total or first == tensor.default:
            return constant_value(first, shape, given)
        if first == 1 and not tensor.default and _is_diagonal(tensor):
            return Eye()
    return _written_out(tensor, shape, lambda text: fail(path, text))


def _is_diagonal(tensor: _Tensor) -> bool:
    match tensor.axes:
        case (Physical(one), Physical(two)):
            return one == two
    return False


def _written_out(
    tensor: _Tensor, shape: tuple[int, ...], fail: Callable[[str], None]
) -> Value | None:
    """The tensor as a table, or as a list of its entries if that is shorter."""
    import numpy as np

    entries = np.asarray(tensor.entries)
    total = prod(shape)
    kept = np.arange(len(entries)) if tensor.default else np.flatnonzero(entries)
    count = prod(tensor.sizes) // len(entries) * len(kept)
    dense = bool(tensor.default) or total <= 64 or count * (len(shape) + 1) >= total
    if (total > MAX_DENSE if dense else count > MAX_SPARSE) or count > MAX_DENSE:
        fail(f"{total if dense else count:,} weights to write out are too many")
        return None
    # A physical entry has the number e * len(entries) + k: the repetition and the entry itself.
    repeats = np.arange(count // max(len(kept), 1)) * len(entries)
    numbers = (repeats[:, None] + kept[None, :]).reshape(-1)
    weights = np.tile(entries[kept], len(repeats))
    columns = [axis.positions(lambda i: _digit(numbers, tensor.sizes, i)) for axis in tensor.axes]
    columns = [np.broadcast_to(column, numbers.shape) for column in columns]
    if not dense:
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return Sparse(tuple(sorted(zip(rows, weights.tolist(), strict=True))))
    flat = np.full(total, tensor.default)
    places = np.zeros(numbers.shape, dtype=np.int64)
    for size, column in zip(shape, columns, strict=True):
        places = places * size + column
    flat[places] = weights
    return Table(_reshape(flat.tolist(), shape)) if shape else Constant(float(flat[0]))


def _digit(numbers: NDArray[np.int64], sizes: Sequence[int], axis: int) -> NDArray[np.int64]:
    """Where physical entries lie on a physical axis."""
    return numbers // prod(sizes[axis + 1 :]) % sizes[axis]


def _reshape(flat: list[float], shape: Sequence[int]) -> Nested:
    level: list[Nested] = list(flat)
    for size in reversed(shape[1:]):
        level = [tuple(level[i : i + size]) for i in range(0, len(level), size)]
    return tuple(level)
