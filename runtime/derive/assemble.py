"""Derivations put together from choices, without recursion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fgg.diagnostics import refuse
from fgg.runtime.derive.derivation import Derivation, Step
from fgg.runtime.derive.ground_choices import Cell, Expander
from fgg.runtime.reference.system import Term

MAX_STEPS = 1_000_000


@dataclass
class _Open:
    cell: Cell
    parent: int | None


def build(
    expander: Expander,
    start: Cell,
    choose: Callable[[Cell], int],
    *,
    max_steps: int = MAX_STEPS,
) -> Derivation:
    """The derivation that begins at a cell and goes on as `choose` says.

    `choose` gives, for a cell, a position among its choices. Raises GrammarError if there are
    more than `max_steps` steps.
    """
    agenda = [_Open(start, None)]
    parts: list[tuple[Term, dict[int, int], int | None]] = []
    children: list[list[int]] = []
    weight = 0.0
    while agenda:
        item = agenda.pop()
        number = len(parts)
        if number >= max_steps:
            refuse(
                "F422",
                f"a derivation has more than {max_steps:,} steps",
                "raise the limit, or change the weights so that derivations end",
            )
        if item.parent is not None:
            children[item.parent].append(number)
        choices = expander.choices(item.cell)
        term, values = choices.decode(choose(item.cell), item.cell)
        weight += expander.edge_weight(term, values)
        parts.append((term, values, item.parent))
        children.append([])
        cells = expander.children(term, values)
        agenda += [_Open(cell, number) for cell in reversed(cells)]
    return finish(expander, parts, children, weight)


def finish(
    expander: Expander,
    parts: list[tuple[Term, dict[int, int], int | None]],
    children: list[list[int]],
    weight: float,
) -> Derivation:
    """The derivation of the given steps."""
    steps = tuple(
        Step(
            term.rule,
            {term.rule.rhs.nodes[letter].name: value for letter, value in values.items()},
            tuple(below),
            parent,
        )
        for (term, values, parent), below in zip(parts, children, strict=True)
    )
    return Derivation(expander.solution.grammar, steps, weight)
