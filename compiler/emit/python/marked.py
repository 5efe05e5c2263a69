"""The same Python module with a mark in place of each comment: which rule comes next.

Whoever runs it with a batch that has a method `mark` learns which rule every operation belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator

from fgg.compiler.emit.python.module import About, Module
from fgg.compiler.emit.readable import quoted
from fgg.plan import Plan
from fgg.plan.kernel import Block, Kernel


def emit_marked(plan: Plan) -> str:
    """The program of a plan as a Python module that says which rule it carries out."""
    return _Marked(plan, best=False).linked(standalone=False, about=About()).text


class _Marked(Module):
    """Writes a module with marks."""

    def comment(self, block: Block, depth: int) -> Iterator[str]:
        """The mark of a rule."""
        yield f"batch.mark({quoted(block.rule.name)})"

    def kernel(self, kernel: Kernel) -> Iterator[str]:
        """The statements of a pass; what follows them belongs to no rule."""
        yield from super().kernel(kernel)
        yield 'batch.mark("")'
