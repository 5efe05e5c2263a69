"""Programs in C++, as data: their text, and the tensors that their functions take."""

from __future__ import annotations

from dataclasses import dataclass

from fgg.plan import Plan


@dataclass(frozen=True)
class Argument:
    """A tensor that a C++ function takes: `[*indices, batch, *states]`, or a parameter.

    `role` says what it is: the `values`, `scales` or `adjoint` of a chart; a `leaf`, its `leaf
    scales` or `leaf gradient`; the `lengths` of items; a `table` that indices look up; the
    `gradient` of log Z; the `range` that the numbers of a pass had. `rank` is the number of
    indices, `ident` its name in the text.
    """

    role: str
    name: str
    rank: int
    ident: str
    kind: str = "T"


@dataclass(frozen=True)
class Native:
    """A program in C++, and what its two functions take, in order.

    A function takes numbers (the batch, whether lengths differ, the least and the greatest of each
    length, strides and extents of every tensor's indices), pointers, and a matrix product. It
    returns the bytes that it took for intermediate results, -1 if there were not enough, or -2 if
    it was stopped.
    """

    source: str
    inside: tuple[Argument, ...]
    outside: tuple[Argument, ...]


def told_charts(plan: Plan) -> tuple[str, ...]:
    """The charts whose least positive values the inside pass reports: with at most two axes."""
    return tuple(c.family for c in plan.charts if not c.is_scalar and len(c.axes) <= 2)
