"""The places of single weights in a text, for messages about values."""

from __future__ import annotations

from collections.abc import Iterable

from fgg.compiler.syntax import tree as syntax
from fgg.grammar.spans import Span


class ValueSpans:
    """Finds where in the text an entry of a factor's value stands."""

    def __init__(self, statements: Iterable[syntax.Statement]) -> None:
        self._values = {
            s.name.text: s.value
            for s in statements
            if isinstance(s, syntax.FactorDecl) and s.value is not None
        }

    def locate(self, factor: str, position: tuple[int, ...]) -> Span | None:
        """The span of an entry, as deep as the text's lists go; None if there is no value."""
        node = self._values.get(factor)
        if node is None:
            return None
        for index in position:
            if isinstance(node, syntax.NumberRow):
                return node.place(index) or node.span
            if not isinstance(node, syntax.ListLiteral) or index >= len(node.items):
                break
            node = node.items[index]
        return node.span
