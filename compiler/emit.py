"""From a plan to a Python module: `prepare`, `inside`, `result`, `outside`, `log_z`.

The text is deterministic, begins with the helpers of `fgg.prelude`, and needs torch only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from fgg.compiler.boxes import batch_rows, box_rows, row_of, uniform
from fgg.compiler.emit_code import (
    Names,
    affine_code,
    bound_code,
    extreme_code,
    fused,
    length_names,
    lookups_in,
    without_unused,
    written,
)
from fgg.compiler.emit_step import StepWriter, single
from fgg.domains import domain_size, size_values
from fgg.index import Expr
from fgg.grammar import InputTable
from fgg.linear import implies
from fgg.plan import (
    HIGH,
    LOW,
    Chart,
    Contract,
    Cut,
    Gather,
    OneHot,
    Plan,
    PlanStage,
    Potential,
    Step,
)
from fgg.printer import print_rule
from fgg.slices import Narrow, Unfold

INDENT = "    "


def emit(plan: Plan) -> str:
    """The program of a plan, as a Python module."""
    return _Emitter(plan).run()


class _Emitter:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = Names()
        self.names.taken |= {
            "batch", "leaves", "scales", "values", "charts", "level", "gradient", "torch", "out",
            "e", "found", "terms", "total", "log_total", "view", "take", "give", "put", "put_more", "ratio", "weights", "inputs",
        }  # fmt: skip
        self.scope = length_names(plan.lengths, self.names)
        self.strided: set[tuple[str, int]] = set()
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

    def run(self) -> str:
        plan = self.plan
        title = f"Inference for the grammar `{plan.grammar.name}`: inside, outside, log Z."
        body = [
            f'"""{_plain(title)}"""',
            "",
            *prelude_lines(),
            "",
            "",
            *self.declarations(),
            "",
            "",
            *self.prepare(),
            "",
            "",
            *self.inside(),
            "",
            "",
            *self.result(),
            "",
            "",
            *self.outside(),
            "",
            "",
            *_FRONT,
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
        return lines

    # preparation

    def prepare(self) -> list[str]:
        plan = self.plan
        lines = [
            "def prepare(weights, inputs, batch, missing):",
            '    """What is computed before the charts: the leaves, and the scales of some."""',
            "    leaves = {}",
            "    scales = {}",
        ]
        lines += [f"    {line}" for line in self.length_lines(items=True)]
        for name in plan.parameters:
            lines.append(f"    {self.names.get('p_', name)} = weights[{name!r}]")
        for item in plan.grammar.inputs:
            if self.is_used(item.name):
                lines += [f"    {line}" for line in self.tokens(item.name)]
        for table in plan.grammar.tables:
            lines += [f"    {line}" for line in self.entries(table)]
        for step in plan.preparations:
            lines += [f"    {line}" for line in self.preparation(step)]
        used = self.used_leaves()
        for name, kind in used.items():
            code = self.names.get("p_" if kind == "parameter" else "t_", name)
            lines.append(f"    leaves[{name!r}] = {code}")
            if kind == "table" and plan.table[name].scaled:
                lines.append(f"    scales[{name!r}] = {self.names.get('s_', name)}")
        lines.append("    return leaves, scales")
        return lines

    def is_used(self, name: str) -> bool:
        for step in self.plan.preparations:
            if isinstance(step, Gather) and any(t[1] == name for t in step.tokens):
                return True
            if isinstance(step, OneHot) and step.input == name:
                return True
        return False

    def used_leaves(self) -> dict[str, str]:
        """What the steps read that is no chart."""
        found: dict[str, str] = {}
        for stage in self.plan.stages:
            for step in stage.steps:
                for operand in step.operands:
                    if operand.kind != "chart":
                        found[operand.name] = operand.kind
        return found

    def tokens(self, name: str) -> Iterator[str]:
        """An input as `[*indices, batch]`, impossible beyond an item's own lengths."""
        plan = self.plan
        sizes = dict(size_values(plan.grammar))
        code = self.names.get("w_", name)
        yield f"{code} = inputs[{name!r}].movedim(0, -1)"
        shape = plan.grammar.input[name].shape
        yield "if batch.mixed:"
        for number, extent in enumerate(shape):
            form = affine_code(extent.substitute(sizes), self.scope)
            rank = len(shape) + 1
            yield (
                f"    {code} = {code}.masked_fill("
                f"batch.arange(0, {code}.shape[{number}], {number}, {rank}) >= {form}, -2)"
            )

    def entries(self, table: InputTable) -> Iterator[str]:
        """A table without entries beyond an item's own lengths."""
        sizes = dict(size_values(self.plan.grammar))
        place = f"batch.tables[{table.name!r}]"
        yield "if batch.mixed:"
        for number, extent in enumerate(table.shape):
            form = affine_code(extent.substitute(sizes), self.scope)
            rank = len(table.shape) + 1
            yield (
                f"    {place} = {place}.masked_fill("
                f"batch.arange(0, {place}.shape[{number}], {number}, {rank}) >= {form}, OUTSIDE)"
            )

    def preparation(self, step: object) -> Iterator[str]:
        names = self.names
        if isinstance(step, Contract):
            letters: dict[str, str] = {}
            specs = []
            codes = []
            for operand, axes in step.operands:
                table = operand in step.tables
                if table:
                    rank = sum(a.startswith("#") for a in axes)
                    axes = (*axes[:rank], "@b", *axes[rank:])
                for axis in axes:
                    letters.setdefault(axis, "abcdefghijklmnopqrstuvwxyzABCDEFGH"[len(letters)])
                specs.append("".join(letters[a] for a in axes))
                codes.append(names.get("t_" if table else "p_", operand))
            kept = list(step.axes)
            if step.tables:
                rank = sum(a.startswith("#") for a in kept)
                kept.insert(rank, "@b")
            target = names.get("t_" if step.tables else "p_", step.name)
            spec = f"{','.join(specs)}->{''.join(letters[a] for a in kept)}"
            yield f'{target} = torch.einsum("{spec}", {", ".join(codes)})'
        elif isinstance(step, Cut):
            code = names.get("p_", step.source) + cut_code(step.steps, 0)
            yield f"{names.get('p_', step.name)} = {code}.contiguous()"
        elif isinstance(step, Gather):
            target = names.get("t_", step.name)
            tokens = ", ".join(
                f"({axis}, {self.input_tokens(name, path)})" for axis, name, path in step.tokens
            )
            yield f"{target} = gather({names.get('p_', step.source)}, [{tokens}], missing)"
        elif isinstance(step, OneHot):
            target = names.get("t_", step.name)
            yield f"{target} = one_hot({self.input_tokens(step.input, step.path)}, {step.size}, batch.dtype)"
        elif isinstance(step, Potential):
            yield from self.potential(step)

    def input_tokens(self, name: str, path: tuple[str, ...]) -> str:
        """The tokens of an input, or of the part of it that a path names."""
        code = self.names.get("w_", name)
        if not path:
            return code
        from fgg.domains import parts

        grammar = self.plan.grammar
        domain = grammar.input[name].domain
        for part_name in path:
            part = parts(grammar, domain)[part_name]
            code = f"part_of({code}, {part.offset}, {part.size}, {part.stride}, {part.period})"
            domain = part.domain
        return code

    def potential(self, step: Potential) -> Iterator[str]:
        plan, names = self.plan, self.names
        factor = plan.grammar.input_factor[step.factor]
        table = plan.table[step.name]
        rank = len(factor.indices)
        logs = names.get("w_", step.factor)
        yield f"{logs} = inputs[{step.source!r}]{cut_code(step.steps, rank + 1)}"
        sizes = size_values(plan.grammar)
        box = [r for axis in table.axes for r in box_rows(axis)] + batch_rows(plan.lengths)
        for expr in (
            e.substitute(dict(sizes)) for c in factor.conditions for e in c.inequalities()
        ):
            if implies(box, row_of(expr)):
                continue
            mixed = implies(uniform(box, plan.lengths), row_of(expr))
            local = dict(self.scope)
            shape = rank + 1
            for number, index in enumerate(factor.indices):
                local[index] = f"batch.arange(0, {logs}.shape[{number + 1}], {number + 1}, {shape})"
            for length in plan.lengths:
                view = ", ".join(["-1"] + ["1"] * rank)
                local[length] = f"{self.scope[length]}.view({view})"
            if lookups_in([expr]):
                continue
            mask = f"{affine_code(expr, local)} >= 0"
            line = f"{logs} = {logs}.masked_fill(~spread({mask}, {logs}), NEGATIVE)"
            if mixed:
                yield "if batch.mixed:"
                line = f"    {line}"
            yield line
        yield (
            f"{names.get('t_', step.name)}, {names.get('s_', step.name)} = "
            f"potentials({logs}, {rank}, batch.dtype)"
        )

    # charts

    def length_lines(self, *, items: bool) -> Iterator[str]:
        for length in self.plan.lengths:
            low, high = self.scope[length + LOW], self.scope[length + HIGH]
            yield f"{low}, {high} = batch.low[{length!r}], batch.high[{length!r}]"
            if items:
                yield f"{self.scope[length]} = batch.item[{length!r}]"

    def leaf_lines(self) -> Iterator[str]:
        for name, kind in self.used_leaves().items():
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

    def origin_lines(self) -> Iterator[str]:
        """The least indices of charts that are the greatest of several forms."""
        for chart in self.plan.charts:
            for axis, low in zip(chart.axes, self.origins[chart.family], strict=True):
                if single(axis.low) is None:
                    name = self.scope[str(low).strip("`")]
                    yield f"{name} = {bound_code(axis.low, self.scope, low=True)}"

    def stride_lines(self, body: Sequence[str]) -> Iterator[str]:
        """Strides and inner shapes of the tensors that are viewed."""
        text = "\n".join(body)
        for name in sorted(set(re.findall(r"\bT_(p_\w+)", text))):
            yield f"T_{name} = {name}.mT"
        used = set(re.findall(r"(\w+)\.as_strided\(", text))
        for tensor, rank in sorted(self.strided):
            if tensor not in used:
                continue
            names = "".join(f"d{i}_{tensor}, " for i in range(rank))
            yield f"{names}*inner_{tensor} = {tensor}.stride()"
            yield f"shape_{tensor} = {tensor}.shape[{rank}:]"

    def inside(self) -> list[str]:
        plan = self.plan
        lines = [
            "def inside(leaves, scales, batch):",
            '    """The charts: the values of every family, and their scales."""',
        ]
        lines += [f"    {line}" for line in (*self.length_lines(items=True), *self.leaf_lines())]
        lines += [f"    {line}" for line in self.origin_lines()]
        for chart in plan.charts:
            lines.append(f"    # {_plain(self.chart_text(chart))}")
            extents = self.extents(chart)
            if not chart.is_scalar:
                states = "(" + "".join(f"{s}, " for s in chart.states) + ")"
                lines.append(
                    f"    {self.names.get('v_', chart.family)} = batch.values({extents}, {states})"
                )
            if chart.scale_of == chart.family:
                lines.append(f"    {self.names.get('e_', chart.family)} = batch.scales({extents})")
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
        if not stage.has_levels:
            yield from self.steps(stage.steps, reverse=reverse)
            return
        first = extreme_code(stage.first, self.scope, low=True)
        last = extreme_code(stage.last, self.scope, low=False)
        forms = ", ".join(f"{name} at {stage.level[name]}" for name in stage.families)
        body = list(self.steps(stage.steps, reverse=reverse))
        if not body:
            return  # nothing that a gradient could go to
        yield f"# Levels: {_plain(forms)}"
        if reverse:
            yield f"for level in range({last}, {first} - 1, -1):"
        else:
            yield f"for level in range({first}, {last} + 1):"
        yield from (INDENT + line for line in body)

    def steps(self, steps: Sequence[Step], *, reverse: bool) -> Iterator[str]:
        """Steps in order, or in reverse; those of one group are added before they are put."""
        if reverse:
            for step in reversed(steps):
                yield from self.step(step, self.writer(step), reverse=True)
            return
        for _, members in groupby(steps, key=lambda step: (step.head, step.group)):
            group = list(members)
            if len(group) == 1:
                yield from self.step(group[0], self.writer(group[0]), reverse=False)
                continue
            yield "terms = []"
            for step in group:
                writer = self.writer(step)
                yield from self.step(step, writer, reverse=False, terms=True)
            yield "if terms:"
            yield from (INDENT + line for line in writer.put_terms())
            self.strided |= writer.strided

    def writer(self, step: Step) -> StepWriter:
        return StepWriter(self.plan, step, self.names, self.scope, self.origins)

    def step(
        self, step: Step, writer: StepWriter, *, reverse: bool, terms: bool = False
    ) -> Iterator[str]:
        if reverse:
            body = writer.outside(charts=True, parameters=not step.linear)
        else:
            body = writer.inside(terms=terms)
        body = written(fused(without_unused(body), writer.matrices))
        self.strided |= writer.strided
        if not body:
            return
        yield f"# {_plain(print_rule(self.plan.grammar, step.rule))}"
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
        lines += [f"    {line}" for line in (*self.length_lines(items=True), *self.origin_lines())]
        lines.append(
            f"    return take(charts[{start.name!r}], {self.start_index()}, NEGATIVE).to(batch.dtype)"
        )
        return lines

    def start_index(self) -> str:
        plan = self.plan
        chart = plan.chart[plan.start.name]
        found = []
        for expr, low in zip(plan.start.index, self.origins[chart.family], strict=True):
            code = affine_code(expr - low, self.scope)
            if not any(name in plan.lengths for name in expr.names()):
                code = f"torch.tensor({code}, device=batch.device)"
            found.append(code)
        return "(" + "".join(f"{x}, " for x in found) + ")"

    def outside(self) -> list[str]:
        plan, names = self.plan, self.names
        lines = [
            "def outside(leaves, scales, values, charts, batch, gradient):",
            '    """Gradients of log Z: of the leaves, and of every cell relative to its scale."""',
        ]
        lines += [f"    {line}" for line in (*self.length_lines(items=True), *self.leaf_lines())]
        lines += [f"    {line}" for line in self.origin_lines()]
        constants = {p.name for p in plan.preparations if isinstance(p, OneHot)}
        for name, kind in self.used_leaves().items():
            if name not in constants:
                prefix = "p_" if kind == "parameter" else "t_"
                lines.append(
                    f"    {names.get('g_', name)} = torch.zeros_like({names.get(prefix, name)})"
                )
        for chart in plan.charts:
            if not chart.is_scalar:
                lines.append(f"    {names.get('v_', chart.family)} = values[{chart.family!r}]")
                lines.append(
                    f"    {names.get('a_', chart.family)} = torch.zeros_like({names.get('v_', chart.family)})"
                )
            if chart.scale_of == chart.family:
                lines.append(f"    {names.get('e_', chart.family)} = charts[{chart.family!r}]")
                lines.append(
                    f"    {names.get('i_', chart.family)} = inverse({names.get('e_', chart.family)})"
                )
            if chart.is_scalar:
                lines.append(
                    f"    {names.get('a_', chart.family)} = torch.zeros_like("
                    f"{names.get('e_', chart.family)}, dtype=batch.dtype)"
                )
        if plan.start.name in plan.chart:
            lines.append("    # d log Z: what the start symbol's cell has, where it is not zero.")
            lines.append("    live = result(charts, batch) > NEGATIVE")
            lines.append(
                f"    give({names.get('a_', plan.start.name)}, {self.start_index()}, "
                "torch.where(live, gradient, 0.0).to(batch.dtype))"
            )
        stages = reversed(plan.stages)
        body = [line for stage in stages for line in self.stage(stage, reverse=True)]
        lines += [f"    {line}" for line in (*self.stride_lines(body), *body)]
        self.strided.clear()
        for stage in plan.stages:
            for step in stage.steps:
                if step.linear:
                    writer = StepWriter(plan, step, names, self.scope, self.origins, whole=True)
                    body = without_unused(writer.outside(charts=False, parameters=True))
                    lines.append(
                        f"    # {_plain(print_rule(self.plan.grammar, step.rule))}: all cells at once"
                    )
                    lines += [f"    {line}" for line in body]
        grads = ", ".join(
            f"{name!r}: {names.get('g_', name)}"
            for name in self.used_leaves()
            if name not in constants
        )
        adjoints = ", ".join(f"{c.family!r}: {names.get('a_', c.family)}" for c in plan.charts)
        lines.append(f"    return {{{grads}}}, {{{adjoints}}}")
        return lines


def cut_code(steps: Sequence[Narrow | Unfold], before: int) -> str:
    """A part of a tensor, by views; `before` axes come before those of the factor."""
    code = ""
    for step in steps:
        axis = step.axis + before
        if isinstance(step, Narrow):
            code += f".narrow({axis}, {step.offset}, {step.size})"
        else:
            code += f".unflatten({axis}, {tuple(step.sizes)!r})"
    return code


def prelude_lines() -> list[str]:
    """The text of the helpers, without their module docstring."""
    import fgg

    text = (Path(fgg.__file__).parent / "prelude.py").read_text(encoding="utf-8")
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("from __future__"))
    comment = [f"# {line}".rstrip() for line in lines[:start] if line.strip().strip('"')]
    del comment
    body = lines[start:]
    body.insert(body.index("import torch"), "import sys\n")
    return body


def _plain(text: str) -> str:
    """User's text for a comment or a docstring: one line, nothing that could end either."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(kept.split()).replace("\\", "/").replace('"""', "'''")


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
    missing, -2 impossible) and log-potentials, `lengths` a list for each length.
    """
    batch = batch_of(weights, inputs, lengths)
    if missing is None:
        tokens = [v for name, v in inputs.items() if name in INPUTS and name not in TABLES]
        missing = any(bool((v == -1).any()) for v in tokens)
    leaves, scales = prepare(weights, inputs, batch, missing)
    program = sys.modules[__name__]
    return Inside.apply(program, tuple(leaves), scales, batch, *leaves.values())
'''.splitlines()
