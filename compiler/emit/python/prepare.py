"""What comes before the charts, as Python: hoisted products, entries at tokens, potentials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgg.compiler.emit.potentials import tests_of
from fgg.compiler.emit.python.block import Program
from fgg.compiler.emit.python.products import Value, einsum, product
from fgg.compiler.emit.readable import quoted
from fgg.grammar import InputTable
from fgg.grammar.domains import size_values
from fgg.grammar.index import Expr
from fgg.grammar.slices import Narrow, Unfold
from fgg.inputs.clamps import path_steps
from fgg.plan import Contract, Cut, Gather, Indicator, OneHot, Potential, Preparation, TokenAxis
from fgg.plan.kernel import BATCH

LONG = 80
"""How long a chain of views may be before it is written in steps."""


class PreparePrinter:
    """Writes the body of the function `prepare`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.plan = program.plan
        self.scope = program.scope
        self.sizes = dict(size_values(program.plan.grammar))
        self.known: dict[tuple[str, tuple[str, ...]], str] = {}

    def body(self) -> Iterator[str]:
        """The statements that prepare all leaves."""
        for item in self.plan.grammar.inputs:
            if self.is_used(item.name):
                extents = "".join(f", {self.extent(e)}" for e in item.shape)
                name = self.program.names.get("input", item.name)
                yield f"{name} = batch.tokens(inputs[{quoted(item.name)}]{extents})"
        yield from self.mapped_tokens()
        for table in self.plan.grammar.tables:
            yield from self.entries(table)
        for step in self.plan.preparations:
            yield from self.preparation(step)

    def extent(self, expr: Expr) -> str:
        """An extent of an input, for each item."""
        return self.scope.affine(expr.substitute(self.sizes))

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
            for name, path in dict.fromkeys(wanted):
                if (name, path) not in self.known and self.has_map(name, path):
                    code = self.tokens(name, path)
                    known = self.program.names.get("input", ".".join((name, *path)))
                    self.known[name, path] = known
                    yield f"{known} = {code}"

    def has_map(self, name: str, path: tuple[str, ...]) -> bool:
        """Whether a path goes through a map."""
        grammar = self.plan.grammar
        parts = path_steps(grammar, grammar.input[name].domain, path)
        return any(isinstance(part, str) for part in parts)

    def entries(self, table: InputTable) -> Iterator[str]:
        """A table without entries beyond an item's own lengths."""
        extents = "".join(f", {self.extent(e)}" for e in table.shape)
        code = f"batch.tokens(inputs[{quoted(table.name)}]{extents}, outside=OUTSIDE)"
        yield f"batch.tables[{quoted(table.name)}] = {code}"

    def preparation(self, step: Preparation) -> Iterator[str]:
        """The statements of one preparation."""
        leaf = self.program.leaf
        if isinstance(step, Contract):
            yield f"{leaf(step.name)} = {self.contraction(step)}"
        elif isinstance(step, Cut):
            # What is read at every level is read faster in one piece.
            often = ".contiguous()" if step.name in self.plan.leaves else ""
            code = f"{leaf(step.source)}{cut_code(step.steps, 0)}{often}"
            if len(code) <= LONG:
                yield f"{leaf(step.name)} = {code}"
                return
            source = leaf(step.source)
            for one in step.steps:
                yield f"{leaf(step.name)} = {source}{cut_code([one], 0)}"
                source = leaf(step.name)
            if often:
                yield f"{source} = {source}{often}"
        elif isinstance(step, Gather):
            tokens = ", ".join(f"({t.axis}, {self.token(t)})" for t in step.tokens)
            groups = tuple(t.group for t in step.tokens)
            more = f", {groups!r}" if len(set(groups)) < len(groups) else ""
            more += ", extend=best_extended" if self.program.best else ""
            code = f"gather({leaf(step.source)}, [{tokens}], missing{more})"
            yield f"{leaf(step.name)} = {code}"
        elif isinstance(step, Indicator):
            values = f"MAPS[{quoted(step.name)}]"
            code = f"indicator({values}, {step.blocks}, batch.dtype, batch.device)"
            yield f"{leaf(step.name)} = {code}"
        elif isinstance(step, OneHot):
            tokens = self.tokens(step.input, step.path)
            yield f"{leaf(step.name)} = one_hot({tokens}, {step.size}, batch.dtype)"
        elif isinstance(step, Potential):
            yield from self.potential(step)

    def contraction(self, step: Contract) -> str:
        """A product of parameters and tables, by matrices if it is one of two."""
        operands = []
        for name, axes in step.operands:
            dims = with_batch(axes) if name in step.tables else axes
            operands.append(Value(self.program.leaf(name), dims))
        kept = with_batch(step.axes) if step.tables else step.axes
        plain = all(len(set(v.dims)) == len(v.dims) for v in operands)
        if len(operands) == 2 and plain and not self.program.best:
            return product(operands[0], operands[1], kept).code
        code = einsum(operands, kept)
        return code.replace("torch.einsum(", "best_einsum(") if self.program.best else code

    def tokens(self, name: str, path: tuple[str, ...]) -> str:
        """The tokens of an input, or of the part of it that a path names."""
        if (name, path) in self.known:
            return self.known[name, path]
        code = self.program.names.get("input", name)
        grammar = self.plan.grammar
        for part in path_steps(grammar, grammar.input[name].domain, path):
            if isinstance(part, str):
                code = f"mapped({code}, MAPS[{quoted(part)}])"
            else:
                code = f"part_of({code}, {part.offset}, {part.size}, {part.stride}, {part.period})"
        return code

    def token(self, token: TokenAxis) -> str:
        """The tokens of an axis, in the places of its group."""
        code = self.tokens(token.input, token.path)
        return f"shifted({code}, {token.shift!r})" if any(token.shift) else code

    def potential(self, step: Potential) -> Iterator[str]:
        """Log-potentials as weights with scales, zero outside the factor's range."""
        factor = self.plan.grammar.input_factor[step.factor]
        tests: dict[bool, list[str]] = {False: [], True: []}
        variables = {index: f"_{number}" for number, index in enumerate(factor.indices)}
        variables = {index: self.program.names.get("loop", index) for index in variables}
        scope = self.scope.extended(variables)
        for mixed, form in tests_of(self.plan, step):
            tests[mixed].append(scope.condition(form))
        arguments = [
            "batch",
            f"inputs[{quoted(step.source)}]{cut_code(step.steps, len(factor.indices) + 1)}",
            str(len(factor.indices)),
        ]
        names = ", ".join(variables.values())
        for mixed, key in ((False, "where"), (True, "mixed")):
            if tests[mixed]:
                comma = "," if len(tests[mixed]) == 1 else ""
                arguments.append(f"{key}=lambda {names}: ({', '.join(tests[mixed])}{comma})")
        leaf = self.program.leaf(step.name)
        yield f"{leaf}, {leaf}_scale = potentials({', '.join(arguments)})"


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
            end = step.offset + step.size
            start = "" if step.offset == 0 else step.offset
            code += f"[{':, ' * axis}{start}:{end}]"
        else:
            code += f".unflatten({axis}, {tuple(step.sizes)!r})"
    return code
