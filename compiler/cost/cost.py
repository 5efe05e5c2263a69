"""The cost of a plan: polynomials in sizes and lengths, multiply-adds, bytes.

Multiply-adds are those of the inside pass, for one batch; the outside pass needs at most twice as
many. Polynomials are for one item. Bytes are those of charts, of their adjoints, of tables and
their gradients, and of the largest intermediate result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from fgg.compiler.cost.point_counts import ZERO, Boxes, CostPolynomial, Order, axis_extent, product
from fgg.compiler.cost.step_costs import StepProducts, loop_names, step_products
from fgg.compiler.plan.text import plan_lines
from fgg.grammar import Enumerated, Factor, FromFile, Grammar, InputFactor, Sized, Union
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.printer import print_rule
from fgg.inputs.clamps import path_end
from fgg.plan import Contract, Cut, Gather, Indicator, OneHot, Plan, PlanStage, Potential, Step
from fgg.plan.description import ContractionCost, PlanDescription
from fgg.plan.sizes import (
    adjoint_bytes,
    chart_bytes,
    environment,
    extents,
    in_units,
    short,
    table_bytes,
)


@dataclass(frozen=True, kw_only=True)
class CostItem:
    """The cost of one contraction: a step of a stage, or a preparation.

    `kind`: "weights" (once for a set of weights), "inputs" (once for a batch) or "step".
    """

    kind: str
    name: str
    text: str
    order: CostPolynomial
    multiply_adds: int
    intermediate: int = 0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a plan for given lengths and a batch."""

    plan: Plan
    lengths: Mapping[str, int]
    batch: int
    width: int
    items: tuple[CostItem, ...]
    parameter_bytes: int
    chart_bytes: int
    adjoint_bytes: int
    table_bytes: int

    @cached_property
    def order(self) -> CostPolynomial:
        """The dominant terms of the whole."""
        total = ZERO
        for item in self.items:
            total = total | item.order
        return total.dominant()

    @property
    def multiply_adds(self) -> int:
        """The multiply-adds of the inside pass over a batch."""
        return sum(item.multiply_adds for item in self.items)

    @property
    def intermediate_bytes(self) -> int:
        """The bytes of the largest intermediate result of a level."""
        return max((item.intermediate for item in self.items), default=0)

    @property
    def peak_bytes(self) -> int:
        """An estimate of the memory of inside and outside together."""
        charts = self.chart_bytes + self.adjoint_bytes
        return charts + 2 * self.table_bytes + self.intermediate_bytes

    def names(self) -> tuple[str, ...]:
        """Lengths, in the order of the inputs that have them, then sizes as they are declared."""
        grammar = self.plan.grammar
        shapes = [name for item in grammar.observed for e in item.shape for name in e.names()]
        names = [name for name in shapes if name in self.plan.lengths]
        names += [*self.plan.lengths, *(size.name for size in grammar.sizes)]
        return tuple(dict.fromkeys(names))

    def text(self, order: CostPolynomial) -> str:
        """A polynomial with this grammar's names."""
        return order.text(self.names()) or "1"

    def as_json(self) -> dict[str, object]:
        """The report as plain data."""
        used = {name for item in self.items for powers in item.order.terms for name, _ in powers}
        sizes = size_values(self.plan.grammar)
        return {
            "order": f"O({self.text(self.order)})",
            "at": {
                "lengths": dict(self.lengths),
                "sizes": {name: sizes[name] for name in sizes if name in used},
                "batch": self.batch,
                "dtype": f"float{8 * self.width}",
            },
            "multiply_adds": self.multiply_adds,
            "bytes": {
                "parameters": self.parameter_bytes,
                "charts": self.chart_bytes,
                "adjoints": self.adjoint_bytes,
                "tables": 2 * self.table_bytes,
                "intermediate": self.intermediate_bytes,
                "peak": self.peak_bytes,
            },
            "items": [
                {
                    "kind": item.kind,
                    "name": item.name,
                    "text": item.text,
                    "order": self.text(item.order),
                    "multiply_adds": item.multiply_adds,
                    "intermediate_bytes": item.intermediate,
                }
                for item in self.items
            ],
        }


def cost(plan: Plan, lengths: Mapping[str, int], *, batch: int = 1, width: int = 4) -> Cost:
    """The cost of a plan for items of the given lengths; `width` is the bytes of a number."""
    values = environment({name: [lengths[name]] for name in plan.lengths})
    shapes = {
        name: prod(domain_size(plan.grammar, d) for d in plan.grammar.factor[name].domains)
        for name in plan.parameters
    }
    counter = _Counter(plan, values, batch, width)
    return Cost(
        plan=plan,
        lengths={name: lengths[name] for name in plan.lengths},
        batch=batch,
        width=width,
        items=(*counter.preparations(), *counter.steps()),
        parameter_bytes=sum(shapes.values()) * width,
        chart_bytes=chart_bytes(plan, values, batch, width),
        adjoint_bytes=adjoint_bytes(plan, values, batch, width),
        table_bytes=table_bytes(plan, values, batch, width),
    )


def size_order(grammar: Grammar, name: str) -> CostPolynomial:
    """The number of values of a domain, as a polynomial in named sizes where possible."""
    shape = grammar.domain[name].shape
    if isinstance(shape, Sized):
        return CostPolynomial.of(shape.size)
    if isinstance(shape, Enumerated | FromFile):
        return CostPolynomial.number(max(len(shape.values), 1))
    parts = [size_order(grammar, part) for part in shape.parts]
    if not isinstance(shape, Union):
        return product(parts)
    total = ZERO
    for part in parts:
        total = total | part
    return total


class _Counter:
    """Counts for one plan, lengths and batch."""

    def __init__(self, plan: Plan, values: Mapping[str, int], batch: int, width: int) -> None:
        self.plan = plan
        self.grammar = plan.grammar
        self.values = values
        self.batch = batch
        self.width = width
        # The axes of every prepared tensor: how many values, and in which names.
        self.sizes: dict[str, tuple[tuple[int, CostPolynomial], ...]] = {}
        factors: tuple[Factor | InputFactor, ...] = plan.grammar.factors
        for factor in (*factors, *plan.grammar.input_factors):
            self.sizes[factor.name] = tuple(self.domain(d) for d in factor.domains)

    def domain(self, name: str) -> tuple[int, CostPolynomial]:
        return domain_size(self.grammar, name), size_order(self.grammar, name)

    # preparations

    def preparations(self) -> Iterator[CostItem]:
        for step in self.plan.preparations:
            if isinstance(step, Contract):
                yield self.contract(step)
            elif isinstance(step, Gather):
                gone = {token.axis for token in step.tokens}
                axes = self.sizes[step.source]
                self.sizes[step.name] = tuple(s for i, s in enumerate(axes) if i not in gone)
            elif isinstance(step, OneHot):
                whole = self.grammar.input[step.input].domain
                domain = path_end(self.grammar, whole, step.path)
                self.sizes[step.name] = (self.domain(domain),)
            elif isinstance(step, Potential):
                self.sizes[step.name] = self.sizes[step.factor]
            else:
                assert isinstance(step, Cut | Indicator)

    def contract(self, step: Contract) -> CostItem:
        axes: dict[str, tuple[int, CostPolynomial]] = {}
        for name, names in step.operands:
            marks = [axis for axis in names if axis.startswith("#")]
            if name in self.plan.table:
                table = self.plan.table[name]
                lengths = extents(table, self.values)
                for mark, length, loop in zip(marks, lengths, table.axes, strict=True):
                    axes[mark] = (length, axis_extent(self.plan, loop))
            states = [axis for axis in names if not axis.startswith("#")]
            axes.update(zip(states, self.sizes[name], strict=True))
        self.sizes[step.name] = tuple(axes[a] for a in step.axes if not a.startswith("#"))
        items = self.batch if step.tables else 1
        return CostItem(
            kind="inputs" if step.tables else "weights",
            name=step.name,
            text=" ".join(name for name, _ in step.operands),
            order=product(order for _, order in axes.values()),
            multiply_adds=prod(size for size, _ in axes.values()) * items,
            intermediate=prod(axes[a][0] for a in step.axes) * items * self.width,
        )

    # steps

    def steps(self) -> Iterator[CostItem]:
        for stage in self.plan.stages:
            for step in stage.steps:
                yield self.step(stage, step)

    def step(self, stage: PlanStage, step: Step) -> CostItem:
        work = step_products(self.plan, step)
        domains = {node.name: self.domain(node.domain) for node in step.rule.rhs.nodes}
        boxes = Boxes.of_step(stage, step, self.values)
        count = sum(boxes.sum(w.loops) * prod(domains[a][0] for a in w.axes) for w in work.products)
        order = Order(self.plan, stage, step)
        terms = ZERO
        for w in work.products:
            terms = terms | order.points(w.loops) * product(domains[a][1] for a in w.axes)
        return CostItem(
            kind="step",
            name=step.rule.name,
            text=print_rule(self.grammar, step.rule),
            order=terms.dominant(),
            multiply_adds=count * self.batch,
            intermediate=self.largest(step, work, boxes, domains) * self.batch * self.width,
        )

    def largest(
        self,
        step: Step,
        work: StepProducts,
        boxes: Boxes,
        domains: Mapping[str, tuple[int, CostPolynomial]],
    ) -> int:
        """How many numbers the largest result or gathered operand of a step has on one level."""
        sizes = [(w.kept_loops, w.kept_axes) for w in work.products] + list(work.weights)
        numbers = [boxes.largest(x) * prod(domains[a][0] for a in axes) for x, axes in sizes]
        for operand in step.operands:
            if operand.kind != "parameter" and not operand.view:
                loops = boxes.largest(loop_names(step, operand))
                numbers.append(loops * prod(domains[a][0] for a in operand.axes))
        return max(numbers)


KINDS = {
    "weights": "once for a set of weights",
    "inputs": "once for a batch",
    "step": "inside",
}


def cost_lines(cost: Cost) -> list[str]:
    """The report as lines: the order of the whole, a table of its items, and the memory."""
    lines = [f"{cost.plan.grammar.name}: O({cost.text(cost.order)})", *_given(cost)]
    for kind, title in KINDS.items():
        items = [item for item in cost.items if item.kind == kind]
        if items:
            lines += ["", f"{title}:", *_table(cost, items)]
    lines += [
        "",
        f"multiply-adds  {short(cost.multiply_adds)}  (the outside pass: at most twice as many)",
        f"charts         {in_units(cost.chart_bytes)}",
        f"adjoints       {in_units(cost.adjoint_bytes)}",
        f"tables         {in_units(2 * cost.table_bytes)}  (with their gradients)",
        f"intermediate   {in_units(cost.intermediate_bytes)}  (the largest of a level)",
        f"peak memory    {in_units(cost.peak_bytes)}, and {in_units(cost.parameter_bytes)} "
        "of parameters",
    ]
    return lines


def description(cost: Cost) -> PlanDescription:
    """The report for tables and pictures, with the listing of the plan."""
    return PlanDescription(
        order=f"O({cost.text(cost.order)})",
        given=next(_given(cost)).strip(),
        contractions=tuple(
            ContractionCost(
                when=KINDS[item.kind],
                name=item.name,
                order=cost.text(item.order),
                multiply_adds=item.multiply_adds,
            )
            for item in sorted(cost.items, key=lambda item: list(KINDS).index(item.kind))
        ),
        memory=f"peak memory {in_units(cost.peak_bytes)},"
        f" and {in_units(cost.parameter_bytes)} of parameters",
        listing="\n".join(plan_lines(cost.plan)),
    )


def _given(cost: Cost) -> Iterator[str]:
    """The line that says for which lengths, sizes, batch and type the numbers hold."""
    used = {name for item in cost.items for powers in item.order.terms for name, _ in powers}
    sizes = size_values(cost.plan.grammar)
    values = {**cost.lengths, **{name: sizes[name] for name in sizes if name in used}}
    ordered = [f"{name} = {values[name]}" for name in cost.names() if name in values]
    yield f"  at {', '.join([*ordered, f'batch {cost.batch}', f'float{8 * cost.width}'])}"


def _table(cost: Cost, items: Sequence[CostItem]) -> list[str]:
    rows = [
        (item.name, cost.text(item.order), short(item.multiply_adds), _share(cost, item))
        for item in items
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"  {name:{widths[0]}}  {order:{widths[1]}}  {count:>{widths[2]}}  {share:>{widths[3]}}"
        for name, order, count, share in rows
    ]


def _share(cost: Cost, item: CostItem) -> str:
    return f"{100 * item.multiply_adds / max(cost.multiply_adds, 1):.1f}%"
