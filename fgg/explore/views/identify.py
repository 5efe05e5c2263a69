"""Identifiability: ranks of moments against the number of parameters, and null directions.

Sizes that are large are made small, unless the page sets them. A part `result` has the moments and
the length that are asked for; parts `cell` have the ranks of all moments at other lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fgg.api.identify import IdentificationModel, model_of
from fgg.diagnostics import GrammarError
from fgg.explore.asked import Answer, Asked, Json, Send
from fgg.explore.views.check import adjustable_sizes
from fgg.grammar.domains import with_sizes
from fgg.rewrite.small_sizes import small_sizes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fgg.runtime.identify.result import Identification

LENGTH = 4
MAX_LENGTH = 12
GRID = 6
"""The greatest length of the table, unless a greater one is asked for."""
MAX_SIZE = 64
MAX_MOMENTS = 200_000
"""Cells of the table with more moments are left out."""
MAX_DIRECTIONS = 12
MAX_ENTRIES = 400
"""Of larger tables, the entries that change most are shown."""


def view(asked: Asked, send: Send) -> Answer:
    """Whether the moments determine the parameters. Raises GrammarError."""
    from fgg.runtime.identify.observations import NAMES

    sizes = chosen_sizes(asked)
    send({"sizes": [{"name": name, "value": value} for name, value in sizes.items()]})
    length = asked.number("length", LENGTH, 1, MAX_LENGTH)
    moments = asked.word("moments", NAMES, "**")
    seed = asked.number("seed", 0, 0, 2**31 - 1)
    model = model_of(asked.grammar, asked.query_name, sizes)
    result = model.identify(length, [moments], seed=seed)[moments]
    send({"result": {**_result(result), "length": length, "moments_names": list(NAMES)}})
    cells = _Cells(model, seed)
    for at in range(2, max(GRID, length) + 1):
        for cell in cells.row(at, NAMES):
            send({"cell": cell})
    return {"verdict": result.verdict}


def chosen_sizes(asked: Asked) -> dict[str, int]:
    """The sizes at which ranks are computed: those set in the tab, others made small."""
    grammar = asked.grammar
    small = small_sizes(asked.source, {})
    known: Mapping[str, int] = {**small.structure, **small.states}
    given = asked.numbers("at", 1, MAX_SIZE)
    sizes = {}
    for size in adjustable_sizes(grammar):
        name, value = str(size["name"]), int(str(size["value"]))
        sizes[name] = given.get(name, known.get(name, min(value, MAX_SIZE)))
    with_sizes(grammar, sizes)
    return sizes


class _Cells:
    """The table of ranks: a cell for a length and a kind of moments."""

    def __init__(self, model: IdentificationModel, seed: int) -> None:
        self.model, self.seed = model, seed
        self.grown: set[str] = set()

    def row(self, length: int, names: Sequence[str]) -> Iterator[Answer]:
        """The ranks of all kinds of moments at a length.

        There is none where moments are too many, or could be.
        """
        yield from ({**_at(length, name), "verdict": "left out"} for name in self.grown)
        names = [name for name in names if name not in self.grown]
        try:
            results = self.ranks(length, names)
        except GrammarError:
            results = {}
        for name in names:
            yield self.cell(length, name, results.get(name))

    def ranks(self, length: int, names: Sequence[str]) -> Mapping[str, Identification]:
        """The ranks of some kinds of moments. Raises GrammarError."""
        return self.model.identify(length, names, seed=self.seed, second=False, null=False)

    def cell(self, length: int, name: str, result: Identification | None) -> Answer:
        """The rank of some moments, computed now if it is not known yet."""
        cell = _at(length, name)
        try:
            result = result or self.ranks(length, [name])[name]
        except GrammarError as error:
            self.grown.add(name)
            return {**cell, "verdict": "left out", "why": error.diagnostics[0].message}
        if result.moments > MAX_MOMENTS:
            self.grown.add(name)
        counts = {"rank": result.rank, "parameters": result.parameters, "count": result.moments}
        return {**cell, "verdict": result.verdict, **counts}


def _at(length: int, name: str) -> Answer:
    return {"length": length, "moments": name}


def _result(result: Identification) -> Answer:
    return {
        "verdict": result.verdict,
        "meaning": result.meaning(),
        "observed": result.observed,
        "rank": result.rank,
        "parameters": result.parameters,
        "moments": result.moments,
        "deficiency": result.deficiency,
        "error": result.error,
        "undetermined": list(result.undetermined),
        "gauges": [
            {"domain": gauge.domain, "dimension": gauge.dimension} for gauge in result.gauges
        ],
        "deficiency_of_all": result.deficiency_of_all,
        "lines": result.lines(),
        "directions": [
            [_move(name, array) for name, array in direction.moves.items()]
            for direction in result.directions[:MAX_DIRECTIONS]
        ],
        "more": max(len(result.directions) - MAX_DIRECTIONS, 0),
    }


def _move(name: str, array: NDArray[np.float64]) -> Json:
    """How a direction changes a factor: rows of its last axis, or the entries that change most."""
    if array.size <= MAX_ENTRIES:
        rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
        changes = [[_rounded(value) for value in row] for row in rows.tolist()]
        return {"factor": name, "shape": list(array.shape), "rows": changes, "entries": []}
    places = abs(array).reshape(-1).argsort()[::-1][:40].tolist()
    entries = [
        [_index(place, array.shape), _rounded(float(array.reshape(-1)[place]))] for place in places
    ]
    return {"factor": name, "shape": list(array.shape), "rows": [], "entries": entries}


def _index(place: int, shape: tuple[int, ...]) -> list[int]:
    index = []
    for size in reversed(shape):
        place, inner = divmod(place, size)
        index.append(inner)
    return index[::-1]


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
