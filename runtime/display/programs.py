"""Programs as pictures and tables: what they cost, and their plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgg.draw.html import heading, preformatted, scrolled, table, text
from fgg.draw.picture import Picture
from fgg.draw.table import table_picture
from fgg.plan.description import PlanDescription

if TYPE_CHECKING:
    from fgg.runtime.program.program import CompiledProgram, Program


def draw(program: CompiledProgram) -> Picture:
    """The cost of a program: a row for each contraction, with its share of the whole as a bar."""
    described = program.described
    total = max(sum(item.multiply_adds for item in described.contractions), 1)
    rows = [
        (item.when, item.name, item.order, f"{item.multiply_adds:,}")
        for item in described.contractions
    ]
    return table_picture(
        f"{program.grammar.name} in {program.space} space: {described.order}",
        rows,
        titles=("when", "contraction", "order", "multiply-adds"),
        bars=[item.multiply_adds / total for item in described.contractions],
        notes=[described.given, described.memory],
    )


def html(program: Program) -> str:
    """The factors of a program with their shapes; of a compiled one also its cost and its plan."""
    from fgg.runtime.program.program import CompiledProgram

    parts = [heading(program.grammar.name)]
    if isinstance(program, CompiledProgram):
        parts.append(scrolled(draw(program).svg()))
    parts += [f"<p>{text(note.message)}</p>" for note in program.notes]
    shapes = [
        [name, ", ".join(map(str, program.shape(name))) or "a number"]
        for name in program.parameter_names
    ]
    parts.append(table(["factor", "shape"], shapes))
    if isinstance(program, CompiledProgram):
        parts.append(_plan(program.described))
    return "".join(parts)


def _plan(described: PlanDescription) -> str:
    return f"<details><summary>plan</summary>{preformatted(described.listing)}</details>"
