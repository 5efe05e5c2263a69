"""Gauges: changes of basis of a hidden domain that no string's probability notices.

An invertible matrix R whose columns sum to one maps a factor f(a -> b, c) over a hidden domain to
Σ f(a', b', c') R(a', a) R⁻¹(b, b') R⁻¹(c, c'), and keeps distributions normalised. If every node
of the domain is made by one factor and used by one other, Z stays as it is: such a model has k(k-1)
parameters too many, from whatever moments [ID §3; for the PCFG]. Here it is not argued but tried:
the direction of each R = I + t G is in the null space of the Jacobian of *all* strings, or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.runtime.identify.fields import PrimeField, echelon
from fgg.runtime.identify.parameters import FreeTable, ParameterPoint

MAX_GENERATORS = 4096


@dataclass(frozen=True)
class Gauge:
    """A domain whose basis can be changed, and how many dimensions of changes that has."""

    domain: str
    dimension: int


def gauges(grammar: Grammar, place: ParameterPoint, rows: Tensor) -> tuple[Gauge, ...]:
    """The gauges that the Jacobian of all strings confirms, at a point of a prime field."""
    field = place.field
    assert isinstance(field, PrimeField)
    observed = {item.domain for item in grammar.inputs}
    result = []
    for domain in grammar.domains:
        size = domain_size(grammar, domain.name)
        if domain.name in observed or not 1 < size or size * (size - 1) > MAX_GENERATORS:
            continue
        moved = [leaf for leaf in place.parameters.leaves if domain.name in _axes(grammar, leaf)]
        if not moved or any(leaf.zeros for leaf in moved):
            continue  # a change of basis would fill zeros
        tangents = _tangents(grammar, place, domain.name, size)
        if bool(torch.any(field.matmul(rows, tangents.T.contiguous()))):
            continue
        dimension = echelon(tangents, field).rank
        if dimension:
            result.append(Gauge(domain.name, dimension))
    return tuple(result)


def _axes(grammar: Grammar, leaf: FreeTable) -> tuple[str, ...]:
    """The domains of a leaf's axes; pieces of a factor have none that a change would keep."""
    return grammar.factor[leaf.factor].domains if leaf.name == leaf.factor else ()


def _tangents(grammar: Grammar, place: ParameterPoint, domain: str, size: int) -> Tensor:
    """The direction of each generator, a row each: G has 1 at (x, y) and -1 at (y, y)."""
    field = place.field
    generators = torch.zeros(size * (size - 1), size, size, dtype=torch.float64)
    pairs = [(x, y) for x in range(size) for y in range(size) if x != y]
    for number, (x, y) in enumerate(pairs):
        generators[number, x, y] = 1.0
        generators[number, y, y] = -1.0
    columns = []
    for leaf in place.parameters.leaves:
        total = torch.zeros(len(pairs), *leaf.shape, dtype=torch.float64)
        array = place.arrays[leaf.name]
        for axis, axis_domain in enumerate(_axes(grammar, leaf)):
            if axis_domain != domain:
                continue
            # Given nodes: Σ f(a') G(a', a); nodes that are drawn: -Σ G(b, b') f(b').
            wide = array.movedim(axis, -1)
            matrices = generators if axis < leaf.given else -generators.transpose(1, 2)
            flat = wide.reshape(1, -1, size)
            moved = field.matmul(flat, matrices).reshape(len(pairs), *wide.shape)
            total += moved.movedim(-1, axis + 1)
        free, _ = leaf.entries
        columns.append(field.reduce(total.reshape(len(pairs), -1)[:, free]))
    return torch.cat(columns, dim=1)
