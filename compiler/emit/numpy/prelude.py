"""What emitted NumPy programs are built on: arrays with named axes, cells with scales, evidence.

A cell of a chart is a vector of values, of which the greatest is 1, and one logarithmic scale. A
cell of zeros has the scale -inf. A chart without states is its scales alone. The axis `b` is that
of the items of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Given = Mapping[str, Any]
Cuts = Sequence[Sequence[Any]]

TINY = np.finfo(float).tiny
FLOOR = -1e300
"""Below every scale but that of zero, and finite: it can be subtracted."""
LARGEST = 706.0
"""The greatest logarithm of what one term is worth beside its cell."""
NORMAL = -1020.0
"""The least power of two that products may have: all numbers above are normal."""
FALL = -1000.0
"""How many powers of two a cell may be below what it is computed from."""


class Named(np.lib.mixins.NDArrayOperatorsMixin):
    """An array with a name for each axis; it is constant along every axis that it lacks."""

    def __init__(self, array: Any, axes: Sequence[str] = ()) -> None:
        self.array: Array = np.asarray(array)
        self.axes = tuple(axes)

    def over(self, axes: Sequence[str]) -> Array:
        """The array with these axes in order, of extent 1 along those that it lacks."""
        order = [self.axes.index(axis) for axis in axes if axis in self.axes]
        missing = [number for number, axis in enumerate(axes) if axis not in self.axes]
        return np.expand_dims(self.array.transpose(order), missing)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any) -> Named:
        return joined(function, *inputs)


def joined(function: Callable[..., Array], *inputs: Any) -> Named:
    """A function of arrays, entry by entry."""
    items = [item if isinstance(item, Named) else Named(item) for item in inputs]
    axes = tuple(dict.fromkeys(axis for item in items for axis in item.axes))
    return Named(function(*(item.over(axes) for item in items)), axes)


def span(axis: str, low: int, high: int) -> Named:
    """A loop variable: the numbers from `low` to `high` along an axis of their own."""
    return Named(np.arange(low, high + 1), (axis,))


def product(axes: str, *factors: Named) -> Named:
    """The product of arrays, summed over the axes that are not named.

    Where one array has an axis twice, it is the diagonal.
    """
    letters: dict[str, int] = {}
    operands: list[Any] = []
    for factor in factors:
        numbers = [letters.setdefault(axis, len(letters)) for axis in factor.axes]
        operands += [factor.array, numbers]
    kept = axes.split()
    array = np.einsum(*operands, [letters[axis] for axis in kept], optimize=True)
    return Named(array, kept)


def greatest(axes: str, scale: Named) -> Named:
    """The greatest scale over the axes that are not named."""
    kept = axes.split()
    gone = tuple(i for i, axis in enumerate(scale.axes) if axis not in kept)
    return Named(scale.array.max(gone), [axis for axis in scale.axes if axis in kept])


def log_sum(axes: str, scale: Named) -> Named:
    """The logarithm of a sum of exponentials over the axes that are not named."""
    top = joined(np.maximum, greatest(axes, scale), FLOOR)
    total = product(" ".join(top.axes), joined(np.exp, scale - top))
    return joined(np.add, joined(np.log, total), top)


def relative(scale: Named | None, head: Named) -> Named:
    """What the scale of a term is worth beside that of its cell; a cell of zeros passes nothing.

    It is great only where the term's own factors are nearly zero: a number it must be.
    """
    above = where(head, np.inf, head > -np.inf)
    gap = joined(np.subtract, 0.0 if scale is None else scale, above)
    return joined(np.exp, joined(np.minimum, gap, LARGEST))


def where(value: Any, other: float, *masks: Any) -> Named:
    """Values, and another one where a mask does not hold."""
    for mask in masks:
        value = joined(lambda x, holds: np.where(holds, x, other), value, mask)
    return value if isinstance(value, Named) else Named(value)


def diagonal(array: Array, axes: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """A view of an array with each axis once, and these axes."""
    once = list(dict.fromkeys(axes))
    if len(once) < len(axes):
        array = np.einsum(array, [once.index(axis) for axis in axes], [*range(len(once))])
    return array, tuple(once)


class Cells:
    """Stored numbers `[*indices, b, *states]`, their scales, and slopes: derivatives of log Z.

    `items` is the axis of the items: None for a parameter, which has no indices either. Indices
    count from `first`. `back` passes the slopes on to what the numbers were prepared from.
    """

    def __init__(
        self,
        values: Array | None,
        items: int | None = None,
        scales: Array | None = None,
        first: Sequence[int] = (),
    ) -> None:
        self.values = np.empty(0) if values is None else values
        self.scales = np.empty(0) if scales is None else scales
        self.slopes = np.zeros((self.scales if values is None else values).shape)
        self.items, self.first = items, first or (0,) * (items or 0)
        self.back: Callable[[], None] = lambda: None

    def __getitem__(self, index: Any) -> Place:
        return Place(self, index if isinstance(index, tuple) else (index,))

    def collect(self, axes: Sequence[str], slope: Named) -> None:
        """Add to the slopes, repeated along axes that are lacking."""
        place, once = diagonal(self.slopes, axes)
        place += slope.over(once)


class Place:
    """Cells at an index, of which each part is a number or has named axes."""

    def __init__(self, cells: Cells, index: tuple[Any, ...]) -> None:
        self.cells = cells
        parts = [part if isinstance(part, Named) else Named(part) for part in index]
        loops = dict.fromkeys(axis for part in parts for axis in part.axes if axis != "b")
        self.axes = () if cells.items is None else (*loops, "b")
        extents = cells.slopes.shape[: len(parts)]
        self.empty = 0 in extents
        self.inside: Array = np.ones((1,) * len(self.axes), bool)
        self.index: tuple[Array, ...] = ()
        for part, extent, first in zip(parts, extents, cells.first, strict=True):
            place = part.over(self.axes) - first
            inside = (place >= 0) & (place < extent)  # what a table does not have is not a number
            self.inside = self.inside & inside
            self.index += (np.where(inside, place, 0).astype(int),)
        if cells.items is not None:
            self.index += (np.arange(cells.slopes.shape[cells.items]),)

    def read(self, array: Array, states: str, zero: float) -> Named:
        """The entries of an array, `zero` outside."""
        axes = (*self.axes, *states.split())
        rest = array.shape[len(self.index) :]
        if self.empty:
            shape = np.broadcast_shapes(*(x.shape for x in self.index))
            found = np.full((*shape, *rest), zero)
        else:
            inside = self.inside.reshape(self.inside.shape + (1,) * len(rest))
            found = np.where(inside, array[self.index], zero)
        return Named(*diagonal(found, axes))

    def __call__(self, states: str) -> Named:
        """The values."""
        return self.read(self.cells.values, states, 0.0)

    @property
    def scale(self) -> Named:
        """The scales."""
        return self.read(self.cells.scales, "", -np.inf)

    def slope(self, states: str) -> Named:
        """The slopes."""
        return self.read(self.cells.slopes, states, 0.0)

    def filled(self, states: str, value: Named) -> Array:
        """A value at all cells and states; zero off the diagonal of states that are the same."""
        rest = self.cells.slopes.shape[len(self.index) :]
        whole = np.zeros((*np.broadcast_shapes(*(x.shape for x in self.index)), *rest))
        place, axes = diagonal(whole, (*self.axes, *states.split()))
        place[...] = value.over(axes)
        return whole

    def put(self, states: str, batch: Batch, value: Named | None, scale: Named | None) -> None:
        """Write a value times the exponential of a scale, which takes up the greatest value."""
        whole = self.filled(states, value or Named(1.0))
        tops = whole.max(tuple(range(len(self.axes), whole.ndim)))
        batch.note(tops)
        self.cells.scales[self.index] = np.log(tops) + (scale or Named(0.0)).over(self.axes)
        if whole.ndim > tops.ndim:
            shape = tops.shape + (1,) * (whole.ndim - tops.ndim)
            self.cells.values[self.index] = whole / np.maximum(tops, TINY).reshape(shape)

    def add(self, states: str, batch: Batch, value: Named | None, scale: Named | None) -> None:
        """Add a value times the exponential of a scale to what the cells have."""
        value, old, new = value or Named(1.0), self.scale, scale or Named(0.0)
        if not states:
            total = joined(np.logaddexp, old, new + joined(np.log, value))
            self.cells.scales[self.index] = total.over(self.axes)
            return
        # States that are the same here may differ in what the cells have.
        apart = " ".join(f"state{number}" for number, _ in enumerate(states.split()))
        term = Named(self.filled(states, value), (*self.axes, *apart.split()))
        top = joined(np.maximum, old, new)
        total = term * batch.weigh(new, top) + self(apart) * batch.weigh(old, top)
        self.put(apart, batch, total, top)

    def keep(self, states: str, value: Named, scale: Named | None = None) -> None:
        """Write values; their scales are given, or shared."""
        self.cells.values[self.index] = self.filled(states, value)
        if scale is not None:
            self.cells.scales[self.index] = scale.over(self.axes)

    def give(self, states: str, slope: Named) -> None:
        """Add to the slopes, repeated along axes that are lacking; what is outside is dropped."""
        if not self.index:
            self.cells.collect(states.split(), slope)
        elif not self.empty:
            whole = self.filled(states, slope)
            inside = self.inside.reshape(self.inside.shape + (1,) * (whole.ndim - len(self.axes)))
            np.add.at(self.cells.slopes, self.index, np.where(inside, whole, 0.0))

    def erase(self, states: str, *masks: Named | bool) -> None:
        """Write zero to the slopes of cells where a mask does not hold."""
        self.cells.slopes[self.index] = self.filled(states, where(self.slope(states), 0.0, *masks))


class Batch:
    """The items that are computed together: their lengths, and what shows that numbers are right.

    For each item `gap` is how far the terms of a sum are apart, `low` and `high` are the least and
    the greatest of all values that cells were divided by, as powers of two.
    """

    def __init__(self, size: int, lengths: Mapping[str, Array], inputs: Given) -> None:
        self.size = size
        self.lengths, self.inputs = lengths, inputs
        self.tokens: dict[str, Array] = {}
        self.tables: dict[str, Cells] = {}
        self.watched = False
        self.lost = np.zeros(size, bool)
        self.gap, self.low, self.high = np.zeros((3, size))

    def item(self, length: str) -> Named:
        """The length of each item."""
        return Named(self.lengths[length], ("b",))

    def least(self, length: str) -> int:
        """The least length."""
        return int(self.lengths[length].min())

    def most(self, length: str) -> int:
        """The greatest length."""
        return int(self.lengths[length].max())

    def read(self, name: str, *path: Any, shift: Sequence[int] = ()) -> Array:
        """The tokens of an input, or what a path leads to, some positions further.

        A step of a path is the blocks of a map, or a part of a union or a product: its offset,
        size, stride and period. What is missing (-1) or impossible (-2) stays so.
        """
        found = self.tokens[name]
        for step in path:
            if isinstance(step, tuple):
                offset, size, stride, period = step
                inner = found // stride % period - offset
                inner = np.where((inner >= 0) & (inner < size), inner, -2)
            else:
                inner = step[np.maximum(found, 0)]
            found = np.where(found < 0, found, inner)
        for axis, move in enumerate(shift):
            place = np.arange(found.shape[axis]) + move
            there = (place >= 0) & (place < len(place))
            moved = found.take(np.where(there, place, 0), axis) if len(place) else found
            found = np.where(there.reshape(-1, *(1,) * (found.ndim - 1 - axis)), moved, -2)
        return found

    def entry(self, name: str, *index: Named | int) -> Named:
        """The entries of a table; what it does not have is not a number."""
        table = self.tables[name]
        return table[index].read(table.values, "", np.nan)

    def chart(
        self,
        cells: dict[str, Cells],
        name: str,
        ends: Sequence[tuple[int, int]],
        states: tuple[int, ...],
        scales_of: Cells | None = None,
    ) -> Cells:
        """Add a chart of zeros with indices between ends; it may use the scales of another one."""
        shape = (*(max(high - low + 1, 0) for low, high in ends), self.size)
        scales = np.full(shape, -np.inf) if scales_of is None else scales_of.scales
        values = np.zeros((*shape, *states)) if states else None
        cells[name] = Cells(values, len(ends), scales, [low for low, _ in ends])
        return cells[name]

    def weigh(self, scale: Named, top: Named) -> Named:
        """What scales are worth beside a greatest one."""
        gap = joined(np.subtract, scale, joined(np.maximum, top, FLOOR))
        if self.watched:
            least = greatest("b", -where(gap, 0.0, gap > -np.inf)).over(("b",))
            self.gap = np.minimum(self.gap, -least / np.log(2.0))
        return joined(np.exp, gap)

    def note(self, tops: Array) -> None:
        """Keep the ends of what cells are divided by, `[*indices, b]`."""
        tops = tops.reshape(-1, self.size)
        self.low = np.minimum(self.low, least_power(tops, -1))
        self.high = np.maximum(self.high, np.log2(tops.max(0, initial=0.0)))

    def certify(self, products: Sequence[Sequence[str]], cells: Mapping[str, Cells]) -> Array:
        """Whether no product of positive numbers was too small to be normal, for each item.

        `products` names what is multiplied.
        """
        safe = ~self.lost & (self.low >= FALL)
        for names in products:
            whole = part = self.gap
            for name in names:
                power = least_power(cells[name].values, cells[name].items)
                whole, part = whole + power, part + np.minimum(power, 0.0)
            safe &= (part >= NORMAL) & (whole - np.maximum(self.high, 0.0) >= NORMAL)
        return safe


def least_power(array: Array, items: int | None) -> Array:
    """The logarithm to base 2 of the least positive number; of each item, if an axis is theirs."""
    positive = np.where(array == 0, np.inf, array)
    if items is None:
        return np.asarray(np.log2(positive.min(initial=np.inf)))
    flat = np.moveaxis(positive, items, -1).reshape(-1, array.shape[items])
    return np.asarray(np.log2(flat.min(0, initial=np.inf)))


def beyond(given: Any, extents: Sequence[Named | int], fill: float) -> Array:
    """An input `[batch, *indices]` as `[*indices, b]`, filled beyond the extents of an item."""
    array = np.moveaxis(np.asarray(given), 0, -1)
    for axis, extent in enumerate(extents):
        place = np.arange(array.shape[axis]).reshape(-1, *(1,) * (array.ndim - 1 - axis))
        end = extent.over(("b",)) if isinstance(extent, Named) else extent
        array = np.where(place < end, array, fill)
    return array


def tokens_of(given: Any, *extents: Named | int) -> Array:
    """The tokens of an input, impossible (-2) beyond the extents of an item."""
    return beyond(given, extents, -2).astype(int)


def below(found: Array, size: int) -> Array:
    """Tokens that are below a size. Raises ValueError."""
    if ((found < -2) | (found >= size)).any():
        raise ValueError(f"a token is not between -2 and {size - 1}")
    return found


def tables_of(given: Any, *extents: Named | int) -> Cells:
    """The entries of a table."""
    return Cells(beyond(np.asarray(given, float), extents, np.nan), len(extents))


def one_hot(found: Array, size: int) -> Cells:
    """Evidence as weights: one for a token, all for a missing one, none for an impossible one."""
    known = below(found, size)[..., None] == np.arange(size)
    return Cells((known | (found == -1)[..., None]).astype(float), found.ndim - 1)


def indicator(blocks: Array, size: int) -> Cells:
    """A map as a factor: 1 for the block of each value."""
    return Cells((blocks[:, None] == np.arange(size)).astype(float))


def view(array: Array, cuts: Cuts, before: int = 0) -> Array:
    """A part of an array: of an axis, from an entry on so many; or an axis as several.

    `before` axes come before those that are counted.
    """
    for axis, *cut in cuts:
        first, shape = axis + before, array.shape
        if len(cut) == 2:
            array = array[(slice(None),) * first + (slice(cut[0], cut[0] + cut[1]),)]
        else:
            array = array.reshape((*shape[:first], *cut[0], *shape[first + 1 :]))
    return array


def cut(source: Cells, cuts: Cuts) -> Cells:
    """A part of a factor."""
    cells = Cells(view(source.values, cuts))

    def back() -> None:
        view(source.slopes, cuts)[...] += cells.slopes

    cells.back = back
    return cells


def contract(axes: str, *operands: tuple[Cells, str]) -> Cells:
    """A product of factors and tables, summed over the axes that are not named.

    In a table the items come after the indices, which are called `#0`, `#1`, ….
    """
    names = [with_items(own.split(), cells.items) for cells, own in operands]
    factors = [Named(cells.values, own) for (cells, _), own in zip(operands, names, strict=True)]
    tables = any(cells.items is not None for cells, _ in operands)
    kept = with_items(axes.split(), axes.count("#") if tables else None)
    result = Cells(product(" ".join(kept), *factors).array, axes.count("#") if tables else None)

    def back() -> None:
        for number, (cells, _) in enumerate(operands):
            others = [Named(result.slopes, kept), *factors[:number], *factors[number + 1 :]]
            known = {axis for other in others for axis in other.axes}
            left = [axis for axis in dict.fromkeys(names[number]) if axis in known]
            cells.collect(names[number], product(" ".join(left), *others))

    result.back = back
    return result


def with_items(axes: list[str], items: int | None) -> list[str]:
    """The axes of a table or a factor."""
    return axes if items is None else [*axes[:items], "b", *axes[items:]]


def gather(source: Cells, *places: tuple[int, Array, int]) -> Cells:
    """The entries of a factor at tokens, each of an axis; tokens of one group share their indices.

    A missing token (-1) sums over its axis, an impossible one (-2) gives zero.
    """
    wide = source.values
    index = [Named(np.arange(n), (f"x{axis}",)) for axis, n in enumerate(wide.shape)]
    points: dict[int, list[str]] = {}
    for axis, found, group in sorted(places, key=lambda place: place[2]):
        total = wide.sum(axis, keepdims=True)
        wide = np.concatenate([wide, np.zeros_like(total), total], axis)
        own = points.setdefault(group, [f"h{group} {i}" for i in range(found.ndim - 1)])
        index[axis] = Named(below(found, source.values.shape[axis]), (*own, "b"))
    axes = [axis for own in points.values() for axis in own]
    axes += ["b", *(x for part in index for x in part.axes if x[0] == "x")]
    where = tuple(part.over(axes) for part in index)
    result = Cells(wide[where], axes.index("b"))

    def back() -> None:
        slopes = np.zeros(wide.shape)
        np.add.at(slopes, where, result.slopes)
        for axis, _, _ in places:
            known, _, total = np.split(slopes, [source.values.shape[axis], -1], axis)
            slopes = known + total
        source.slopes += slopes

    result.back = back
    return result


def log_potential(
    batch: Batch,
    source: Cells,
    indices: str,
    masks: Callable[..., list[Named]] = lambda *_: [],
    cuts: Cuts = (),
) -> Cells:
    """Log-potentials `[batch, *indices, *states]` as weights with scales, zero outside masks."""
    axes = (*indices.split(), "b")
    items = len(axes) - 1
    logs = np.moveaxis(view(source.values, cuts, len(axes)), 0, items)
    states = tuple(range(len(axes), logs.ndim))
    for mask in masks(*(span(axis, 0, logs.shape[i] - 1) for i, axis in enumerate(axes[:-1]))):
        logs = np.where(np.expand_dims(mask.over(axes), states), logs, -np.inf)
    scales = logs.max(states, initial=-np.inf)
    top = np.expand_dims(np.maximum(scales, FLOOR), states)
    cells = Cells(np.exp(logs - top), items, scales)
    if states:
        lost = (cells.values < TINY) & (logs > -np.inf)
        batch.lost |= np.moveaxis(lost, items, 0).reshape(batch.size, -1).any(1)

    def back() -> None:
        view(source.slopes, cuts, len(axes))[...] += np.moveaxis(
            cells.slopes * cells.values, items, 0
        )

    cells.back = back
    return cells


class Program:
    """log Z of a batch and its gradients, from the functions that compute charts and slopes."""

    def __init__(
        self,
        prepare: Callable[..., None],
        inside: Callable[..., Named],
        outside: Callable[..., None],
        lengths: Sequence[str],
        parameters: Mapping[str, Sequence[int]],
        inputs: Mapping[str, Sequence[str]],
        potentials: Sequence[str],
        known: Sequence[str],
        products: Sequence[Sequence[str]],
    ) -> None:
        self.prepare, self.inside, self.outside = prepare, inside, outside
        self.lengths, self.parameters, self.inputs = lengths, parameters, inputs
        self.potentials, self.known, self.products = potentials, known, products

    def log_z(self, weights: Given, inputs: Given, lengths: Given | None = None) -> Array:
        """log Z of every item, `[batch]`; -inf for an item without derivations.

        `weights` are the factors' values (not logarithms), `inputs` token ids `[batch, …]` (-1 is
        missing, -2 impossible), tables and log-potentials, `lengths` a list for each length;
        without them all items fill their inputs. Raises ArithmeticError if float64 has too little
        range.
        """
        with np.errstate(all="ignore"):
            log_z: Array = self._passed(weights, inputs, lengths)[2]
        return log_z

    def gradients(
        self,
        weights: Given,
        inputs: Given,
        lengths: Given | None = None,
        upstream: Any = 1.0,
    ) -> dict[str, Array]:
        """The derivatives of the sum of `upstream · log Z` in weights and in log-potentials.

        An item without derivations has derivatives 0. Cells that are zero pass nothing on, also to
        weights that are 0.
        """
        with np.errstate(all="ignore"):
            batch, cells, log_z = self._passed(weights, inputs, lengths)
            seeds = np.where(np.isfinite(log_z), upstream, 0.0)
            self.outside(cells, batch, Named(seeds, ("b",)))
            for item in reversed(cells.values()):
                item.back()
        slopes = {name: cells[name].slopes for name in (*self.parameters, *self.potentials)}
        for name, slope in slopes.items():
            if not np.isfinite(slope).all():
                raise ArithmeticError(f"a derivative in {name!r} is too large for float64")
        return slopes

    def _passed(self, weights: Given, inputs: Given, lengths: Given | None) -> Any:
        """The batch, its cells after the inside pass, and log Z."""
        batch = self._batch(inputs, lengths or {})
        cells = {name: Cells(values) for name, values in self._checked(weights).items()}
        cells |= {name: Cells(np.asarray(inputs[name], float)) for name in self.potentials}
        self.prepare(cells, batch)
        read = [item.values for name, item in cells.items() if name not in self.potentials]
        batch.watched = any((values == 0).any() for values in read)
        log_z = self.inside(cells, batch).over(("b",)) + np.zeros(batch.size)
        unsafe = np.flatnonzero(~(batch.certify(self.products, cells) & (log_z < np.inf)))
        if unsafe.size:
            raise ArithmeticError(f"items {unsafe[:5].tolist()} need more range than float64 has")
        return batch, cells, log_z

    def _checked(self, weights: Given) -> dict[str, Array]:
        """The weights as arrays. Raises ValueError for what is missing or wrong."""
        arrays = {}
        for name, shape in self.parameters.items():
            if name not in weights:
                raise ValueError(f"no weights for {name!r}")
            arrays[name] = np.asarray(weights[name], float)
            if arrays[name].shape != tuple(shape):
                raise ValueError(f"{name!r} has the shape {arrays[name].shape}, not {shape}")
            if not ((arrays[name] >= 0) & (arrays[name] < np.inf)).all():
                raise ValueError(f"weights of {name!r} are negative or not finite")
        return arrays

    def _batch(self, inputs: Given, lengths: Given) -> Batch:
        """The batch that inputs and lengths make. Raises ValueError."""
        given = {name: np.asarray(values, int) for name, values in lengths.items()}
        size = next((len(values) for values in given.values()), 1)
        for name in (*self.inputs, *self.potentials):
            if name not in inputs:
                raise ValueError(f"input {name!r} is not given")
            size, *shape = np.shape(inputs[name])
            for extent, found in zip(self.inputs.get(name, ()), shape, strict=False):
                if extent in self.lengths:
                    given.setdefault(extent, np.full(size, found))
        for name in self.known:
            if (np.asarray(inputs[name]) == -1).any():
                raise ValueError(
                    f"tokens of {name!r} are missing, and this program takes them as known; "
                    "compile it with `--missing` to sum them out"
                )
        for name in self.lengths:
            if name not in given:
                raise ValueError(f"length {name!r} is not known")
        return Batch(size, given, inputs)
