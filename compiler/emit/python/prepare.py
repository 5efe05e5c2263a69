"""What comes before the charts, as Python: hoisted products, entries at tokens, potentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fgg.compiler.emit.python.context import Context
from fgg.compiler.emit.python.names import BATCH, affine_code, lookups_in
from fgg.compiler.emit.python.values import LETTERS, Value, product_code
from fgg.compiler.plan.affine import batch_rows, box_rows, row_of, uniform
from fgg.grammar import InputTable
from fgg.grammar.domains import size_values
from fgg.grammar.linear import implies
from fgg.grammar.slices import Narrow, Unfold
from fgg.inputs.clamps import path_steps
from fgg.plan import Contract, Cut, Gather, Indicator, OneHot, Potential, Preparation, TokenAxis


class PrepareWriter:
    """Writes the function `prepare`."""

    def __init__(self, context: Context) -> None:
        self.plan = context.plan
        self.names = context.names
        self.scope = context.scope
        self.context = context
        self.known: dict[tuple[str, tuple[str, ...]], str] = {}

    def prepare(self) -> list[str]:
        """The lines of the function."""
        plan = self.plan
        lines = [
            "def prepare(weights, inputs, batch, missing):",
            '    """What is computed before the charts: the leaves, and the scales of some."""',
            "    leaves = {}",
            "    scales = {}",
        ]
        lines += [f"    {line}" for line in self.context.length_lines()]
        for name in plan.parameters:
            lines.append(f"    {self.names.get('p_', name)} = weights[{name!r}]")
        for item in plan.grammar.inputs:
            if self.is_used(item.name):
                lines += [f"    {line}" for line in self.tokens(item.name)]
        lines += [f"    {line}" for line in self.mapped_tokens()]
        for table in plan.grammar.tables:
            lines += [f"    {line}" for line in self.entries(table)]
        for step in plan.preparations:
            lines += [f"    {line}" for line in self.preparation(step)]
        used = self.context.plan.leaves
        lines += [f"    {line}" for line in self.parts()]
        for name, kind in used.items():
            code = self.names.get("p_" if kind == "parameter" else "t_", name)
            lines.append(f"    leaves[{name!r}] = {code}")
            if kind == "table" and plan.table[name].scaled:
                lines.append(f"    scales[{name!r}] = {self.names.get('s_', name)}")
        lines.append("    return leaves, scales")
        return lines

    def parts(self) -> Iterator[str]:
        """What is multiplied before the charts and is no leaf: kept, as products may be small."""
        for step in self.plan.preparations:
            for name, _ in step.operands if isinstance(step, Contract) else ():
                if name not in self.plan.leaves:
                    assert isinstance(step, Contract)
                    code = self.names.get("t_" if name in step.tables else "p_", name)
                    yield f"batch.parts[{name!r}] = {code}"

    def is_used(self, name: str) -> bool:
        """Whether anything reads the tokens of an input."""
        for step in self.plan.preparations:
            if isinstance(step, Gather) and any(t.input == name for t in step.tokens):
                return True
            if isinstance(step, OneHot) and step.input == name:
                return True
        return False

    def mapped_tokens(self) -> Iterator[str]:
        """The tokens that go through maps, each once for all that read them."""
        for step in self.plan.preparations:
            if isinstance(step, Gather):
                wanted = [(token.input, token.path) for token in step.tokens]
            else:
                wanted = [(step.input, step.path)] if isinstance(step, OneHot) else []
            for name, path in wanted:
                code = self.input_tokens(name, path)
                if "MAPS[" in code:
                    known = self.names.get("w_", ".".join((name, *path)))
                    self.known[name, path] = known
                    yield f"{known} = {code}"

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

    def preparation(self, step: Preparation) -> Iterator[str]:
        """The lines of one preparation."""
        names = self.names
        if isinstance(step, Contract):
            yield self.contraction(step)
        elif isinstance(step, Cut):
            code = names.get("p_", step.source) + cut_code(step.steps, 0)
            # What is read at every level is read faster in one piece.
            often = step.name in self.context.plan.leaves
            yield f"{names.get('p_', step.name)} = {code}{'.contiguous()' if often else ''}"
        elif isinstance(step, Gather):
            target = names.get("t_", step.name)
            tokens = ", ".join(f"({t.axis}, {self.token(t)})" for t in step.tokens)
            groups = tuple(t.group for t in step.tokens)
            more = f", {groups!r}" if len(set(groups)) < len(groups) else ""
            yield f"{target} = gather({names.get('p_', step.source)}, [{tokens}], missing{more})"
        elif isinstance(step, Indicator):
            target = names.get("p_", step.name)
            values = f"MAPS[{step.name!r}]"
            yield f"{target} = indicator({values}, {step.blocks}, batch.dtype, batch.device)"
        elif isinstance(step, OneHot):
            target = names.get("t_", step.name)
            tokens = self.input_tokens(step.input, step.path)
            yield f"{target} = one_hot({tokens}, {step.size}, batch.dtype)"
        elif isinstance(step, Potential):
            yield from self.potential(step)

    def contraction(self, step: Contract) -> str:
        """A product of parameters and tables, by matrices if it is one of two."""
        operands = []
        for name, own in step.operands:
            table = name in step.tables
            axes = with_batch(own) if table else own
            operands.append(Value(self.names.get("t_" if table else "p_", name), axes))
        kept = with_batch(step.axes) if step.tables else step.axes
        target = self.names.get("t_" if step.tables else "p_", step.name)
        plain = all(len(set(v.dims)) == len(v.dims) for v in operands)
        if len(operands) == 2 and plain and not self.context.best:
            code = product_code(operands[0], operands[1], kept)
            return f"{target} = " + re.sub(r"\bq_(\w+)", r"p_\1.mT", code)
        letters: dict[str, str] = {}
        for axis in (a for value in operands for a in value.dims):
            letters.setdefault(axis, LETTERS[len(letters)])
        specs = ["".join(letters[a] for a in value.dims) for value in operands]
        spec = f"{','.join(specs)}->{''.join(letters[a] for a in kept)}"
        return f'{target} = {self.context.einsum}("{spec}", {", ".join(v.code for v in operands)})'

    def input_tokens(self, name: str, path: tuple[str, ...]) -> str:
        """The tokens of an input, or of the part of it that a path names."""
        if (name, path) in self.known:
            return self.known[name, path]
        code = self.names.get("w_", name)
        grammar = self.plan.grammar
        for part in path_steps(grammar, grammar.input[name].domain, path):
            if isinstance(part, str):
                code = f"mapped({code}, MAPS[{part!r}])"
            else:
                code = f"part_of({code}, {part.offset}, {part.size}, {part.stride}, {part.period})"
        return code

    def token(self, token: TokenAxis) -> str:
        """The tokens of an axis, in the places of its group."""
        code = self.input_tokens(token.input, token.path)
        return f"shifted({code}, {token.shift!r})" if any(token.shift) else code

    def potential(self, step: Potential) -> Iterator[str]:
        """Log-potentials as weights with scales, zero outside the factor's range."""
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
            f"potentials(batch, {logs}, {rank})"
        )


def with_batch(axes: Sequence[str]) -> tuple[str, ...]:
    """The axes of a table: the batch comes after its indices."""
    rank = sum(axis.startswith("#") for axis in axes)
    return (*axes[:rank], BATCH, *axes[rank:])


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
