"""Pins: external nodes of a family whose value the input fixes, at a place that the indices say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fgg.grammar import Attachment, Clamp
from fgg.grammar.index import Expr


@dataclass(frozen=True)
class Pin:
    """Where the value of an external node is known from: `w[i].clusters` of a family `X[i]`.

    `indices` are in the names of the family's indices, of lengths and of sizes.
    """

    input: str
    path: tuple[str, ...]
    indices: tuple[Expr, ...]

    def clamp(self, node: str, family: Sequence[str], at: Sequence[Expr]) -> Clamp:
        """The clamp of a node of the family's cell at some indices."""
        values: Mapping[str, int | Expr] = dict(zip(family, at, strict=True))
        return Clamp(
            attachment=Attachment(node=node),
            input=self.input,
            indices=tuple(index.substitute(values) for index in self.indices),
            path=self.path,
        )


Pins = Mapping[str, tuple[Pin | None, ...]]
"""For each family that has lost nodes, the pin of every node that it had; None for those left."""
