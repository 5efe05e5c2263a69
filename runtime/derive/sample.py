"""Exact draws of derivations and assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.progress import steps
from fgg.runtime.derive.assemble import build
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.ground_choices import Cell, Expander, start_cells
from fgg.runtime.derive.rejoin import join_parts, small_fragments
from fgg.runtime.program.bind import bind_with_logs
from fgg.runtime.reference.solve import solve


def sample(
    grammar: Grammar,
    number: int = 1,
    *,
    weights: Mapping[str, Any] | None = None,
    seed: int | None = None,
    generator: np.random.Generator | None = None,
    max_steps: int = 100_000,
) -> list[Derivation]:
    """Independent draws of derivations with assignments, with probability weight / Z.

    From a ground grammar with inputs these are draws from the posterior. `seed` is for factors
    without weights, `generator` for the draws. Raises GrammarError if there is nothing to draw
    from, or a draw has more than `max_steps` steps.
    """
    small = small_fragments(grammar)
    solution = solve(small.grammar, "log", weights=bind_with_logs(grammar, weights, seed=seed))
    expander = Expander(solution)
    random = generator if generator is not None else np.random.default_rng(seed)
    cells = start_cells(solution)
    values = np.array([expander.inside(cell) for cell in cells])
    if np.isposinf(values).any() or not np.isfinite(values).any():
        reason = (
            "the sum over derivations diverges" if np.isposinf(values).any() else "the sum is 0"
        )
        refuse("F424", f"nothing can be drawn: {reason}")
    cumulative: dict[Cell, NDArray[np.float64]] = {}

    def choose(cell: Cell) -> int:
        if cell not in cumulative:
            scores = expander.choices(cell).scores
            cumulative[cell] = np.cumsum(np.exp(scores - scores.max()))
        sums = cumulative[cell]
        place = int(np.searchsorted(sums, random.random() * sums[-1], side="right"))
        return min(place, len(sums) - 1)

    start = np.exp(values - values.max())
    found = []
    for _ in steps(range(number), "draw"):
        first = cells[int(random.choice(len(cells), p=start / start.sum()))]
        drawn = build(expander, first, choose, max_steps=max_steps)
        found.append(join_parts(drawn, small, grammar))
    return found
