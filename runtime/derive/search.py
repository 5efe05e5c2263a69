"""The search for derivations: the best one, the k best, and draws, over any `Choices`."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.runtime.derive.choices import Cell, CellChoices, Choice, Choices, Floats, running_sums


class Applied(NamedTuple):
    """A choice applied to a cell, and how many cells it goes on with."""

    cell: Cell
    choice: Choice
    children: int


Path = list[Applied]
"""The choices of a whole derivation, in preorder."""


class _OpenCells(NamedTuple):
    """The cells still to be rewritten, as a linked list; the next one comes first."""

    cell: Cell
    rest: _OpenCells | None


class _History(NamedTuple):
    """The choices applied so far, as a linked list; the last one comes first."""

    applied: Applied
    before: _History | None


def best(choices: Choices, *, max_steps: float = inf) -> Path:
    """The derivation of greatest weight; the first one under ties."""
    start = max(choices.start, key=choices.inside)
    return _follow(choices, start, choices.best, max_steps)


def best_first(choices: Choices) -> Iterator[Path]:
    """All derivations, best first, as far as asked for.

    Lazy, as in Huang & Chiang 2005: a partial derivation is valued at its weight so far times the
    best completions of its open cells, which are known. Taking a choice puts the next best choice
    for the same cell aside. This also works for recursive grammars, since the value never rises.
    """
    orders: dict[Cell, NDArray[np.intp]] = {}
    ticket = count()
    # (minus the value, minus the depth, ticket, open cells, rank of the choice to take, history)
    heap: list[tuple[float, int, int, _OpenCells | None, int, _History | None]] = []
    for cell in choices.start:
        value = choices.inside(cell)
        if np.isfinite(value):
            heapq.heappush(heap, (-value, 0, next(ticket), _OpenCells(cell, None), 0, None))
    while heap:
        value, depth, _, agenda, rank, history = heapq.heappop(heap)
        if agenda is None:
            yield _unrolled(history)
            continue
        cell, rest = agenda
        ways = choices.at(cell)
        order = orders.get(cell)
        if order is None:
            order = orders[cell] = choices.ranked(ways)
        number = int(order[rank])
        if rank + 1 < len(order):
            lost = max(float(ways.scores[number] - ways.scores[order[rank + 1]]), 0.0)
            heapq.heappush(heap, (value + lost, depth, next(ticket), agenda, rank + 1, history))
        choice = ways.decode(number)
        children = choices.children(choice)
        for child in reversed(children):
            rest = _OpenCells(child, rest)
        longer = _History(Applied(cell, choice, len(children)), history)
        heapq.heappush(heap, (value, depth - 1, next(ticket), rest, 0, longer))


def samples(
    choices: Choices, uniform: Callable[[], float], *, max_steps: float = inf
) -> Iterator[Path]:
    """Independent draws of derivations with probability weight / Z, as many as asked for.

    `uniform` draws a number from [0, 1). The values of the cells are sums over derivations.
    """

    def drawn(sums: Floats) -> int:
        place = int(sums.searchsorted(uniform() * sums[-1], side="right"))
        return min(place, len(sums) - 1)

    start = choices.start
    start_sums = running_sums(np.array([choices.inside(cell) for cell in start]))
    while True:
        first = start[drawn(start_sums)]
        yield _follow(choices, first, lambda ways: drawn(ways.sums), max_steps)


def log_weight(choices: Choices, path: Path) -> float:
    """The log-weight of a derivation."""
    return float(sum(choices.edge_weight(applied.choice) for applied in path))


def _follow(
    choices: Choices, start: Cell, choose: Callable[[CellChoices], int], max_steps: float
) -> Path:
    """The derivation from a cell that takes the choice that `choose` numbers at each cell."""
    agenda = [start]
    path: Path = []
    while agenda:
        if len(path) >= max_steps:
            refuse(
                "F422",
                f"a derivation has more than {max_steps:,} steps",
                "raise the limit, or change the weights so that derivations end",
            )
        cell = agenda.pop()
        ways = choices.at(cell)
        choice = ways.decode(choose(ways))
        children = choices.children(choice)
        path.append(Applied(cell, choice, len(children)))
        agenda += reversed(children)
    return path


def _unrolled(history: _History | None) -> Path:
    path: Path = []
    while history is not None:
        path.append(history.applied)
        history = history.before
    path.reverse()
    return path
