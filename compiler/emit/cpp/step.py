"""A step of a pass as a C++ function: blocks that fill the same cells, or one block of the outside.

Threads share the items of a batch, or the positions of a step: the loop over one position then runs
over a thread's own part of it. That must not make two threads write to the same cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fgg.compiler.emit.cpp.block import BlockWriter, Result, Tensors
from fgg.compiler.emit.cpp.layout import INDENT, For, Statement, comment, laid_out, nested
from fgg.compiler.emit.cpp.loops import MANY
from fgg.compiler.emit.cpp.memory import strides_of
from fgg.compiler.emit.cpp.names import Names, folded
from fgg.compiler.emit.readable import belongs, plain
from fgg.grammar.index import Expr
from fgg.grammar.printer import print_rule
from fgg.plan import LEVEL, Loop
from fgg.plan.kernel import BATCH, Block, Give, LogSum, Multiply, Put, Relative, Weigh

EXPONENTIAL = 16
"""How many multiply-adds an exponential is worth."""
Work = Counter[tuple[str, ...]]
"""Multiply-adds for one item: a number for each product of loops."""


def work_of(block: Block) -> Work:
    """How many multiply-adds a block takes for one item."""
    work: Work = Counter()
    loops = [loop.name for loop in block.loops]

    def count(dims: Sequence[str], each: int) -> None:
        for d in dict.fromkeys(dims):
            each *= block.sizes.get(d, 1)
        work[tuple(d for d in loops if d in dims)] += each

    for op in block.body:
        match op:
            case Multiply():
                count((*block.value[op.left].dims, *block.value[op.right].dims), 1)
            case Weigh() | Relative():
                count(op.dims, EXPONENTIAL)
            case LogSum():
                count(block.value[op.scale].dims, EXPONENTIAL)
            case Put():
                count((*block.cell_dims, *op.cells.axes), 1)
            case _:
                pass
    count(loops[: len(block.positions)], 1)
    return work


def roughly(work: Work) -> float:
    """The number of multiply-adds if all loops are equally long."""
    return float(sum(each * MANY ** len(loops) for loops, each in work.items()))


@dataclass(frozen=True)
class Sharing:
    """The loop over positions that threads share; if they wait for each other between effects."""

    axis: str
    waits: bool = False


def sharing_of(group: Sequence[Block]) -> Sharing | None:
    """How threads can share a step's positions: no two of them write to the same cell."""
    first = group[0]
    if any(block.overlaps for block in group):
        return None
    gives = [op for block in group for op in block.body if isinstance(op, Give)]
    gives = [op for op in gives if op.cells.kind != "parameter"]  # every thread has its own
    targets = Counter(op.cells.name for op in gives)
    for loop in first.positions:
        if all(
            op.cells.view
            and op.cells.distinct
            and any(loop.name in expr.names() for expr in op.cells.index)
            for op in gives
        ):
            return Sharing(loop.name, any(count > 1 for count in targets.values()))
    return None


class StepWriter:
    """Writes the function of a step."""

    def __init__(
        self, tensors: Tensors, group: Sequence[Block], name: str, names: Names, *, level: str
    ) -> None:
        self.tensors = replace(tensors, scope=tensors.scope.with_variables({LEVEL: level}))
        self.group = group
        self.name = name
        self.names = Names(names)
        self.names.taken.add(level)
        self.level = level
        self.chart_of = tensors.plan.chart
        self.sharing = sharing_of(group)
        # The identifiers of each block's axes, of the ranges of its loops, and of its condition.
        self.variables = [self.axes_of(block) for block in group]
        self.spans = [self.spans_of(*pair) for pair in zip(group, self.variables, strict=True)]
        self.item = self.variables[0][BATCH]
        self.flags = [self.flag_of(number) for number in range(len(group))]
        self.writers = self.write_blocks()

    def axes_of(self, block: Block) -> dict[str, str]:
        """The identifiers of a block's axes; those of positions are the same for all blocks."""
        axes = {name for block in self.group for name in block.sizes}
        variables = {BATCH: self.names.get(BATCH, "item" if "b" in axes else "b")}
        for first, loop in zip(self.group[0].positions, block.positions, strict=True):
            name = "ijkl"[int(first.name[1:]) % 4] if first.name.startswith("@") else first.name
            variables[loop.name] = self.names.get(("axis", first.name), name)
        for loop in block.splits:
            stem = loop.name.rstrip("'")
            # A loop may run over the distance of a rule's variable.
            distance = stem in block.variables and len(block.variables[stem].terms) > 1
            variables[loop.name] = self.names.get(("axis", loop.name), "d" * distance + stem)
        for name in block.sizes:
            variables[name] = self.names.get(("axis", name), name)
        return variables

    def forms_of(self, block: Block) -> dict[str, Expr]:
        """The rule's variables that are sums of positions and the level: `j` is `i + width`."""
        known = {LEVEL, *(loop.name for loop in block.positions)}
        return {
            name: expr
            for name, expr in block.variables.items()
            if len([m for m, _ in expr.terms if m]) > 1
            and all(c == 1 for m, c in expr.terms if m)
            and {*expr.names()} <= known
            and name not in (*known, *block.sizes, *(loop.name for loop in block.splits))
        }

    def spans_of(self, block: Block, variables: Mapping[str, str]) -> dict[str, str]:
        """The identifiers of the ranges of a block's loops, and of the items."""
        spans = {}
        for loop in block.positions:
            spans[loop.name] = self.names.get(
                ("span", variables[loop.name]), variables[loop.name] + "s"
            )
        for loop in block.splits:
            key = ("span", variables[loop.name], self.span_text(loop, variables))
            spans[loop.name] = self.names.get(key, variables[loop.name] + "s")
        return {**spans, BATCH: "items"}

    def flag_of(self, number: int) -> str:
        """The identifier that tells whether one of several blocks does anything; or nothing."""
        block = self.group[number]
        if len(self.group) == 1 or not self.tests(number):
            return ""
        return self.names.get(("flag", number), f"has_{block.rule.name}")

    def tests(self, number: int) -> list[str]:
        """When a block does something, if there are cells to fill."""
        block, spans = self.group[number], self.spans[number]
        scope = self.tensors.scope.with_variables(self.variables[number])
        tests = [scope.holds(guard) for guard in block.guards]
        loops = [loop.name for loop in block.splits if loop.name not in block.sure]
        return tests + [f"{spans[name]}.n() > 0" for name in loops]

    def write_blocks(self) -> list[BlockWriter]:
        """The blocks; loops over positions stand inside if matrix products go across them."""
        waits = self.sharing is not None and self.sharing.waits
        writers = self.blocks_written(fused=False)
        if any(writer.loops.crosses for writer in writers) or not self.group[0].positions:
            return writers
        if waits:
            self.sharing = None
        return self.blocks_written(fused=True)

    def blocks_written(self, *, fused: bool) -> list[BlockWriter]:
        """The blocks with the loops over positions around everything, or inside."""
        writers: list[BlockWriter] = []
        for block, variables, spans in zip(self.group, self.variables, self.spans, strict=True):
            positions = [loop.name for loop in block.positions] if fused else []
            names = Names(self.names)
            forms = self.forms_of(block) if fused and len(self.group) == 1 else {}
            sums = {name: names.get(("sum", name), name) for name in forms}
            if writers:
                names.taken |= set().union(*(writer.loops.names.taken for writer in writers))
            scope = self.tensors.scope.with_variables({**variables, **sums}, forms)
            tensors = replace(self.tensors, scope=scope)
            writer = BlockWriter(tensors, block, variables, spans, names, positions)
            writer.waits = not fused and self.sharing is not None and self.sharing.waits
            writer.write()
            writers.append(writer)
        return writers

    # the function

    def lines(self) -> Iterator[str]:
        """The lines of the function."""
        lines: Iterable[str] = self.function_lines()
        for name in dict.fromkeys(block.rule.name for block in self.group):
            lines = belongs(name, lines)
        return iter(lines)

    def function_lines(self) -> Iterator[str]:
        """The same without saying whose they are."""
        for block in self.group:
            yield from comment(plain(print_rule(self.tensors.plan.grammar, block.rule)), 1)
        parameter = f"const I {self.level}" if self.level else ""
        yield f"{INDENT}SEPARATE void {self.name}({parameter}) {{"
        yield from laid_out([*self.ranges(), *self.opening(), *self.work()], 2)
        yield f"{INDENT}}}"

    def ranges(self) -> Iterator[Statement]:
        """The ranges of loops."""
        done: set[str] = set()
        for number, block in enumerate(self.group):
            variables, spans = self.variables[number], self.spans[number]
            for loop in block.loops:
                name = spans[loop.name]
                if name in done:
                    continue
                done.add(name)
                shared = self.sharing is not None and loop.name == self.sharing.axis
                text = self.span_text(loop, variables)
                if loop in block.positions:
                    text = self.position_text(block.positions.index(loop))
                yield f"{'' if shared else 'const '}Span {name} = {text};"

    def span_text(self, loop: Loop, variables: Mapping[str, str]) -> str:
        """The first and the last value of a loop."""
        scope = self.tensors.scope.with_variables(variables)
        return f"{{{scope.bound(loop.low, low=True)}, {scope.bound(loop.high, low=False)}}}"

    def position_text(self, place: int) -> str:
        """The range of a position; blocks may write it differently, each where it is active."""
        texts = [
            self.span_text(block.positions[place], variables)
            for block, variables in zip(self.group, self.variables, strict=True)
        ]
        if len({*texts}) == 1:
            return texts[0]
        text = f"Span{texts[-1]}"
        for number in reversed(range(len(texts) - 1)):
            scope = self.tensors.scope.with_variables(self.variables[number])
            guard = " && ".join(scope.holds(guard) for guard in self.group[number].guards)
            text = f"{guard or 'true'} ? Span{texts[number]} : {text}"
        return text

    def opening(self) -> Iterator[Statement]:
        """Leave if there is nothing to do; else take a share of it."""
        terms: list[str] = []
        for number, block in enumerate(self.group):
            text, flag = self.work_text(block, self.spans[number]), self.flags[number]
            if flag:
                yield f"const bool {flag} = {' && '.join(self.tests(number))};"
            terms.append(f"({flag} ? {text} : 0.)" if flag else text)
        arguments = [" + ".join(terms)]
        if self.sharing is not None:
            arguments.insert(0, self.spans[0][self.sharing.axis])
            arguments += ["true"] if self.sharing.waits else []
        scope = self.tensors.scope.with_variables(self.variables[0])
        only = self.group[0].guards if len(self.group) == 1 else ()
        tests = [*map(scope.fails, only), f"!begin({', '.join(arguments)})"]
        yield f"if ({' || '.join(tests)}) return;"

    def work_text(self, block: Block, spans: Mapping[str, str]) -> str:
        """The multiply-adds of a block for one item, at one value of a position that is shared."""
        total: Work = Counter()
        for loops, each in work_of(block).items():
            others = tuple(d for d in loops if self.sharing is None or d != self.sharing.axis)
            total[tuple(spans[d] for d in others)] += each
        terms = [
            " * ".join([f"{each}.", *(f"{span}.n()" for span in loops)])
            for loops, each in total.items()
        ]
        return " + ".join(terms)

    def work(self) -> Iterator[Statement]:
        """What the function does."""
        for writer in self.writers:
            yield from writer.arrays
        body: list[Statement] = []
        for writer, flag in zip(self.writers, self.flags, strict=True):
            if flag and writer.body:
                body.append(For(f"if ({flag})", tuple(writer.body)))
            else:
                body += writer.body
        if any(writer.results for writer in self.writers):
            body += self.put()
        writer = self.writers[0]
        heads = [writer.loops.loop(d) for d in self.spans[0] if d in writer.loops.fused]
        scope = self.tensors.scope.with_variables(self.variables[0])
        sums: list[Statement] = [
            f"const I {writer.scope.variables[name]} = {scope.expression(form)};"
            for name, form in writer.scope.forms.items()
            if name in writer.scope.used
        ]
        yield from nested(heads, (*sums, *body))

    def put(self) -> tuple[Statement, ...]:
        """Add the results of the blocks and put the sum into the head's cells."""
        writer = self.writers[-1]
        op = writer.block.body[-1]
        assert isinstance(op, Put)
        before = {"write": "", "add": "true"}.get(op.mode, "mixed")
        scale = writer.place(op.cells, "scale")
        heads = [writer.loops.loop(d) for d in scale.index if d not in writer.loops.fused]
        results = [(flag, result) for flag, (result,) in self.results()]
        if self.chart_of[op.cells.name].is_scalar:
            text, free = self.log_sum(results, before, scale.text)
            if free and heads:
                heads[-1] = f"LOOP {heads[-1]}"
            return nested(heads, (f"{scale.text} = {text};",))
        cell = writer.place(op.cells)
        _, width = strides_of(op.cells.axes, writer.block.sizes)
        parts = []
        if before:
            own = cell.text if before == "true" else f"{before} ? {cell.text} : nullptr"
            parts.append(f"{{{own}, {scale.text}, 0}}")
        for flag, result in results:
            assert result.values is not None
            values = result.values.text
            if flag:
                # A parameter as it is: it is no pointer, but it has one.
                pointer = f"{values}.at" if values in self.tensors.parameters else values
                values = f"{flag} ? {pointer} : nullptr"
            parts.append(f"{{{values}, {result.scale}, {result.depth}}}")
        given = parts[0] if len(parts) == 1 and not self.flags[0] else f"{{{', '.join(parts)}}}"
        put = f"put<{width}>({cell.text}, {scale.text}, {given}, {self.item});"
        return nested(heads, (put,))

    def results(self) -> Iterator[tuple[str, list[Result]]]:
        """The result of each block."""
        for writer, flag in zip(self.writers, self.flags, strict=True):
            yield flag, writer.results

    def log_sum(
        self, results: Sequence[tuple[str, Result]], before: str, own: str
    ) -> tuple[str, bool]:
        """The scale of a cell that is one number, and whether items are independent loops."""
        parts = [own if before == "true" else f"({before} ? {own} : NEGATIVE)"] if before else []
        free = not before and len(results) == 1
        for flag, result in results:
            text = result.scale
            if result.values is not None:
                number = result.values.text
                text = f"range.log({number}, {text}, {result.depth}, {self.item})"
                free = False
            parts.append(f"({flag} ? {text} : NEGATIVE)" if flag else text)
        return folded("log_add", parts), free
