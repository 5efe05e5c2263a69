"""What all parts of a program's text share: identifiers, names of lengths, charts' origins."""

from __future__ import annotations

from collections.abc import Iterator

from fgg.compiler.emit.python.names import Names, bound_code, length_names, single
from fgg.grammar.index import Expr
from fgg.plan import HIGH, LOW, Plan

TAKEN = """
    batch leaves scales values charts level gradient torch out e found terms total log_total take
    times flat dot dot_ cells_at alive hide hidden best marked marks einsum
    give put put_more ratio ratios weights inputs missing live depth
""".split()
"""Names that emitted functions use themselves."""


class Context:
    """Identifiers of a plan's tensors and expressions."""

    def __init__(self, plan: Plan, *, best: bool = False) -> None:
        self.plan = plan
        self.best = best
        self.einsum = "einsum" if best else "torch.einsum"
        self.names = Names()
        self.names.taken |= set(TAKEN)
        self.scope = length_names(plan.lengths, self.names)
        self.origins: dict[str, list[Expr]] = {}
        for chart in plan.charts:
            found = []
            for number, axis in enumerate(chart.axes):
                low = single(axis.low)
                if low is None:
                    # A least index that is the greatest of several forms gets a name.
                    name = f"@{chart.family} {number}"
                    self.scope[name] = self.names.get("o_", f"{chart.family}_{number}")
                    low = Expr.of(name)
                found.append(low)
            self.origins[chart.family] = found

    def length_lines(self) -> Iterator[str]:
        """The lengths of the batch, by name."""
        for length in self.plan.lengths:
            low, high = self.scope[length + LOW], self.scope[length + HIGH]
            yield f"{low}, {high} = batch.low[{length!r}], batch.high[{length!r}]"
            yield f"{self.scope[length]} = batch.item[{length!r}]"

    def origin_lines(self) -> Iterator[str]:
        """The least indices of charts that are the greatest of several forms."""
        for chart in self.plan.charts:
            for axis, low in zip(chart.axes, self.origins[chart.family], strict=True):
                if single(axis.low) is None:
                    name = self.scope[str(low).strip("`")]
                    yield f"{name} = {bound_code(axis.low, self.scope, low=True)}"
