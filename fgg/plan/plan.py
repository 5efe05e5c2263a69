"""Plans: the computation of a compiled program, as data.

A plan says which tensors are prepared from parameters and inputs, which charts exist, and which
contractions fill them, level by level. The compiler makes plans, the emitter writes them as
Python, and the runtime can also carry them out in any semiring.

Index expressions in a plan speak of loop variables, of `LEVEL`, of an item's own lengths (`n`)
and of the least and the greatest length in a batch (`n.lo`, `n.hi`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from fgg.grammar import Grammar, Rule
from fgg.grammar.index import Expr
from fgg.grammar.slices import Narrow, Unfold

if TYPE_CHECKING:
    from fgg.plan.kernel import Kernel

LEVEL = "@level"
LOW = ".lo"
HIGH = ".hi"


@dataclass(frozen=True)
class Bound:
    """The greatest of ceil(e / d), or the least of floor(e / d), over its terms (e, d)."""

    terms: tuple[tuple[Expr, int], ...]


@dataclass(frozen=True)
class Loop:
    """A variable and the box it runs over, both ends included."""

    name: str
    low: Bound
    high: Bound


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The tensor of a family: `[*axes, batch, *states]`, and a scale for each cell.

    `stored` are the positions of those family indices that are axes; the others follow from them
    (`followers`). A chart may use another chart's scales (`scale_of`). A chart without states is
    its scale. A `half` chart has two axes and no cells below the diagonal of its storage.
    """

    family: str
    stored: tuple[int, ...]
    axes: tuple[Loop, ...]
    states: tuple[int, ...]
    scale_of: str
    half: bool = False
    followers: Mapping[str, Expr] = field(default_factory=dict)

    @property
    def is_scalar(self) -> bool:
        """Whether a cell is one number."""
        return not self.states


@dataclass(frozen=True, kw_only=True)
class Operand:
    """An operand of a contraction: the cells of a chart or table, or a parameter.

    `index` has an expression for every stored axis; `axes` names the node of each state axis.
    A *view* is read in place; what is not is gathered, with zero outside the chart. `distinct`:
    different values of the loop variables in the index are different cells.
    """

    kind: str  # "chart", "table" or "parameter"
    name: str
    index: tuple[Expr, ...] = ()
    axes: tuple[str, ...] = ()
    view: bool = True
    distinct: bool = True


@dataclass(frozen=True)
class Mask:
    """A condition `expr >= 0` that the box does not imply; `mixed`: only if lengths differ."""

    expr: Expr
    mixed: bool


@dataclass(frozen=True)
class Pair:
    """A contraction of two earlier values (operands first, then results) to the axes kept."""

    left: int
    right: int
    keep: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A rule on one level: its operands, its box, and the cells that the result goes to.

    Steps of the same `group` fill the same cells: their results are added, then put. `mode` says
    how that meets what the chart has: "write" (no other group fills these cells), "mixed" (others
    do if lengths differ) or "add". A `linear` step maps each cell of one chart by parameters and
    keeps its scale, which is the head's too or is copied. `variables` are the rule's own index
    variables in terms of the loops, the level and an item's lengths. `free` is the number of values
    that nodes have which nothing touches: each term counts that often. `overlaps`: some points, at
    which the rule is zero, read cells that others write.
    """

    rule: Rule
    head: str
    head_index: tuple[Expr, ...]
    head_axes: tuple[str, ...]
    guards: tuple[Expr, ...]
    positions: tuple[Loop, ...]
    splits: tuple[Loop, ...]
    operands: tuple[Operand, ...]
    path: tuple[Pair, ...]
    masks: tuple[Mask, ...]
    mode: str
    group: int
    linear: bool = False
    variables: Mapping[str, Expr] = field(default_factory=dict)
    free: int = 1
    overlaps: bool = False


@dataclass(frozen=True, kw_only=True)
class PlanStage:
    """Steps that are carried out for each level from `first` to `last`; or once, without levels."""

    families: tuple[str, ...]
    level: Mapping[str, Expr]
    first: tuple[Bound, ...]
    last: tuple[Bound, ...]
    steps: tuple[Step, ...]

    @property
    def has_levels(self) -> bool:
        """Whether the stage runs level by level."""
        return bool(self.level)


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Prepare a tensor by contracting others: parameters only, or tables too.

    Operands are (name, axes); the axes of a table begin with one for each index, `#0`, `#1`, ….
    """

    name: str
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    axes: tuple[str, ...]
    path: tuple[Pair, ...]
    tables: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Prepare a derived factor: a part of another one, by steps of `fgg.grammar.slices`."""

    name: str
    source: str
    steps: tuple[Narrow | Unfold, ...]


@dataclass(frozen=True, kw_only=True)
class Indicator:
    """Prepare a factor that is a function: 1 for the block of each value, of `blocks` blocks."""

    name: str
    blocks: int


@dataclass(frozen=True, kw_only=True)
class TokenAxis:
    """The entry of an axis that a table reads: that of an input's token, or what a path leads to.

    Tokens of one `group` have their indices in common: at an index of the table, this one is read
    `shift` positions further.
    """

    axis: int
    input: str
    path: tuple[str, ...]
    group: int
    shift: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Gather:
    """Prepare a table: a parameter's entries at the tokens of some inputs.

    The indices of the table are those of the groups of tokens, in order.
    """

    name: str
    source: str
    tokens: tuple[TokenAxis, ...]


@dataclass(frozen=True, kw_only=True)
class OneHot:
    """Prepare a table: the evidence of an input as a weight for each value."""

    name: str
    input: str
    size: int
    path: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Potential:
    """Prepare a table from the log-potentials of an input factor."""

    name: str
    factor: str
    source: str
    steps: tuple[Narrow | Unfold, ...] = ()


Preparation = Contract | Cut | Indicator | Gather | OneHot | Potential


@dataclass(frozen=True, kw_only=True)
class PositionTable:
    """A prepared tensor with indices: `[*indices, batch, *states]`, in storage as `axes` say."""

    name: str
    axes: tuple[Loop, ...]
    states: tuple[int, ...]
    scaled: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """A whole program: its preparations, its charts and tables, and its stages of steps."""

    grammar: Grammar
    lengths: tuple[str, ...]
    parameters: tuple[str, ...]
    preparations: tuple[Preparation, ...]
    tables: tuple[PositionTable, ...]
    charts: tuple[Chart, ...]
    stages: tuple[PlanStage, ...]
    start: Operand
    # The inputs of which no token may be missing.
    known: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        steps = sum(len(stage.steps) for stage in self.stages)
        return f"Plan({self.grammar.name!r}, {len(self.charts)} charts, {steps} steps)"

    @cached_property
    def chart(self) -> Mapping[str, Chart]:
        """The charts by family."""
        return {chart.family: chart for chart in self.charts}

    @cached_property
    def table(self) -> Mapping[str, PositionTable]:
        """The tables by name."""
        return {table.name: table for table in self.tables}

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all stages."""
        return tuple(step for stage in self.stages for step in stage.steps)

    @cached_property
    def leaves(self) -> Mapping[str, str]:
        """The names and kinds of all operands that are not charts, in order."""
        read = (operand for step in self.steps for operand in step.operands)
        return {o.name: o.kind for o in read if o.kind != "chart"}

    @cached_property
    def constants(self) -> frozenset[str]:
        """The tables that depend on no parameter and no potential: they have no gradient."""
        return frozenset(p.name for p in self.preparations if isinstance(p, OneHot))

    def is_scale(self, operand: Operand) -> bool:
        """Whether an operand is its scale alone."""
        if operand.kind == "chart":
            return self.chart[operand.name].is_scalar
        if operand.kind == "table":
            table = self.table[operand.name]
            return table.scaled and not table.states
        return False

    def depth(self, step: Step) -> int:
        """How many charts with states a step multiplies."""
        charts = (o for o in step.operands if o.kind == "chart")
        return sum(not self.is_scale(operand) for operand in charts)

    @cached_property
    def products(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """The names of tensors that are multiplied with each other, in steps and in preparations.

        With each comes the greatest number of charts with states in a product that it is added
        to, before the sum is divided by its greatest value; -1 if it is not.
        """
        depths: dict[tuple[str, int], int] = {}
        for step in self.steps:
            key = (step.head, step.group)
            depths[key] = max(depths.get(key, 0), self.depth(step))
        products = set()
        for step in self.steps:
            names = tuple(sorted(o.name for o in step.operands if not self.is_scale(o)))
            divided = not step.linear and not self.chart[step.head].is_scalar
            products.add((names, depths[step.head, step.group] if divided else -1))
        products |= {*self.prepared_products}
        return tuple(sorted((names, depth) for names, depth in products if names))

    @cached_property
    def prepared_products(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """Those of `products` that are multiplied before the charts."""
        contracts = (item for item in self.preparations if isinstance(item, Contract))
        return tuple((tuple(sorted(name for name, _ in item.operands)), -1) for item in contracts)

    @cached_property
    def greatest_depth(self) -> int:
        """How many charts with states are multiplied at most."""
        return max(map(self.depth, self.steps), default=0)

    @cached_property
    def item_axes(self) -> Mapping[str, int]:
        """The axis of the items, of the charts and tables that are multiplied."""
        axes = {chart.family: len(chart.axes) for chart in self.charts if not chart.is_scalar}
        axes |= {table.name: len(table.axes) for table in self.tables}
        used = {name for names, _ in self.products for name in names}
        return {name: axis for name, axis in axes.items() if name in used}

    @cached_property
    def plain_kernel(self) -> Kernel:
        """The kernel of the inside pass in the plain form: what interpreters carry out."""
        from fgg.plan.kernelise import kernelise

        return kernelise(self, scaled=False)

    @cached_property
    def plain_outside(self) -> Kernel:
        """The kernel of the outside pass in the plain form."""
        from fgg.plan.adjoint import adjoint

        return adjoint(self.plain_kernel)

    def shares_scale(self, step: Step) -> bool:
        """Whether the head of a step shares the scales of the chart that the step maps."""
        return step.linear and self.chart[step.head].scale_of != step.head

    def has_scale(self, operand: Operand) -> bool:
        """Whether an operand's cells have scales."""
        if operand.kind == "table":
            return self.table[operand.name].scaled
        return operand.kind == "chart"
