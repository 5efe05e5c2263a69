"""When log-potentials count: the conditions of an input factor that its table does not imply."""

from __future__ import annotations

from collections.abc import Iterator

from fgg.compiler.plan.affine import batch_rows, box_rows, row_of, uniform
from fgg.grammar.domains import size_values
from fgg.grammar.index import Expr
from fgg.grammar.linear import implies
from fgg.plan import Plan, Potential


def tests_of(plan: Plan, step: Potential) -> Iterator[tuple[bool, Expr]]:
    """Forms that are not negative where a condition holds, and whether only lengths matter.

    Where all items of a batch have the same lengths, the second kind always holds.
    """
    factor, table = plan.grammar.input_factor[step.factor], plan.table[step.name]
    sizes = dict(size_values(plan.grammar))
    box = [r for axis in table.axes for r in box_rows(axis)] + batch_rows(plan.lengths)
    for condition in factor.conditions:
        for expr in condition.inequalities():
            form = expr.substitute(sizes)
            if any(True for _ in form.lookups()) or implies(box, row_of(form)):
                continue
            yield implies(uniform(box, plan.lengths), row_of(form)), form
