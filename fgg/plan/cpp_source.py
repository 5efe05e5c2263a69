"""Programs in C++, as data: their text, and the tensors that their functions take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fgg.plan import Plan


@dataclass(frozen=True)
class Argument:
    """What a C++ function takes: a `chart`, a `table`, a `parameter`, a `lookup` or a `length`.

    What comes before the charts takes the `tokens` of inputs, `logs` (log-potentials) and tensors
    that it has `made`, too.

    `rank` is the number of indices before the batch.
    """

    kind: str
    name: str
    rank: int


@dataclass(frozen=True)
class Made:
    """A tensor that is made before the charts.

    `positions` are the axes of inputs and log-potentials (without that of the items) that its
    indices run over; a parameter has none. A `constant` has no gradient. A `scaled` one has a scale
    for each cell. One that only has the axes of its `source` unfolded lies where that lies.
    """

    name: str
    positions: tuple[tuple[str, int], ...] | None
    states: tuple[int, ...]
    constant: bool
    scaled: bool
    source: str = ""


@dataclass(frozen=True)
class Native:
    """A program in C++, the prelude that it includes, and what its functions take, in order.

    `inside` and `outside` take the `arguments`; `prepare`, which makes what comes before the
    charts, and `through`, which takes gradients back through it, take the `sources`.

    A function takes numbers (the batch, whether lengths differ, the threads, then those of each
    argument) and pointers (the range that numbers have, those of each argument, the gradient of
    log Z), as the types of the prelude take them. It returns the bytes that it took for
    intermediate results, -1 if there were not enough, or -2 if it was stopped.
    """

    source: str
    prelude: str
    arguments: tuple[Argument, ...]
    sources: tuple[Argument, ...]
    made: tuple[Made, ...]

    @cached_property
    def whole(self) -> str:
        """The program with the prelude in it."""
        return self.source.replace('#include "prelude.hpp"\n', self.prelude + "\n", 1)


def told_charts(plan: Plan) -> tuple[str, ...]:
    """The charts whose least positive values the inside pass reports: with at most two axes."""
    return tuple(c.family for c in plan.charts if not c.is_scalar and len(c.axes) <= 2)
