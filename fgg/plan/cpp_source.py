"""Programs in C++, as data: their text, and the tensors that their functions take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fgg.plan import Plan


@dataclass(frozen=True)
class Argument:
    """What a C++ function takes: a `chart`, a `table`, a `parameter`, a `lookup` or a `length`.

    `rank` is the number of indices before the batch.
    """

    kind: str
    name: str
    rank: int


@dataclass(frozen=True)
class Native:
    """A program in C++, the prelude that it includes, and what its two functions take, in order.

    A function takes numbers (the batch, whether lengths differ, the threads, then those of each
    argument) and pointers (the range that numbers have, those of each argument, the gradient of
    log Z), as the types of the prelude take them. It returns the bytes that it took for
    intermediate results, -1 if there were not enough, or -2 if it was stopped.
    """

    source: str
    prelude: str
    arguments: tuple[Argument, ...]

    @cached_property
    def whole(self) -> str:
        """The program with the prelude in it."""
        return self.source.replace('#include "prelude.hpp"\n', self.prelude + "\n", 1)


def told_charts(plan: Plan) -> tuple[str, ...]:
    """The charts whose least positive values the inside pass reports: with at most two axes."""
    return tuple(c.family for c in plan.charts if not c.is_scalar and len(c.axes) <= 2)
