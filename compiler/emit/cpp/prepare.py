"""What comes before the charts, and how gradients go back through it, as C++.

Every preparation of a plan is a function that makes a tensor, and one that adds the gradient of
that tensor to those of what it is made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from fgg.compiler.emit.cpp.block import Tensors
from fgg.compiler.emit.cpp.layout import INDENT, For, Statement, comment, laid_out, nested
from fgg.compiler.emit.cpp.loops import Loops
from fgg.compiler.emit.cpp.memory import Later, Memory, Term, Value, strides_of
from fgg.compiler.emit.cpp.names import Names
from fgg.compiler.emit.potentials import tests_of
from fgg.compiler.emit.readable import plain
from fgg.factors.maps import map_values
from fgg.grammar.domains import domain_size
from fgg.grammar.slices import Narrow, Unfold
from fgg.inputs.clamps import path_steps
from fgg.plan import Contract, Cut, Gather, Indicator, OneHot, Plan, Potential, Preparation
from fgg.plan.cpp_source import Argument, Made
from fgg.plan.kernel import BATCH

INDICES = "ijklmnopqr"
"""What the indices of a table are called."""


@dataclass(frozen=True)
class Shape:
    """The input axes that a tensor's positions are those of (None: it has none), and its states."""

    positions: tuple[tuple[str, int], ...] | None
    states: tuple[int, ...]
    constant: bool = False

    @property
    def rank(self) -> int:
        """How many indices come before the items."""
        return len(self.positions or ())

    @property
    def width(self) -> int:
        """How many numbers a cell has, or 0 if it is one number."""
        return prod(self.states) if self.states else 0


def shapes_of(plan: Plan) -> dict[str, Shape]:
    """The shapes of parameters and of all that is prepared."""
    grammar = plan.grammar
    shapes: dict[str, Shape] = {}
    for name in plan.parameters:
        domains = grammar.factor[name].domains
        shapes[name] = Shape(None, tuple(domain_size(grammar, d) for d in domains))
    for step in plan.preparations:
        shapes[step.name] = shape_of(plan, step, shapes)
    return shapes


def shape_of(plan: Plan, step: Preparation, shapes: dict[str, Shape]) -> Shape:
    """The shape of what a step makes."""
    grammar = plan.grammar
    match step:
        case Cut():
            source = shapes[step.source]
            axes, _ = cut_axes(source.states, step.steps)
            return Shape(None, tuple(size for size, _ in axes), source.constant)
        case Contract():
            sizes: dict[str, int] = {}
            positions: dict[str, tuple[str, int]] = {}
            constant = True
            for name, axes_ in step.operands:
                shape = shapes[name]
                states = [axis for axis in axes_ if not axis.startswith("#")]
                sizes |= zip(states, shape.states, strict=True)
                indices = [axis for axis in axes_ if axis.startswith("#")]
                positions |= zip(indices, shape.positions or (), strict=True)
                constant = constant and shape.constant
            kept = tuple(sizes[axis] for axis in step.axes if not axis.startswith("#"))
            places = tuple(positions[axis] for axis in step.axes if axis.startswith("#"))
            return Shape(places if step.tables else None, kept, constant)
        case Gather():
            source = shapes[step.source]
            read = {token.axis for token in step.tokens}
            groups = {token.group: token.input for token in reversed(step.tokens)}
            inputs = [groups[group] for group in sorted(groups)]
            ranks = [(name, len(grammar.input[name].shape)) for name in inputs]
            places = tuple((name, axis) for name, rank in ranks for axis in range(rank))
            states_ = tuple(size for axis, size in enumerate(source.states) if axis not in read)
            return Shape(places, states_, source.constant)
        case Indicator():
            return Shape(None, (len(map_values(grammar, step.name)), step.blocks), constant=True)
        case OneHot():
            rank = len(grammar.input[step.input].shape)
            return Shape(tuple((step.input, k) for k in range(rank)), (step.size,), constant=True)
        case Potential():
            factor = grammar.input_factor[step.factor]
            domains = grammar.input_factor[step.source].domains
            axes, _ = cut_axes([domain_size(grammar, d) for d in domains], step.steps)
            places = tuple((step.source, axis) for axis in range(len(factor.indices)))
            return Shape(places, tuple(size for size, _ in axes))
    raise AssertionError(step)


def cut_axes(
    sizes: Sequence[int], steps: Sequence[Narrow | Unfold]
) -> tuple[list[tuple[int, int]], int]:
    """The sizes and strides of the axes of a part of a tensor, and where it begins."""
    strides, width = [], 1
    for size in reversed(sizes):
        strides.append(width)
        width *= size
    axes = list(zip(sizes, reversed(strides), strict=True))
    first = 0
    for step in steps:
        size, stride = axes[step.axis]
        if isinstance(step, Narrow):
            first += step.offset * stride
            axes[step.axis] = (step.size, stride)
        else:
            inner = []
            for part in step.sizes:
                size //= part
                inner.append((part, size * stride))
            axes[step.axis : step.axis + 1] = inner
    return axes, first


class PrepareWriter:
    """Writes the tensors that preparations read and make, and a function for each step."""

    def __init__(self, tensors: Tensors, names: Names) -> None:
        self.plan = tensors.plan
        self.grammar = self.plan.grammar
        self.names = Names(names)
        self.tensors = tensors
        self.shapes = shapes_of(self.plan)
        known = tensors.identifiers
        self.id = {n: known.get(n) or self.names.get(("tensor", n), n) for n in self.shapes}
        self.maps: dict[str, str] = {}
        self.potentials = tuple(
            dict.fromkeys(s.source for s in self.plan.preparations if isinstance(s, Potential))
        )
        for name in self.grammar.input:
            self.tokens_id(name)
        for name in self.potentials:
            self.logs_id(name)
        for step in self.plan.preparations:
            self.map_ids(step)
        self.arguments: list[Argument] = []
        self.made = tuple(
            Made(
                step.name,
                shape.positions,
                shape.states,
                shape.constant,
                is_scaled(step),
                unfolded(step),
            )
            for step in self.plan.preparations
            for shape in [self.shapes[step.name]]
        )

    # tensors

    def lines(self) -> Iterator[str]:
        """The tensors, and the two passes over the steps."""
        forward, backward = self.functions(back=False), self.functions(back=True)
        for name, identifier in self.maps.items():
            numbers = ", ".join(map(str, map_values(self.grammar, name)))
            yield from laid_out([f"static const int32_t {identifier}[] = {{{numbers}}};"])
        yield "struct Sources : Pass {"
        yield f"{INDENT}using Pass::Pass;"
        yield from (f"{INDENT}const {text};" for text in self.declarations())
        yield "};"
        for title, functions in (("Prepare", forward), ("Through", backward)):
            yield ""
            yield f"struct {title} : Sources {{"
            yield f"{INDENT}using Sources::Sources;"
            yield f"{INDENT}static constexpr bool SHARED = false;"
            for _, lines in functions:
                yield from ("", *lines)
            yield ""
            yield f"{INDENT}void run() override {{"
            yield from (f"{INDENT * 2}if (begin(1)) {name}();" for name, _ in functions)
            if title == "Prepare":
                yield from (f"{INDENT * 2}{line}" for line in self.ends())
            yield f"{INDENT}}}"
            yield "};"
        yield ""

    def declarations(self) -> Iterator[str]:
        """The tensors that a call takes, in order."""
        for length, name in self.tensors.scope.lengths.items():
            yield f"Length {name}{{*this}}"
            self.arguments.append(Argument("length", length, 0))
        for item in self.grammar.inputs:
            rank = len(item.shape)
            yield f"Tokens<{rank}> {self.tokens_id(item.name)}{{*this}}"
            self.arguments.append(Argument("tokens", item.name, rank))
        for name in self.plan.parameters:
            size = prod(self.shapes[name].states)
            yield f"Parameter<{size}> {self.id[name]}{{*this}}"
            self.arguments.append(Argument("parameter", name, 0))
        for name in self.potentials:
            factor = self.grammar.input_factor[name]
            width = prod(domain_size(self.grammar, d) for d in factor.domains)
            rank = len(factor.indices)
            yield f"Logs<{rank}, {width}> {self.logs_id(name)}{{*this}}"
            self.arguments.append(Argument("logs", name, rank))
        for made in self.made:
            shape = self.shapes[made.name]
            if shape.positions is None:
                yield f"Made<{prod(shape.states)}> {self.id[made.name]}{{*this}}"
            else:
                yield f"Table<{shape.rank}, {shape.width}> {self.id[made.name]}{{*this}}"
            self.arguments.append(Argument("made", made.name, shape.rank))

    def tokens_id(self, name: str) -> str:
        """The tokens of an input."""
        return self.names.get(("tokens", name), name, f"{name}_tokens")

    def logs_id(self, name: str) -> str:
        """The log-potentials of an input factor."""
        return self.names.get(("logs", name), name, f"{name}_logs")

    def ends(self) -> Iterator[str]:
        """The least and the greatest entry of all leaves that are made here."""
        for number, made in enumerate(m for m in self.made if m.name in self.plan.leaves):
            shape, name = self.shapes[made.name], self.id[made.name]
            count = prod(shape.states) if shape.positions is None else f"{name}.count"
            yield f"ends({number}, {name}.at, {count});"

    # steps

    def functions(self, *, back: bool) -> list[tuple[str, list[str]]]:
        """The name and the lines of the function of each step that has any."""
        names = Names(self.names)
        functions = []
        for step in self.plan.preparations:
            if unfolded(step) or (back and self.shapes[step.name].constant):
                continue
            title = names.get(object(), f"{'through' if back else 'make'}_{self.id[step.name]}")
            writer = StepWriter(self, step, names)
            body = writer.statements(back=back)
            lines = list(comment(plain(about(step)), 1)) if not back else []
            lines.append(f"{INDENT}SEPARATE void {title}() {{")
            lines += laid_out(body, 2)
            lines.append(f"{INDENT}}}")
            functions.append((title, lines))
        return functions[::-1] if back else functions

    def map_ids(self, step: Preparation) -> None:
        """Name the maps that a step reads."""
        paths: list[tuple[str, tuple[str, ...]]] = []
        match step:
            case Indicator():
                self.map_id(step.name)
            case OneHot():
                paths = [(step.input, step.path)]
            case Gather():
                paths = [(token.input, token.path) for token in step.tokens]
        for name, path in paths:
            for part in path_steps(self.grammar, self.grammar.input[name].domain, path):
                if isinstance(part, str):
                    self.map_id(part)

    def map_id(self, name: str) -> str:
        """A map as a list of numbers."""
        return self.maps.setdefault(name, self.names.get(("map", name), f"{name}_blocks"))


def is_scaled(step: Preparation) -> bool:
    """Whether what a step makes has scales."""
    return isinstance(step, Potential)


def unfolded(step: Preparation) -> str:
    """The tensor of which a step only unfolds axes; empty if it does anything else."""
    if isinstance(step, Cut) and all(isinstance(part, Unfold) for part in step.steps):
        return step.source
    return ""


def about(step: Preparation) -> str:
    """What a step makes, for people."""
    match step:
        case Contract():
            return f"{step.name} = {' · '.join(name for name, _ in step.operands)}"
        case Cut():
            return f"{step.name}: a part of {step.source}"
        case Gather():
            return (
                f"{step.name}: {step.source} at tokens of {', '.join(t.input for t in step.tokens)}"
            )
        case Indicator():
            return f"{step.name}: a map"
        case OneHot():
            return f"{step.name}: which value the tokens of {step.input} have"
        case Potential():
            return f"{step.name}: the log-potentials {step.source} as weights with scales"


class StepWriter:
    """Writes one preparation, or its adjoint."""

    def __init__(self, writer: PrepareWriter, step: Preparation, names: Names) -> None:
        self.writer = writer
        self.plan = writer.plan
        self.step = step
        self.names = Names(names)
        self.shape = writer.shapes[step.name]
        self.target = writer.id[step.name]
        self.item = self.names.get(BATCH, "b", "item")
        self.indices = [self.names.get(("index", k), INDICES[k]) for k in range(self.shape.rank)]

    def statements(self, *, back: bool) -> list[Statement]:
        """What the function does."""
        match self.step:
            case Contract():
                return self.contract(self.step, back=back)
            case Cut():
                return self.cut(self.step, back=back)
            case Gather():
                return self.gather(self.step, back=back)
            case Indicator():
                values = self.writer.map_id(self.step.name)
                rows, blocks = self.shape.states
                v, c = self.names.get("value", "v"), self.names.get("block", "c")
                code = f"{self.target}.at[{v} * {blocks} + {c}] = {values}[{v}] == {c};"
                sizes = ((v, rows), (c, blocks))
                heads = [f"for (I {x} = 0; {x} < {size}; ++{x})" for x, size in sizes]
                return list(nested(heads, (code,)))
            case OneHot():
                v, x = self.names.get("value", "v"), self.names.get("token", "x")
                token = self.token(self.step.input, self.step.path, self.indices)
                loop = f"LOOP for (I {v} = 0; {v} < {self.step.size}; ++{v})"
                cell = f"{self.cell()}[{v}] = {v} == {x};"
                return self.over_cells([f"const I {x} = {token};", For(loop, (cell,))])
            case Potential():
                return self.potential(self.step, back=back)

    def cell(self, part: str = "") -> str:
        """The cell of the table at its indices."""
        at = ", ".join([*self.indices, self.item])
        return f"{self.target}{part}({at})"

    def over_cells(self, body: Sequence[Statement]) -> list[Statement]:
        """Statements for each cell of the table."""
        heads = [
            f"for (I {i} = 0; {i} < {self.target}.size[{k}]; ++{i})"
            for k, i in enumerate(self.indices)
        ]
        return list(nested([*heads, f"for (I {self.item} : items)"], body))

    def loops(self, sizes: dict[str, int], spans: dict[str, str] | None = None) -> Loops:
        """A writer of sums of products."""
        variables = {axis: self.names.get(("axis", axis), axis) for axis in sizes}
        variables |= {f"#{k}": i for k, i in enumerate(self.indices)} | {BATCH: self.item}
        return Loops(spans or {}, variables, sizes, Names(self.names))

    # products

    def contract(self, step: Contract, *, back: bool) -> list[Statement]:
        """A product of other tensors, by pairs."""
        sizes: dict[str, int] = {}
        positions = [axis for _, axes in step.operands for axis in axes if axis.startswith("#")]
        positions = sorted(dict.fromkeys(positions), key=lambda axis: int(axis[1:]))
        owner = {axis: name for name, axes in step.operands for axis in axes}
        for name, axes in step.operands:
            states = [axis for axis in axes if not axis.startswith("#")]
            sizes |= zip(states, self.writer.shapes[name].states, strict=True)
        spans: dict[str, str] = {}
        lines: list[Statement] = []
        self.indices = [self.names.get(("index", k), INDICES[k]) for k in range(len(positions))]
        for index, axis in zip(self.indices, positions, strict=True):
            spans[axis] = self.names.get(("span", axis), f"{index}s")
            source, axes = owner[axis], dict(step.operands)[owner[axis]]
            extent = f"{self.writer.id[source]}.size[{axes.index(axis)}]"
            lines.append(f"const Span {spans[axis]} = {{0, {extent} - 1}};")
        if step.tables:
            spans[BATCH] = "items"
        loops = self.loops(sizes, spans)
        values: list[Value] = [
            Term(self.dims(name, axes), (self.memory(loops, name, axes),))
            for name, axes in step.operands
        ]
        for pair in step.path:
            keep = with_items(pair.keep) if step.tables else pair.keep
            values.append(Later(keep, values[pair.left], values[pair.right]))
        if not back:
            target = self.memory(loops, step.name, step.axes)
            loops.assign(target, self.summed(loops.term(values[-1]), target))
            return [*lines, *loops.arrays, *loops.body]
        slope = self.memory(loops, step.name, step.axes, ".adjoint")
        slopes: dict[int, Value] = {len(values) - 1: Term(values[-1].dims, (slope,))}
        for number in reversed(range(len(step.operands), len(values))):
            pair = step.path[number - len(step.operands)]
            left, right = values[pair.left], values[pair.right]
            slopes[pair.left] = Later(left.dims, slopes[number], right)
            slopes[pair.right] = Later(right.dims, slopes[number], left)
        for number, (name, axes) in enumerate(step.operands):
            if self.writer.shapes[name].constant:
                continue
            given = self.memory(loops, name, axes, ".adjoint")
            before = len(loops.body)
            loops.assign(given, loops.term(slopes[number]), add=True)
            if name in self.plan.parameters:
                loops.body[before:] = guarded(self.writer.id[name], loops.body[before:])
        return [*lines, *loops.arrays, *loops.body]

    def summed(self, term: Term, target: Memory) -> Term:
        """A term whose axes are those of a target."""
        return Term(tuple(target.dims), term.left, term.right)

    def dims(self, name: str, axes: Sequence[str]) -> tuple[str, ...]:
        """The axes of an operand, with that of the items if it is a table."""
        axes = tuple(dict.fromkeys(axes))
        return with_items(axes) if self.writer.shapes[name].positions is not None else axes

    def memory(self, loops: Loops, name: str, axes: Sequence[str], part: str = "") -> Memory:
        """Where a tensor lies."""
        shape, identifier = self.writer.shapes[name], self.writer.id[name]
        states = [axis for axis in axes if not axis.startswith("#")]
        strides, width = strides_of(states, loops.sizes)
        if shape.positions is None:
            text = f"{identifier}{part}" if part else f"{identifier}.at"
            return Memory(text if width else f"{text}[0]", (), strides, width)
        indices = [axis for axis in axes if axis.startswith("#")]
        place = f"{identifier}{part}"

        def at(variables: dict[str, str]) -> str:
            return f"{place}({', '.join(variables[d] for d in (*indices, BATCH))})"

        steps = {axis: f"{place}.stride[{k}]" for k, axis in enumerate(indices)}
        steps[BATCH] = str(max(width, 1))
        return Memory(
            at(dict(loops.variables)),
            (*indices, BATCH),
            strides,
            width,
            steps,
            at=at,  # type: ignore[arg-type]
        )

    # parts

    def cut(self, step: Cut, *, back: bool) -> list[Statement]:
        """A part of another tensor."""
        axes, first = cut_axes(self.writer.shapes[step.source].states, step.steps)
        names = [f"x{k}" for k in range(len(axes))]
        loops = self.loops({name: size for name, (size, _) in zip(names, axes, strict=True)})
        strides = {name: stride for name, (_, stride) in zip(names, axes, strict=True)}
        width = prod(self.writer.shapes[step.source].states)
        part = ".adjoint" if back else ".at"
        text = f"{self.writer.id[step.source]}{part}"
        whole = Memory(f"({text} + {first})" if first else text, (), strides, width)
        own = self.memory(loops, step.name, names, ".adjoint" if back else "")
        if back:
            loops.body += loops.nest(whole, (own,), add=True)
            if step.source in self.plan.parameters:
                return guarded(self.writer.id[step.source], loops.body)
        else:
            loops.body += loops.nest(own, (whole,), add=False)
        return [*loops.arrays, *loops.body]

    # entries at tokens

    def gather(self, step: Gather, *, back: bool) -> list[Statement]:
        """The entries of a parameter at tokens; zero where one is impossible."""
        source = self.writer.shapes[step.source].states
        axes, _ = cut_axes(source, ())
        tokens, places, tests = [], [], []
        for number, token in enumerate(step.tokens):
            before = sum(
                len(self.plan.grammar.input[name].shape)
                for group, name in {t.group: t.input for t in step.tokens}.items()
                if group < token.group
            )
            rank = len(self.plan.grammar.input[token.input].shape)
            own = self.indices[before : before + rank]
            x = self.names.get(("token", number), "xyz"[number] if number < 3 else f"x{number}")
            tokens.append(f"const I {x} = {self.token(token.input, token.path, own, token.shift)};")
            stride = axes[token.axis][1]
            places.append(x if stride == 1 else f"{x} * {stride}")
            tests.append(f"{x} < 0")
        read = {token.axis for token in step.tokens}
        kept = {f"x{k}": axis for k, axis in enumerate(axes) if k not in read}
        loops = self.loops({name: size for name, (size, _) in kept.items()})
        strides = {name: stride for name, (_, stride) in kept.items()}
        name = self.writer.id[step.source]
        start = f"{name}.{'adjoint' if back else 'at'} + {' + '.join(places)}"
        if not kept:
            there = Memory(f"({start})[0]", (), {}, 0)
        else:
            there = Memory("entries", (), strides, prod(source))
        width = self.shape.width
        text = self.cell(".adjoint" if back else "")
        own_strides, _ = strides_of(list(kept), loops.sizes)
        here = Memory(text, (), own_strides, width)
        pointer = [f"{'' if back else 'const '}T* const {there.text} = {start};"] if kept else []
        if back:
            body = loops.nest(there, (here,), add=True)
            inner: list[Statement] = [*tokens, f"if ({' || '.join(tests)}) continue;"]
            statements = self.over_cells([*inner, *pointer, *body])
            is_given = step.source in self.plan.parameters
            return guarded(name, statements) if is_given else statements
        body = loops.nest(here, (there,), add=False)
        zero = f"zero<{width}>({text});" if width else f"{text} = 0;"
        bad = For(f"if ({' || '.join(tests)})", (zero, "continue;"))
        return self.over_cells([*tokens, bad, *pointer, *body])

    def token(
        self, name: str, path: Sequence[str], indices: Sequence[str], shift: Sequence[int] = ()
    ) -> str:
        """A token of an input, or what a path leads to from there."""
        moved = [
            i if not s else f"{i} {'+' if s > 0 else '-'} {abs(s)}"
            for i, s in zip(indices, shift or [0] * len(indices), strict=True)
        ]
        method = ".find" if any(shift) else ""
        code = f"{self.writer.tokens_id(name)}{method}({', '.join([*moved, self.item])})"
        grammar = self.plan.grammar
        for part in path_steps(grammar, grammar.input[name].domain, path):
            if isinstance(part, str):
                code = f"block_of({code}, {self.writer.map_id(part)})"
            else:
                sizes = (part.offset, part.size, part.stride, part.period)
                code = f"part_of({code}, {', '.join(map(str, sizes))})"
        return code

    # log-potentials

    def potential(self, step: Potential, *, back: bool) -> list[Statement]:
        """Log-potentials as weights with scales: zero where a condition does not hold."""
        grammar = self.plan.grammar
        factor = grammar.input_factor[step.factor]
        domains = grammar.input_factor[step.source].domains
        axes, first = cut_axes([domain_size(grammar, d) for d in domains], step.steps)
        variables = dict(zip(factor.indices, self.indices, strict=True))
        scope = self.writer.tensors.scope.with_variables({**variables, BATCH: self.item})
        forms = list(tests_of(self.plan, step))
        tests = [scope.holds(expr) for mixed, expr in forms if not mixed]
        own = " && ".join(scope.holds(expr) for mixed, expr in forms if mixed)
        if own:
            own = f"!mixed || ({own})" if "&&" in own else f"!mixed || {own}"
            tests.append(f"({own})" if tests else own)
        logs = self.writer.logs_id(step.source)
        at = ", ".join([*self.indices, self.item])
        start = f"{logs}{'.adjoint' if back else ''}({at}){f' + {first}' if first else ''}"
        names = [f"x{k}" for k in range(len(axes))]
        loops = self.loops({name: size for name, (size, _) in zip(names, axes, strict=True)})
        strides = {name: stride for name, (_, stride) in zip(names, axes, strict=True)}
        there = Memory("entries", (), strides, 1)
        width = max(self.shape.width, 1)
        lying, _ = strides_of(names, loops.sizes)
        cell = self.cell() if self.shape.width else f"&{self.cell()}"
        if back:
            slope = self.cell(".adjoint") if self.shape.width else f"&{self.cell('.adjoint')}"
            factors = (Memory("slope", (), lying, 1), Memory("weight", (), lying, 1))
            body: list[Statement] = [
                f"T* const entries = {start};",
                f"const T *const slope = {slope}, *const weight = {cell};",
                *loops.nest(there, factors, add=True),
            ]
            return guarded(logs, self.over_cells(body))
        copy = loops.nest(Memory("logs", (), lying, 1), (there,), add=False)
        live = [f"if ({' && '.join(tests)})"] if tests else []
        scale = f"{self.target}.scale({at})"
        dead = For("else", ("for (T& entry : logs) entry = -INFINITY;",))
        return self.over_cells(
            [
                f"T logs[{width}];",
                f"const T* const entries = {start};",
                *nested(live, copy),
                *([dead] if tests else []),
                f"potential<{width}>({cell}, {scale}, logs, {self.item});",
            ]
        )


def with_items(axes: Sequence[str]) -> tuple[str, ...]:
    """Axes of a table with that of the items: it comes after the indices."""
    rank = sum(axis.startswith("#") for axis in axes)
    return (*axes[:rank], BATCH, *axes[rank:])


def guarded(name: str, statements: Sequence[Statement]) -> list[Statement]:
    """Statements that are carried out if a gradient is wanted."""
    return [For(f"if ({name}.adjoint)", tuple(statements))]
