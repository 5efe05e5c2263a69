"""From a plan to a Python module: `prepare`, `inside`, `result`, `outside`, `log_z`.

The text is deterministic, begins with the helpers of `fgg.runtime.prelude.charts`, and needs
torch only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from fgg.compiler.emit.python.context import Context
from fgg.compiler.emit.python.frame import StepFrame
from fgg.compiler.emit.python.inside import InsideWriter
from fgg.compiler.emit.python.names import (
    Names,
    affine_code,
    bound_code,
    extreme_code,
    plain,
    single,
)
from fgg.compiler.emit.python.outside import OutsideWriter
from fgg.compiler.emit.python.peephole import fused, guarded, in_place, without_unused, written
from fgg.compiler.emit.python.prepare import PrepareWriter
from fgg.factors.maps import is_map, map_values
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Expr
from fgg.grammar.printer import print_rule
from fgg.plan import Chart, Gather, Indicator, OneHot, Plan, PlanStage, Step

INDENT = "    "


def emit(plan: Plan, *, best: bool = False) -> str:
    """The program of a plan, as a Python module.

    With `best` its inside pass has maxima instead of sums, and there is no outside pass.
    """
    return _Emitter(plan, best=best).run()


class _Emitter:
    def __init__(self, plan: Plan, *, best: bool) -> None:
        self.plan = plan
        self.best = best
        self.context = Context(plan, best=best)
        self.names = self.context.names
        self.scope = self.context.scope
        self.origins = self.context.origins
        self.strided: set[tuple[str, int]] = set()
        self.before: list[str] = []

    def run(self) -> str:
        plan = self.plan
        what = "best derivations" if self.best else "inside, outside, log Z"
        title = f"Inference for the grammar `{plan.grammar.name}`: {what}."
        body = [
            *_docstring([title, *plan.notes]),
            "",
            *prelude_lines(),
            *(["", "", *prelude_lines("best")] if self.best else []),
            "",
            "",
            *self.declarations(),
            "",
            "",
            *PrepareWriter(self.context).prepare(),
            "",
            "",
            *self.inside(),
            "",
            "",
            *self.result(),
            *([] if self.best else ["", "", *self.outside(), "", "", *_FRONT]),
        ]
        return "\n".join(body) + "\n"

    def declarations(self) -> list[str]:
        plan, grammar = self.plan, self.plan.grammar
        shapes = {
            name: tuple(domain_size(grammar, d) for d in grammar.factor[name].domains)
            for name in plan.parameters
        }
        inputs = {
            item.name: tuple(
                affine_code(e.substitute(dict(size_values(grammar))), {n: n for n in plan.lengths})
                for e in item.shape
            )
            for item in grammar.observed
        }
        lines = [
            f"LENGTHS = {tuple(plan.lengths)!r}",
            "",
            "# The factors and their shapes.",
            "PARAMETERS = {",
        ]
        lines += [f"    {name!r}: {shape!r}," for name, shape in shapes.items()]
        lines += ["}", "", "# The shape of each input, after the batch.", "INPUTS = {"]
        lines += [f"    {name!r}: {shape!r}," for name, shape in inputs.items()]
        lines += ["}"]
        lines.append(f"TABLES = {tuple(t.name for t in grammar.tables)!r}")
        lines += ["# The inputs of which no token may be missing.", f"KNOWN = {plan.known!r}"]
        return lines + self.products() + self.maps()

    def products(self) -> list[str]:
        """What is multiplied, which axis has the items, how many charts are in one product."""
        plan = self.plan
        stored = {c.family: len(c.axes) for c in plan.charts if not c.is_scalar}
        stored |= {table.name: len(table.axes) for table in plan.tables}
        used = {name for names, _ in plan.products for name in names}
        lines = ["", "# What is multiplied, and the most charts in the sum.", "PRODUCTS = ["]
        lines += [f"    {product!r}," for product in plan.products]
        lines += ["]", "# The axis of the items, where there is one.", "STORED = {"]
        lines += [f"    {name!r}: {axis}," for name, axis in stored.items() if name in used]
        depth = max(map(plan.depth, plan.steps), default=0)
        lines += ["}", "# How many charts with states are multiplied at most.", f"DEPTH = {depth}"]
        return lines

    def maps(self) -> list[str]:
        """The maps that anything is computed from: a block for each value."""
        used = {step.name for step in self.plan.preparations if isinstance(step, Indicator)}
        for step in self.plan.preparations:
            if isinstance(step, OneHot):
                used.update(step.path)
            elif isinstance(step, Gather):
                used.update(name for token in step.tokens for name in token.path)
        found = [f for f in self.plan.grammar.factors if f.name in used and is_map(f)]
        if not found:
            return []
        lines = ["", "# The block of each value.", "MAPS = {"]
        for factor in found:
            numbers = ", ".join(map(str, map_values(self.plan.grammar, factor.name)))
            lines.append(f"    {factor.name!r}: [")
            lines += wrap(numbers, 96, initial_indent=" " * 8, subsequent_indent=" " * 8)
            lines.append("    ],")
        return [*lines, "}"]

    def leaf_lines(self) -> Iterator[str]:
        for name, kind in self.plan.leaves.items():
            prefix = "p_" if kind == "parameter" else "t_"
            yield f"{self.names.get(prefix, name)} = leaves[{name!r}]"
            if kind == "table" and self.plan.table[name].scaled:
                yield f"{self.names.get('s_', name)} = scales[{name!r}]"

    def extents(self, chart: Chart) -> str:
        found = []
        for axis, low in zip(chart.axes, self.origins[chart.family], strict=True):
            high = single(axis.high)
            if high is not None:
                found.append(affine_code(high - low + 1, self.scope))
            else:
                code = bound_code(axis.high, self.scope, low=False)
                found.append(f"{code} + {affine_code(1 - low, self.scope)}")
        return "(" + "".join(f"{x}, " for x in found) + ")"

    def stride_lines(self, body: Sequence[str]) -> Iterator[str]:
        """Strides and inner shapes of the tensors that are viewed."""
        text = "\n".join(line for line in body if not line.lstrip().startswith("#"))
        for name in sorted(set(re.findall(r"\bq_(\w+)\b", text))):
            yield f"q_{name} = p_{name}.mT"
        for name, rows in sorted(self.names.rows().items()):
            if re.search(rf"\b{rows}\[", text):
                yield f"{rows} = {name}.unbind()"
        used = set(re.findall(r"(\w+)\.as_strided\(", text))
        for tensor, rank in sorted(self.strided):
            if tensor not in used:
                continue
            names = "".join(f"{self.names.get(f'k{i}_', tensor)}, " for i in range(rank))
            yield f"{names}*{self.names.get('kt_', tensor)} = {tensor}.stride()"
            yield f"{self.names.get('ks_', tensor)} = {tensor}.shape[{rank}:]"
            if re.search(rf"\b{self.names.get('ko_', tensor)}\b", text):
                yield f"{self.names.get('ko_', tensor)} = {tensor}.storage_offset()"

    def inside(self) -> list[str]:
        plan = self.plan
        lines = [
            f"def inside(leaves, scales, batch{', marks' if self.best else ''}):",
            '    """The charts: the values of every family, and their scales."""',
        ]
        lines += [f"    {line}" for line in (*self.context.length_lines(), *self.leaf_lines())]
        lines += [f"    {line}" for line in self.context.origin_lines()]
        for chart in plan.charts:
            lines.append(f"    # {plain(self.chart_text(chart))}")
            extents = self.extents(chart)
            if not chart.is_scalar:
                states = "(" + "".join(f"{s}, " for s in chart.states) + ")"
                half = f", {chart.family!r}" if chart.half and not self.best else ""
                name = self.names.get("v_", chart.family)
                lines.append(f"    {name} = batch.values({extents}, {states}{half})")
            if chart.scale_of == chart.family:
                lines.append(f"    {self.names.get('e_', chart.family)} = batch.scales({extents})")
            if self.best:
                lines.append(f"    {self.names.get('m_', chart.family)} = marks[{chart.family!r}]")
        body = [line for stage in plan.stages for line in self.stage(stage, reverse=False)]
        lines += [f"    {line}" for line in (*self.stride_lines(body), *body)]
        self.strided.clear()
        values = ", ".join(
            f"{c.family!r}: {self.names.get('v_', c.family)}"
            for c in plan.charts
            if not c.is_scalar
        )
        scales = ", ".join(f"{c.family!r}: {self.names.get('e_', c.scale_of)}" for c in plan.charts)
        lines.append(f"    return {{{values}}}, {{{scales}}}")
        return lines

    def chart_text(self, chart: Chart) -> str:
        family = self.plan.grammar.nonterminal[chart.family]
        text = f"{chart.family}[{', '.join(family.indices)}]" if family.indices else chart.family
        if chart.scale_of != chart.family:
            text += f", with the scales of {chart.scale_of}"
        return text

    def stage(self, stage: PlanStage, *, reverse: bool) -> Iterator[str]:
        body = list(self.steps(stage.steps, reverse=reverse))
        yield from dict.fromkeys(self.before)
        self.before.clear()
        if not stage.has_levels:
            yield from body
            return
        first = extreme_code(stage.first, self.scope, low=True)
        last = extreme_code(stage.last, self.scope, low=False)
        forms = ", ".join(f"{name} at {stage.level[name]}" for name in stage.families)
        if not body:
            return  # nothing that a gradient could go to
        yield f"# Levels: {plain(forms)}"
        if reverse:
            yield f"for level in batch.levels({last}, {first} - 1, -1):"
        else:
            yield f"for level in batch.levels({first}, {last} + 1):"
        yield from (INDENT + line for line in body)

    def steps(self, steps: Sequence[Step], *, reverse: bool) -> Iterator[str]:
        """Steps in order, or in reverse; those of one group are added before they are put."""
        if reverse:
            for step in reversed(steps):
                back = OutsideWriter(*self.shared(step))
                body = back.outside(charts=True, parameters=not at_once(self.plan, step))
                self.before += back.before
                yield from self.step(back, fused(without_unused(body), back.matrices))
            return
        for _, members in groupby(steps, key=lambda step: (step.head, step.group)):
            group = list(members)
            several = len(group) > 1
            if several:
                yield "terms = []"
                if not self.plan.chart[group[0].head].is_scalar:
                    yield "depth = 0"
            for step in group:
                writer = InsideWriter(*self.shared(step), best=self.best)
                body = written(in_place(without_unused(writer.inside(terms=several))))
                yield from self.step(writer, body)
            if several:
                yield "if terms:"
                yield from (INDENT + line for line in writer.put_terms())
                self.strided |= writer.strided

    def shared(
        self, step: Step
    ) -> tuple[Plan, Step, Names, Mapping[str, str], Mapping[str, Sequence[Expr]]]:
        """What every writer of a step is made from."""
        return self.plan, step, self.names, self.scope, self.origins

    def step(self, writer: StepFrame, body: Sequence[str]) -> Iterator[str]:
        """The lines of a step, with its rule, its box and its condition."""
        self.strided |= writer.strided
        if not body:
            return
        if writer.is_sparse and writer.scaled is not None:
            body = guarded(body, writer.scaled)
        yield f"# {plain(print_rule(self.plan.grammar, writer.step.rule))}"
        yield from writer.bounds()
        condition = writer.condition()
        if condition:
            yield f"if {condition}:"
            yield from (INDENT + line for line in body)
        else:
            yield from body

    def result(self) -> list[str]:
        plan = self.plan
        lines = ["def result(charts, batch):", '    """log Z of every item."""']
        start = plan.start
        if start.name not in plan.chart:
            lines.append(
                "    return torch.full((batch.size,), NEGATIVE, dtype=batch.dtype, "
                "device=batch.device)"
            )
            return lines
        lines += [
            f"    {line}" for line in (*self.context.length_lines(), *self.context.origin_lines())
        ]
        chart = f"charts[{start.name!r}]"
        lines.append(f"    found = take({chart}, {self.start_place(chart)}, NEGATIVE)")
        lines.append("    return found.to(batch.dtype)")
        return lines

    def start_place(self, tensor: str) -> str:
        """Where a tensor has the start symbol's cell of each item."""
        plan = self.plan
        chart = plan.chart[plan.start.name]
        found = [
            affine_code(expr - low, self.scope)
            for expr, low in zip(plan.start.index, self.origins[chart.family], strict=True)
        ]
        return f"cells_at({tensor}, ({''.join(f'{x}, ' for x in found)}))"

    def outside(self) -> list[str]:
        plan, names = self.plan, self.names
        lines = [
            "def outside(leaves, scales, values, charts, batch, gradient):",
            '    """Gradients of log Z: of the leaves, and of every cell relative to its scale."""',
        ]
        lines += [f"    {line}" for line in (*self.context.length_lines(), *self.leaf_lines())]
        lines += [f"    {line}" for line in self.context.origin_lines()]
        for name, kind in self.plan.leaves.items():
            if name not in plan.constants:
                prefix = "p_" if kind == "parameter" else "t_"
                lines.append(
                    f"    {names.get('g_', name)} = torch.zeros_like({names.get(prefix, name)})"
                )
        for chart in plan.charts:
            if not chart.is_scalar:
                values = names.get("v_", chart.family)
                lines.append(f"    {values} = values[{chart.family!r}]")
                new = f"batch.adjoint({values}, {chart.family!r})"
                if not chart.half:
                    new = f"torch.zeros_like({values})"
                lines.append(f"    {names.get('a_', chart.family)} = {new}")
            if chart.scale_of == chart.family:
                scales = names.get("e_", chart.family)
                lines.append(f"    {scales} = charts[{chart.family!r}]")
                lines.append(f"    {names.get('i_', chart.family)} = inverse({scales})")
            if chart.is_scalar:
                lines.append(
                    f"    {names.get('a_', chart.family)} = torch.zeros_like("
                    f"{names.get('e_', chart.family)}, dtype=batch.dtype)"
                )
        if plan.start.name in plan.chart:
            lines.append("    # d log Z: what the start symbol's cell has, where it is not zero.")
            lines.append("    live = result(charts, batch) > NEGATIVE")
            start = names.get("a_", plan.start.name)
            lines.append(
                f"    give({start}, {self.start_place(start)}, "
                "torch.where(live, gradient * batch.slope, 0.0).to(batch.dtype))"
            )
        stages = reversed(plan.stages)
        body = [line for stage in stages for line in self.stage(stage, reverse=True)]
        for stage in plan.stages:
            for step in stage.steps:
                if at_once(self.plan, step):
                    writer = OutsideWriter(*self.shared(step), whole=True)
                    rule = plain(print_rule(self.plan.grammar, step.rule))
                    body.append(f"# {rule}: all cells at once")
                    body += without_unused(writer.outside(charts=False, parameters=True))
        lines += [f"    {line}" for line in (*self.stride_lines(body), *body)]
        self.strided.clear()
        grads = ", ".join(
            f"{name!r}: {names.get('g_', name)}"
            for name in self.plan.leaves
            if name not in plan.constants
        )
        adjoints = ", ".join(f"{c.family!r}: {names.get('a_', c.family)}" for c in plan.charts)
        lines.append(f"    return batch.settled({{{grads}}}), {{{adjoints}}}")
        return lines


def at_once(plan: Plan, step: Step) -> bool:
    """Whether a step's parameters get their gradient from all cells at once.

    A chart with several axes is half empty, so that this would be twice the work there.
    """
    return plan.shares_scale(step) and len(plan.chart[step.head].axes) < 2


def prelude_lines(name: str = "charts") -> list[str]:
    """The text of helpers, without their module docstring."""
    # The module is found, not imported: that would load torch.
    spec = find_spec(f"fgg.runtime.prelude.{name}")
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    lines = text.splitlines()
    if name != "charts":
        # It follows the prelude: what it imports is there.
        imports = [i for i, line in enumerate(lines) if line.startswith(("import ", "from "))]
        return "\n".join(lines[imports[-1] + 1 :]).strip().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("from __future__"))
    body = lines[start:]
    body.insert(body.index("import torch"), "from types import SimpleNamespace\n")
    return body


def _docstring(paragraphs: Sequence[str]) -> list[str]:
    """The module's own docstring: a title, and notes."""
    if len(paragraphs) == 1:
        return [f'"""{plain(paragraphs[0])}"""']
    first, *rest = paragraphs
    lines = [f'"""{plain(first)}']
    for paragraph in rest:
        lines += ["", *wrap(plain(paragraph), 96)]
    return [*lines, '"""']


_FRONT = '''\
def batch_of(weights, inputs, lengths=None):
    """The batch that inputs make; lengths are those of the inputs unless they are given."""
    known = {}
    for name, value in (lengths or {}).items():
        known[name] = value.tolist() if isinstance(value, Tensor) else list(value)
    size = next((len(v) for v in known.values()), 1)
    for name, value in inputs.items():
        size = value.shape[0]
        for extent, axis in zip(INPUTS.get(name, ()), value.shape[1:]):
            if extent in LENGTHS:
                known.setdefault(extent, [axis] * size)
    sample = next(v for v in (*weights.values(), *inputs.values()) if v.is_floating_point())
    tables = {name: value for name, value in inputs.items() if name in TABLES}
    return Batch(size, known, tables, sample.dtype, sample.device)


def log_z(weights, inputs, lengths=None, missing=None):
    """log Z of every item, `[batch]`, differentiable in weights and log-potentials.

    `weights` are the factors' values (not logarithms), `inputs` token ids `[batch, …]` (-1 is
    missing, -2 impossible) and log-potentials, `lengths` a list for each length. A batch in which
    numbers may have become too small for float32 is computed in float64. Raises ArithmeticError if
    that may not do either.
    """
    batch = batch_of(weights, inputs, lengths)
    if missing is None:
        tokens = [v for name, v in inputs.items() if name in INPUTS and name not in TABLES]
        missing = any(bool((v == -1).any()) for v in tokens)
    for name in KNOWN if missing else ():
        known(name, inputs.get(name))
    leaves, scales = prepare(weights, inputs, batch, missing)
    program = SimpleNamespace(**globals())
    found = Inside.apply(program, tuple(leaves), scales, batch, *leaves.values())
    if bool(batch.safe.all()):
        return found
    if batch.dtype == torch.float64:
        items = torch.nonzero(~batch.safe).flatten().tolist()
        raise ArithmeticError(f"items {items[:5]} need more range than float64 has")
    wide = {name: weight.double() for name, weight in weights.items()}
    given = {n: x.double() if x.is_floating_point() else x for n, x in inputs.items()}
    return log_z(wide, given, lengths, missing).to(batch.dtype)
'''.splitlines()
