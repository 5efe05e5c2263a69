"""Weights as the JSON format writes them: nested lists, and structured where these are large.

A structured tensor has a small `physical` tensor; `expand` prepends axes along which it is
repeated, and `vaxes` say where its entries lie: an axis of the tensor is a physical axis, a product
of axes, or an axis placed between zeros. An axis that is used twice makes a diagonal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, inf, prod

from fgg.check.values import load_array
from fgg.diagnostics import refuse
from fgg.factors.maps import map_values
from fgg.grammar import Factor, Grammar, Union
from fgg.grammar.domains import domain_size
from fgg.grammar.domains import parts as domain_parts
from fgg.grammar.values import (
    MAX_LOG,
    Constant,
    Exp,
    Eye,
    Load,
    Map,
    Nested,
    Number,
    Sparse,
    Table,
    Uniform,
)

MAX_ENTRIES = 2**24
MAX_WRITTEN_OUT = 64


def weights_json(grammar: Grammar, factor: Factor) -> object:
    """The weights of a factor that has a value. Raises GrammarError (F302, F404, F407)."""
    shape = tuple(domain_size(grammar, name) for name in factor.domains)
    value = factor.value
    if isinstance(value, Table):
        return _nested(value.entries)
    if isinstance(value, Exp):
        return _exponentials(factor, value.entries)
    if isinstance(value, Load):
        return _loaded(factor, value)
    if isinstance(value, Sparse):
        return _sparse(factor, shape, value)
    if isinstance(value, Eye):
        small = prod(shape) <= MAX_WRITTEN_OUT
        rows = [[float(i == j) for j in range(shape[1])] for i in range(shape[0] if small else 0)]
        return rows if small else {"physical": 1.0, "expand": [shape[0]], "vaxes": [0, 0]}
    if isinstance(value, Map):
        _guard(factor, prod(shape))
        blocks = map_values(grammar, factor.name)
        return [[float(block == j) for j in range(shape[1])] for block in blocks]
    assert isinstance(value, Constant | Uniform)
    if isinstance(value, Constant):
        number = float(value.number)
    else:
        number = 1 / prod(shape[factor.given or 0 :])
    return _constant(number, shape)


def selection_json(grammar: Grammar, domain: str, path: Sequence[str]) -> object:
    """The 0/1 matrix that selects a part of a union or product, always structured."""
    sizes: list[int] = []

    def axes(domain: str, path: Sequence[str]) -> tuple[object, object]:
        """The axis of a domain and that of its part, over the same physical axes."""
        if not path:
            sizes.append(domain_size(grammar, domain))
            return len(sizes) - 1, len(sizes) - 1
        shape = grammar.domain[domain].shape
        found = domain_parts(grammar, domain)
        if isinstance(shape, Union):
            whole, part = axes(path[0], path[1:])
            before = found[path[0]].offset
            after = domain_size(grammar, domain) - before - found[path[0]].size
            return {"before": before, "term": whole, "after": after}, part
        components = {name: axes(name, path[1:] if name == path[0] else ()) for name in found}
        return [whole for whole, _ in components.values()], components[path[0]][1]

    return {"physical": 1.0, "vaxes": list(axes(domain, path)), "expand": sizes}


def _constant(number: float, shape: Sequence[int]) -> object:
    if prod(shape) > MAX_WRITTEN_OUT:
        return {"physical": number, "expand": list(shape)}
    return _reshape([number] * prod(shape), shape)


def _exponentials(factor: Factor, entries: Nested) -> object:
    """What logarithms stand for. Raises GrammarError (F407) where JSON has no such number."""
    if isinstance(entries, tuple):
        return [_exponentials(factor, entry) for entry in entries]
    log = float(entries)
    if abs(log) > MAX_LOG and log != -inf:
        message = f"factor `{factor.name}` has the weight exp({log:g})"
        help = "JSON holds weights between about 1e-304 and 1e304"
        refuse("F407", message, help)
    return exp(log)


def _nested(entries: Nested) -> object:
    if isinstance(entries, tuple):
        return [_nested(entry) for entry in entries]
    return float(entries)


def _loaded(factor: Factor, value: Load) -> object:
    try:
        array = load_array(value)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"factor `{factor.name}`: `{value.path}` cannot be used: {reason.lower()}"
        refuse("F404", message)
    _guard(factor, array.size)
    return array.astype("float64").tolist()


def _guard(factor: Factor, entries: int) -> None:
    if entries > MAX_ENTRIES:
        refuse(
            "F302",
            f"factor `{factor.name}` has {entries:,} weights to write out, "
            f"more than {MAX_ENTRIES:,}",
            "leave out its value: a factor without weights is supplied later",
        )


def _sparse(factor: Factor, shape: Sequence[int], value: Sparse) -> object:
    entries = [(position, float(number)) for position, number in value.entries if number]
    if not entries:
        return _constant(0.0, shape)
    total = prod(shape)
    box = _Box(shape, [position for position, _ in entries])
    if total <= MAX_WRITTEN_OUT or 2 * prod(box.sizes) > total:
        _guard(factor, total)
        return _reshape(_scatter(entries, shape), shape)
    first = entries[0][1]
    placed = [(box.inside(position), number) for position, number in entries]
    if len(placed) == prod(box.sizes) and all(number == first for _, number in placed):
        return {"physical": first, "expand": box.sizes, "vaxes": box.axes}
    _guard(factor, prod(box.sizes))
    return {"physical": _reshape(_scatter(placed, box.sizes), box.sizes), "vaxes": box.axes}


class _Box:
    """The smallest box around some positions; axes that run in parallel count as one."""

    def __init__(self, shape: Sequence[int], positions: Sequence[tuple[int, ...]]) -> None:
        columns = list(zip(*positions, strict=True))
        self.starts = [min(column) for column in columns]
        self.sizes: list[int] = []
        self.axes: list[object] = []
        self.chosen: list[int] = []
        seen: dict[tuple[int, ...], int] = {}
        for axis, column in enumerate(columns):
            start, size = self.starts[axis], max(column) - self.starts[axis] + 1
            shifted = tuple(i - start for i in column)
            if shifted not in seen:
                seen[shifted] = len(self.sizes)
                self.sizes.append(size)
                self.chosen.append(axis)
            inner: object = seen[shifted]
            after = shape[axis] - start - size
            if start or after:
                inner = {"before": start, "term": inner, "after": after}
            self.axes.append(inner)

    def inside(self, position: tuple[int, ...]) -> tuple[int, ...]:
        """A position as counted in the box."""
        return tuple(position[axis] - self.starts[axis] for axis in self.chosen)


def _scatter(
    entries: Iterable[tuple[tuple[int, ...], Number]], shape: Sequence[int]
) -> list[float]:
    """All weights row by row, those that are not given 0."""
    flat = [0.0] * prod(shape)
    for position, number in entries:
        index = 0
        for i, size in zip(position, shape, strict=True):
            index = index * size + i
        flat[index] = float(number)
    return flat


def _reshape(flat: list[float], shape: Sequence[int]) -> object:
    """Nested lists of the given shape."""
    level: list[object] = list(flat)
    for size in reversed(shape[1:]):
        level = [level[i : i + size] for i in range(0, len(level), size)]
    return level if shape else level[0]
