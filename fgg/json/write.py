"""Grammars written in the JSON format of the `fggs` library.

Keys that other readers ignore hold what the format lacks, and our reader reads them: `name` of a
rule; `given`, `rank` and `with` of a terminal; `rank` of a domain; `map` of a factor that is a
function. Large weights with a structure are written as structured tensors (`fgg.json.tensor`), all
others as nested lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, inf, prod

from fgg.check.values import load_array
from fgg.diagnostics import refuse
from fgg.factors.maps import is_map, map_values
from fgg.grammar import Domain, Enumerated, Factor, Grammar, Rule, Sized, Union
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.domains import parts as domain_parts
from fgg.grammar.index import Condition
from fgg.grammar.options import written_attributes
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
from fgg.json.attributes import attributes_json
from fgg.json.tensor import nest
from fgg.rewrite.plain import plain_with_parts

Json = dict[str, object]
Position = tuple[int, ...]

MAX_ENTRIES = 2**24
MAX_WRITTEN_OUT = 64


def to_json(grammar: Grammar) -> dict[str, object]:
    """The grammar as a JSON object, ready for `json.dumps`.

    Unions, products and paths are removed first (`fgg.rewrite.plain`). Fractions become decimals,
    and a parameter is a terminal without weights. Queries and sizes are left out: the format has
    neither. Raises GrammarError: F303 for a grammar with indices or inputs, F302 for more weights
    than can be written out, F404 for an array file that cannot be read, F407 for a weight that
    JSON cannot hold.
    """
    if grammar.is_indexed:
        message = f"grammar `{grammar.name}` has indices or inputs, which the format lacks"
        refuse("F303", message, "give lengths to ground it first")
    simple, selections = plain_with_parts(replace(grammar, queries=()))
    factors: Json = {}
    for factor in simple.factors:
        if factor.value is None:
            continue
        if factor.name in selections and prod(_shape(simple, factor)) > MAX_WRITTEN_OUT:
            weights: object = _selection_json(grammar, *selections[factor.name])
        else:
            weights = _weights_json(simple, factor)
        entry: Json = {"function": "finite", "weights": weights}
        if is_map(factor):
            entry["map"] = list(map_values(simple, factor.name))
        factors[factor.name] = entry
    rules = [rule for rule in simple.rules if all(_holds(simple, c) for c in rule.conditions)]
    return {
        "grammar": {
            "terminals": {f.name: _terminal_json(simple, f) for f in simple.factors},
            "nonterminals": {x.name: {"type": list(x.domains)} for x in simple.nonterminals},
            "start": simple.start.label,
            "rules": [_rule_json(rule) for rule in rules],
        },
        "interpretation": {
            "domains": {domain.name: _domain_json(simple, domain) for domain in simple.domains},
            "factors": factors,
        },
    }


def _shape(grammar: Grammar, factor: Factor) -> tuple[int, ...]:
    return tuple(domain_size(grammar, name) for name in factor.domains)


def _holds(grammar: Grammar, condition: Condition) -> bool:
    """Whether a condition, which can contain sizes only, is true."""
    known = size_values(grammar)
    return all((expr.evaluate(known) or 0) >= 0 for expr in condition.inequalities()) and all(
        expr.evaluate(known) != 0 for expr in condition.differences()
    )


def _terminal_json(grammar: Grammar, factor: Factor) -> Json:
    entry: Json = {"type": list(factor.domains)}
    if factor.given is not None:
        entry["given"] = factor.given
    if factor.rank is not None:
        entry["rank"] = factor.rank.evaluate(size_values(grammar))
    attributes = written_attributes(factor)
    if attributes:
        entry["with"] = attributes_json(attributes)
    return entry


def _domain_json(grammar: Grammar, domain: Domain) -> Json:
    if isinstance(domain.shape, Sized):
        entry: Json = {"class": "range", "size": domain_size(grammar, domain.name)}
        return {**entry, "rank": True} if domain.rank else entry
    assert isinstance(domain.shape, Enumerated)
    return {"class": "finite", "values": list(domain.shape.values)}


def _rule_json(rule: Rule) -> Json:
    numbers = {node.name: number for number, node in enumerate(rule.rhs.nodes)}
    return {
        "name": rule.name,
        "lhs": rule.lhs,
        "rhs": {
            "nodes": [{"label": node.domain, "id": node.name} for node in rule.rhs.nodes],
            "edges": [
                {"label": edge.label, "attachments": [numbers[a.node] for a in edge.attachments]}
                for edge in rule.rhs.edges
            ],
            "externals": [numbers[name] for name in rule.rhs.externals],
        },
    }


def _selection_json(grammar: Grammar, domain: str, path: Sequence[str]) -> Json:
    """The 0/1 matrix that selects a part of a union or product, always structured."""
    sizes: list[int] = []

    def axes(domain: str, path: Sequence[str]) -> tuple[object, object]:
        """The axis of a domain and that of its part, over the same physical axes."""
        if not path:
            sizes.append(domain_size(grammar, domain))
            return len(sizes) - 1, len(sizes) - 1
        parts = domain_parts(grammar, domain)
        if isinstance(grammar.domain[domain].shape, Union):
            whole, part = axes(path[0], path[1:])
            before = parts[path[0]].offset
            after = domain_size(grammar, domain) - before - parts[path[0]].size
            return {"before": before, "term": whole, "after": after}, part
        components = {name: axes(name, path[1:] if name == path[0] else ()) for name in parts}
        return [whole for whole, _ in components.values()], components[path[0]][1]

    return {"physical": 1.0, "vaxes": list(axes(domain, path)), "expand": sizes}


def _weights_json(grammar: Grammar, factor: Factor) -> object:
    """The weights of a factor that has a value. Raises GrammarError (F302, F404, F407)."""
    shape = _shape(grammar, factor)
    match factor.value:
        case Table(entries):
            return _nested(entries)
        case Exp(entries):
            return _exponentials(factor, entries)
        case Load() as value:
            return _loaded(factor, value)
        case Sparse() as value:
            return _sparse(factor, shape, value)
        case Map():
            _check_count(factor, prod(shape))
            return _indicators(map_values(grammar, factor.name), shape[1])
        case Eye() if prod(shape) <= MAX_WRITTEN_OUT:
            return _indicators(range(shape[0]), shape[1])
        case Eye():
            return {"physical": 1.0, "expand": [shape[0]], "vaxes": [0, 0]}
        case Constant(number):
            return _constant(float(number), shape)
    assert isinstance(factor.value, Uniform)
    return _constant(1 / prod(shape[factor.given or 0 :]), shape)


def _constant(number: float, shape: Sequence[int]) -> object:
    if prod(shape) > MAX_WRITTEN_OUT:
        return {"physical": number, "expand": list(shape)}
    return _reshaped([number] * prod(shape), shape)


def _indicators(columns: Iterable[int], width: int) -> list[list[float]]:
    """Rows that are 1 in one column each, and 0 in all others."""
    return [[float(column == j) for j in range(width)] for column in columns]


def _nested(entries: Nested) -> object:
    if isinstance(entries, tuple):
        return [_nested(entry) for entry in entries]
    return float(entries)


def _exponentials(factor: Factor, entries: Nested) -> object:
    """The weights of given logarithms. Raises GrammarError (F407) if JSON has no such number."""
    if isinstance(entries, tuple):
        return [_exponentials(factor, entry) for entry in entries]
    log = float(entries)
    if abs(log) > MAX_LOG and log != -inf:
        message = f"factor `{factor.name}` has the weight exp({log:g})"
        refuse("F407", message, "JSON holds weights between about 1e-304 and 1e304")
    return exp(log)


def _loaded(factor: Factor, value: Load) -> object:
    try:
        array = load_array(value)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"factor `{factor.name}`: `{value.path}` cannot be used: {reason.lower()}"
        refuse("F404", message)
    _check_count(factor, array.size)
    return array.astype("float64").tolist()


def _check_count(factor: Factor, entries: int) -> None:
    """Refuse (F302) to write out too many weights."""
    if entries > MAX_ENTRIES:
        message = f"factor `{factor.name}` has {entries:,} weights to write out"
        help = "leave out its value: a factor without weights is supplied later"
        refuse("F302", f"{message}, more than {MAX_ENTRIES:,}", help)


def _sparse(factor: Factor, shape: Sequence[int], value: Sparse) -> object:
    entries = [(position, float(number)) for position, number in value.entries if number]
    if not entries:
        return _constant(0.0, shape)
    total = prod(shape)
    box = _Box(shape, [position for position, _ in entries])
    if total <= MAX_WRITTEN_OUT or 2 * prod(box.sizes) > total:
        _check_count(factor, total)
        return _scattered(entries, shape)
    first = entries[0][1]
    if len(entries) == prod(box.sizes) and all(number == first for _, number in entries):
        return {"physical": first, "expand": box.sizes, "vaxes": box.axes}
    _check_count(factor, prod(box.sizes))
    placed = [(box.inside(position), number) for position, number in entries]
    return {"physical": _scattered(placed, box.sizes), "vaxes": box.axes}


class _Box:
    """The smallest box around positions of a tensor; axes that run in parallel are one axis."""

    def __init__(self, shape: Sequence[int], positions: Sequence[Position]) -> None:
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

    def inside(self, position: Position) -> Position:
        """A position, counted from the corner of the box."""
        return tuple(position[axis] - self.starts[axis] for axis in self.chosen)


def _scattered(entries: Iterable[tuple[Position, Number]], shape: Sequence[int]) -> object:
    """Nested lists of the given shape with some entries, and 0 everywhere else."""
    flat = [0.0] * prod(shape)
    for position, number in entries:
        index = 0
        for i, size in zip(position, shape, strict=True):
            index = index * size + i
        flat[index] = float(number)
    return _reshaped(flat, shape)


def _reshaped(flat: list[float], shape: Sequence[int]) -> object:
    entries: list[object] = list(flat)
    return nest(entries, shape, list)
