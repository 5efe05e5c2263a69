"""The tile that a kernel computes on, and what the printers of all kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from fgg.compiler.emit.python.expressions import Scope
from fgg.compiler.emit.python.names import Names
from fgg.compiler.emit.triton.launches import Facts
from fgg.plan import Plan


@dataclass
class Host:
    """What the printers of all launches share: host code by parameter, and lines before a pass."""

    plan: Plan
    scope: Scope
    names: Names
    chart: dict[str, str]
    leaf: dict[str, str]
    level: str = ""
    # Tensors as kernels take them: code by name, made once a pass.
    views: dict[str, str] = field(default_factory=dict)
    uses_range: bool = False


class Frame:
    """The tile that values are computed on: an axis of points, then an axis for each node."""

    def __init__(
        self,
        facts: Facts,
        rows: int,
        groups: Sequence[tuple[str, Sequence[str], int]],
        *,
        shaped: bool = True,
    ) -> None:
        self.rows = rows
        self.rank = len(groups)
        self.index: dict[str, str] = {}
        self.inside: dict[str, str] = {}
        self.widths: dict[str, int] = {}
        sizes = facts.block.sizes
        # The mask of all nodes, if it has a name.
        self.here: tuple[frozenset[str], str] | None = None
        for axis, (name, nodes, width) in enumerate(groups):
            shape = ", ".join(["None", *(":" if i == axis else "None" for i in range(self.rank))])
            whole = prod(sizes[node] for node in nodes)
            place = f"{name}[{shape}]" if shaped else name
            after = whole
            for node in nodes:
                after //= sizes[node]
                code = place if after == 1 else f"({place} // {after})"
                self.index[node] = code if len(nodes) == 1 else f"({code} % {sizes[node]})"
                self.inside[node] = f"({place} < {whole})" if width != whole else ""
                self.widths[node] = width if len(nodes) == 1 else 0

    @property
    def spread(self) -> str:
        """What makes a number for each point one for the whole tile."""
        return f"[:{', None' * self.rank}]" if self.rank else ""


@dataclass(frozen=True)
class Value:
    """The code of a value, and whether it has the axes of nodes."""

    code: str
    full: bool
    nodes: frozenset[str] = frozenset()
