"""From a scheduled grammar to a plan: charts, tables, and a contraction for each rule and level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from fgg.compiler.plan.affine import bounds as loop_bounds
from fgg.compiler.plan.affine import (
    implicit_equalities,
    irredundant,
    moved,
    row_of,
    solve_equalities,
    uniform,
)
from fgg.compiler.plan.boxes import (
    PRIME,
    LoopBox,
    Unbounded,
    boxed,
    is_distinct,
    is_view,
    shape_of,
    shifts,
)
from fgg.compiler.plan.hoist import Preparer
from fgg.compiler.plan.rule_operands import rule_operands
from fgg.compiler.plan.schedule import Schedule, Stage, schedule
from fgg.compiler.plan.support import support, supported_rows
from fgg.compiler.plan.triangular import halves, partly_filled
from fgg.grammar import Edge, Grammar, Rule
from fgg.grammar.domains import domain_size, lengths, size_values
from fgg.grammar.index import Expr, Lookup
from fgg.grammar.linear import Row, TooManyRows, implies, is_feasible
from fgg.grammar.ranges import condition_rows, input_rows, length_rows, row
from fgg.plan import (
    LEVEL,
    Bound,
    Chart,
    Loop,
    Mask,
    Operand,
    Pair,
    Plan,
    PlanStage,
    Step,
)


class CannotCompile(Exception):
    """Why a grammar has no plan, and a rule to show; the reference engine can still solve it."""

    def __init__(self, reason: str, rule: Rule | None = None) -> None:
        self.rule = rule
        super().__init__(reason)


def plan(grammar: Grammar, *, length: int = 32, batch: int = 16, hoist: bool = False) -> Plan:
    """The plan of a grammar whose nodes are atomic. Raises CannotCompile.

    With `hoist`, products of parameters between rank nodes are made before anything else.
    """
    order = schedule(grammar)
    if order.conflicts:
        conflict = order.conflicts[0]
        rules = ", ".join(f"`{name}`" for name in conflict.rules)
        first = next((rule for rule in grammar.rules if rule.name in conflict.rules), None)
        raise CannotCompile(f"{conflict.reason} ({rules})", first)
    try:
        return _Lowering(grammar, order, length, batch, hoist).run()
    except (TooManyRows, Unbounded) as error:
        raise CannotCompile(f"the ranges of its indices are too involved ({error})") from None


class _Lowering:
    def __init__(
        self, grammar: Grammar, order: Schedule, length: int, batch: int, hoist: bool
    ) -> None:
        self.grammar = grammar
        self.schedule = order
        self.sizes = size_values(grammar)
        self.lengths = tuple(sorted(lengths(grammar)))
        self.support = support(grammar)
        self.length = length
        self.batch = batch
        self.hoist = hoist
        self.prepare = Preparer(grammar, self.lengths)
        self.charts: dict[str, Chart] = {}
        self.boxes: dict[str, list[tuple[Step, LoopBox]]] = {}

    def run(self) -> Plan:
        grammar = self.grammar
        for nonterminal in grammar.nonterminals:
            if nonterminal.name in self.support:
                self.charts[nonterminal.name] = self.new_chart(nonterminal.name)
        stages = tuple(
            stage for stage in (self.stage(s) for s in self.schedule.stages) if stage is not None
        )
        work = [pair for pairs in self.boxes.values() for pair in pairs]
        half = halves(self.charts, work) - {grammar.start.label}
        start = grammar.start
        index = self.cell_index(start.label, [with_numbers(i, self.sizes) for i in start.indices])
        # The start symbol is read wherever lengths say, whether or not a rule fills that cell.
        for name in partly_filled(self.charts, work) | ({start.label} & self.charts.keys()):
            self.charts[name] = replace(self.charts[name], scale_of=name)
        return Plan(
            grammar=grammar,
            lengths=self.lengths,
            parameters=self.prepare.parameters(),
            preparations=tuple(self.prepare.done.values()),
            tables=tuple(self.prepare.tables.values()),
            charts=tuple(replace(c, half=c.family in half) for c in self.charts.values()),
            stages=stages,
            start=Operand(kind="chart", name=start.label, index=index, view=False),
        )

    # charts

    def new_chart(self, name: str) -> Chart:
        family = self.grammar.nonterminal[name]
        rows = [row(c, self.sizes) for c in self.support[name].conditions]
        rows += length_rows(self.grammar)
        rows = irredundant(rows)
        values, _ = solve_equalities(implicit_equalities(rows), list(reversed(family.indices)))
        if name == self.grammar.start.label:
            values = {}  # every index is stored: the result is read wherever lengths say
        # An index that follows from lengths alone is an axis: it differs from item to item.
        known = set(self.lengths)
        stored = tuple(
            i
            for i, index in enumerate(family.indices)
            if index not in values or set(values[index].names()) & known
        )
        axes = []
        for i in stored:
            low, high = loop_bounds(rows, family.indices[i], self.lengths)
            if not low.terms or not high.terms:
                raise Unbounded(f"`{name}[{family.indices[i]}]`")
            axes.append(Loop(family.indices[i], low, high))
        states = tuple(domain_size(self.grammar, d) for d in family.domains)
        return Chart(
            family=name,
            stored=stored,
            axes=tuple(axes),
            states=states,
            scale_of=name,
            followers={
                index: values[index] for i, index in enumerate(family.indices) if i not in stored
            },
        )

    def cell_index(self, name: str, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The stored part of a reference's indices."""
        if name not in self.charts:
            return tuple(indices)
        return tuple(indices[i] for i in self.charts[name].stored)

    # stages

    def stage(self, stage: Stage) -> PlanStage | None:
        families = [name for name in stage.families if name in self.charts]
        if not families:
            return None
        steps: list[Step] = []
        for name in families:
            made = [self.step(rule, stage) for rule in self.grammar.rules_of.get(name, ())]
            ready = self.with_linear([step for step in made if step is not None])
            steps += named_apart(grouped(ready))
        first: list[Bound] = []
        last: list[Bound] = []
        level = {name: stage.level[name] for name in families} if stage.recursive else {}
        for name in level:
            target = Expr.of(LEVEL) - with_numbers(level[name], self.sizes)
            rows = [row(c, self.sizes) for c in self.support[name].conditions]
            rows += [row_of(target), row_of(-target), *length_rows(self.grammar)]
            low, high = loop_bounds(rows, LEVEL, self.lengths)
            if not low.terms or not high.terms:
                raise Unbounded(f"the level of `{name}`")
            first.append(low)
            last.append(high)
        return PlanStage(
            families=tuple(families),
            level=level,
            first=tuple(dict.fromkeys(first)),
            last=tuple(dict.fromkeys(last)),
            steps=tuple(steps),
        )

    # steps

    def step(self, rule: Rule, stage: Stage) -> Step | None:
        rows = supported_rows(self.grammar, rule, self.support, self.support)
        if rows is None or not is_feasible(rows):
            return None
        try:
            box, operands, path, variables = self.best_box(rule, rows, stage)
        except (TooManyRows, Unbounded):
            reason = f"the ranges of its indices are too involved (`{rule.name}`)"
            raise CannotCompile(reason, rule) from None
        chart = self.charts[rule.lhs]
        family = self.grammar.nonterminal[rule.lhs]
        head_index = tuple(box.values[family.indices[i]] for i in chart.stored)
        linear = self.is_linear(rule, box, operands, head_index)
        if linear and len(self.grammar.rules_of[rule.lhs]) == 1:
            twin = self.charts[next(o.name for o in operands if o.kind == "chart")]
            chart = replace(chart, axes=twin.axes, scale_of=twin.scale_of)
            self.charts[rule.lhs] = chart
        level = stage.level[rule.lhs] if stage.recursive else None
        group, mode = self.meeting(rule.lhs, head_index, box, level)
        step = Step(
            rule=rule,
            head=rule.lhs,
            head_index=head_index,
            head_axes=rule.rhs.externals,
            guards=box.guards,
            positions=box.positions,
            splits=box.splits,
            operands=tuple(operands),
            path=path,
            masks=box.masks,
            mode=mode,
            group=group,
            linear=linear,
            variables=variables,
            free=self.free_values(rule),
            overlaps=self.overlaps(rule.lhs, head_index, operands, box),
        )
        self.boxes.setdefault(rule.lhs, []).append((step, box))
        return step

    def with_linear(self, steps: list[Step]) -> list[Step]:
        """A family's steps; one stays linear only if no other step fills the same cells."""
        apart = all(step.mode == "write" for step in steps)
        groups = Counter(step.group for step in steps)
        return [
            replace(step, linear=step.linear and apart and groups[step.group] == 1)
            for step in steps
        ]

    def best_box(
        self, rule: Rule, rows: list[Row], stage: Stage
    ) -> tuple[LoopBox, list[Operand], tuple[Pair, ...], dict[str, Expr]]:
        family = self.grammar.nonterminal[rule.lhs]
        head = {
            name: with_numbers(expr, self.sizes)
            for name, expr in zip(family.indices, rule.indices, strict=True)
        }
        level = with_numbers(stage.level[rule.lhs], self.sizes) if stage.recursive else None
        variables = [n for n in rule_variables(rule) if n not in self.lengths]
        variables = [n for n in variables if n not in self.sizes]
        region = [row(c, self.sizes) for c in self.support[rule.lhs].conditions]
        shape_for = partial(shape_of, rows, region, head, level, variables, self.lengths)
        zeros = moved(self.zero_rows(rule), {name: Expr.of(name + "'") for name in variables})
        parts = rule_operands(self.grammar, rule)
        tree = parts.tree(self.length, self.batch, hoist=self.hoist) if parts.parts else None
        looked_up = {str(x): x for x in rule_lookups(rule)}
        best: (
            tuple[tuple[int, ...], LoopBox, list[Operand], tuple[Pair, ...], dict[str, Expr]] | None
        ) = None
        shapes = [shape_for(stepped=True)]
        if shapes[0].steps:
            shapes.append(shape_for(stepped=False))
        for shape, change in ((s, change) for s in shapes for change in shifts(s)):
            if best is not None and shape is not shapes[0]:
                break  # what is summed over costs more than what is a position
            # References are to cells in which lengths have been put in: so is what is zero there.
            nothing = moved(moved(zeros, shape.values), shape.lengths)
            box = boxed(shape, change, self.lengths, nothing)
            if not self.writes_in_place(rule.lhs, box):
                continue
            values = {name: box.values[name + "'"] for name in variables}
            known = {n: e.substitute(box.values) for n, e in shape.lengths.items()}

            def place(
                expr: Expr, values: dict[str, Expr] = values, known: dict[str, Expr] = known
            ) -> Expr:
                return with_numbers(expr, self.sizes).substitute(values).substitute(known)

            operands, path = self.prepare.operands(rule, parts, tree, place, self.charts)
            operands = [self.with_access(o, box) for o in operands]
            score = (
                box.loose + sum(not o.view for o in operands),
                sum(not mask.mixed for mask in box.masks),
                len(box.masks),
                sum(len(expr.terms) for expr in change.values()),
            )
            if best is None or score < best[0]:
                masks = tuple(
                    Mask(
                        mask.expr.substitute(
                            {name: place(Expr.of(x)) for name, x in looked_up.items()}
                        ),
                        mask.mixed,
                    )
                    for mask in box.masks
                )
                best = (score, replace(box, masks=masks), operands, path, values)
            if score[:3] == (0, 0, 0):
                break
        if best is None:
            raise Unbounded(f"`{rule.name}`")
        return best[1:]

    def writes_in_place(self, name: str, box: LoopBox) -> bool:
        """Whether all points of a box, masked ones too, are cells of the head's chart."""
        chart = self.charts[name]
        indices = self.grammar.nonterminal[name].indices
        head = tuple(box.values[indices[i]] for i in chart.stored)
        if not is_view(head, chart.axes, box.loops, box.system):
            return False
        # Each position is another cell.
        used = {name for expr in head for name in expr.names()}
        return used >= {p.name for p in box.positions} and is_distinct(head, box.positions)

    def with_access(self, operand: Operand, box: LoopBox) -> Operand:
        if operand.kind == "parameter":
            return operand
        if operand.kind == "chart":
            axes = self.charts[operand.name].axes
        else:
            axes = self.prepare.tables[operand.name].axes
        return replace(
            operand,
            view=is_view(operand.index, axes, box.loops, box.system),
            distinct=is_distinct(operand.index, box.loops),
        )

    def zero_rows(self, rule: Rule) -> list[Row]:
        """Inequalities that hold wherever no chart and no table of a rule is zero."""
        rows = input_rows(self.grammar, rule)
        for edge in rule.rhs.edges:
            if edge.label in self.grammar.nonterminal:
                rows += self.stored_rows(edge)
            elif edge.label in self.grammar.input_factor:
                rows += self.factor_rows(edge)
        return rows

    def stored_rows(self, edge: Edge) -> list[Row]:
        """Inequalities that hold where a reference meets a stored cell other than zero.

        An index that follows from others is not stored, so the chart cannot detect a wrong one.
        """
        values = dict(zip(self.grammar.nonterminal[edge.label].indices, edge.indices, strict=True))
        followers = self.charts[edge.label].followers
        return [
            row(c.substitute(followers).substitute(values), self.sizes)
            for c in self.support[edge.label].conditions
        ]

    def factor_rows(self, edge: Edge) -> list[Row]:
        factor = self.grammar.input_factor[edge.label]
        values = dict(zip(factor.indices, edge.indices, strict=True))
        return condition_rows([c.substitute(values) for c in factor.conditions], self.sizes)

    def is_linear(
        self, rule: Rule, box: LoopBox, operands: Sequence[Operand], head: Sequence[Expr]
    ) -> bool:
        """Whether a rule maps one chart, cell by cell."""
        charts = [o for o in operands if o.kind == "chart"]
        return (
            len(charts) == 1
            and all(o.kind != "table" for o in operands)
            and not box.splits
            and all(mask.mixed for mask in box.masks)
            and self.free_values(rule) == 1
            and charts[0].view
            and charts[0].index == tuple(head)
            and bool(self.charts[rule.lhs].states)
            and bool(self.charts[charts[0].name].states)
            and self.charts[rule.lhs].stored == self.charts[charts[0].name].stored
            and len(rule.indices) == len(self.grammar.nonterminal[charts[0].name].indices)
        )

    def free_values(self, rule: Rule) -> int:
        """The number of joint values of the nodes that no edge or clamp touches."""
        touched = {a.node for edge in rule.rhs.edges for a in edge.attachments}
        touched |= {clamp.attachment.node for clamp in rule.rhs.clamps}
        touched |= set(rule.rhs.externals)
        return prod(
            domain_size(self.grammar, n.domain) for n in rule.rhs.nodes if n.name not in touched
        )

    def meeting(
        self, name: str, head_index: tuple[Expr, ...], box: LoopBox, level: Expr | None
    ) -> tuple[int, str]:
        """The group that a step joins, and how its result meets what earlier groups wrote."""
        others = self.boxes.get(name, [])
        mode, group = "write", len({step.group for step, _ in others})
        if level is not None and not self.keeps_to_level(name, box, level):
            mode = "add"
        # Only the latest group is still open: what came between would be overwritten. Its last
        # step puts the sum of all, which meets what any of them meets.
        for step, _ in others[-1:]:
            if (step.head_index, step.positions) == (head_index, box.positions):
                mode, group = step.mode, step.group
        for step, other in others:
            if step.group == group:
                continue
            rows = common_rows(head_index, box, step.head_index, other)
            if is_feasible(uniform(rows, self.lengths)):
                mode = "add"
            elif mode == "write" and is_feasible(rows):
                mode = "mixed"
        return group, mode

    def overlaps(
        self, name: str, head: Sequence[Expr], operands: Sequence[Operand], box: LoopBox
    ) -> bool:
        """Whether some point of a box reads a cell that another point writes.

        No derivation does, but a box may have more points than the rule; an operand is zero there.
        """
        indices = [o.index for o in operands if o.kind == "chart" and o.name == name]
        return any(is_feasible(common_rows(head, box, index, box)) for index in indices)

    def keeps_to_level(self, name: str, box: LoopBox, level: Expr) -> bool:
        """Whether all points of a box, masked ones too, are cells of the level and of no other.

        A level such as `2*i + 3*j` has no form in which one index follows from the other.
        """
        indices = self.grammar.nonterminal[name].indices
        form = with_numbers(level, self.sizes).substitute({i: box.values[i] for i in indices})
        gap = form - Expr.of(LEVEL)
        return not gap.terms or all(implies(box.system, row_of(g)) for g in (gap, -gap))


def common_rows(
    one: Sequence[Expr], box: LoopBox, two: Sequence[Expr], other: LoopBox
) -> list[Row]:
    """Inequalities for a point of each box, on one level, whose indices are the same cell."""
    renamed = {loop.name: Expr.of(loop.name + "*") for loop in other.loops}
    rows = [*box.system, *moved(other.system, renamed)]
    for left, right in zip(one, two, strict=True):
        gap = left - right.substitute(renamed)
        rows += [row_of(gap), row_of(-gap)]
    return rows


def grouped(steps: Sequence[Step]) -> list[Step]:
    """Steps with those of one group next to each other."""
    order = list(dict.fromkeys(step.group for step in steps))
    return sorted(steps, key=lambda step: order.index(step.group))


def named_apart(steps: Sequence[Step]) -> list[Step]:
    """A family's steps with loops that are not called as nodes are: both name axes."""
    taken = {node.name for step in steps for node in step.rule.rhs.nodes}
    loops = {loop.name for step in steps for loop in (*step.positions, *step.splits)}
    names: dict[str, str] = {}
    for name in sorted(loops & taken):
        new = name
        while new in taken | loops:
            new += PRIME
        taken.add(new)
        names[name] = new
    return [renamed(step, names) for step in steps] if names else list(steps)


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """A step with other names for its loops."""
    values = {name: Expr.of(new) for name, new in names.items()}

    def loop(item: Loop) -> Loop:
        return replace(item, name=names.get(item.name, item.name))

    def exprs(items: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(expr.substitute(values) for expr in items)

    return replace(
        step,
        head_index=exprs(step.head_index),
        positions=tuple(map(loop, step.positions)),
        splits=tuple(map(loop, step.splits)),
        operands=tuple(replace(o, index=exprs(o.index)) for o in step.operands),
        masks=tuple(replace(mask, expr=mask.expr.substitute(values)) for mask in step.masks),
        variables={name: expr.substitute(values) for name, expr in step.variables.items()},
    )


def rule_variables(rule: Rule) -> list[str]:
    """The names in a rule's indices and conditions."""
    names: dict[str, None] = {}
    for index in rule.indices:
        names.update(dict.fromkeys(index.names()))
    for edge in rule.rhs.edges:
        for index in edge.indices:
            names.update(dict.fromkeys(index.names()))
    for clamp in rule.rhs.clamps:
        for index in clamp.indices:
            names.update(dict.fromkeys(index.names()))
    for condition in rule.conditions:
        for term in condition.terms:
            names.update(dict.fromkeys(term.names()))
    return list(names)


def rule_lookups(rule: Rule) -> list[Lookup]:
    """The table look-ups in a rule's indices and conditions."""
    exprs = [*rule.indices, *(i for e in rule.rhs.edges for i in e.indices)]
    exprs += [i for c in rule.rhs.clamps for i in c.indices]
    exprs += [t for c in rule.conditions for t in c.terms]
    return list(dict.fromkeys(lookup for expr in exprs for lookup in expr.lookups()))


def with_numbers(expr: Expr, sizes: Mapping[str, int]) -> Expr:
    """An index expression with sizes put in."""
    return expr.substitute(dict(sizes))
