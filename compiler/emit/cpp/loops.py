"""Sums of products as C++: loops over points and states, or matrix products."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from fgg.compiler.emit.cpp.layout import For, Statement, nested
from fgg.compiler.emit.cpp.memory import Later, Memory, Term, Value, dims_of, strides_of
from fgg.compiler.emit.cpp.names import Names
from fgg.plan.kernel import BATCH

MANY = 16
"""How long a loop is taken to be whose length is not known."""
LEAST_SIDE = 4
LEAST_WORK = 2048
LEAST_EACH = 32768
"""From how many entries a side, and multiplications, a matrix product is worth a call; if there is
one for each cell, they are to be larger."""
MOST_FACTORS = 4
POINTERS = ("to", "x", "y", "z", *(f"x{number}" for number in range(4, 20)))
"""What pointers to the cells of a sum and of its factors are called."""


@dataclass(frozen=True)
class Matrices:
    """A sum of products as matrix products: one for each value of `batch`."""

    left: tuple[Memory, ...]
    right: tuple[Memory, ...]
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]

    def turned(self) -> Matrices:
        """The product of the transposes."""
        return replace(self, left=self.right, right=self.left, rows=self.columns, columns=self.rows)


class Loops:
    """Writes sums of products over the axes of one block.

    `spans` are the ranges of its loops and of the items, in order; every other axis is one of
    states, whose size is known. `fused` are axes whose loops stand around everything.
    """

    def __init__(
        self,
        spans: Mapping[str, str],
        variables: Mapping[str, str],
        sizes: Mapping[str, int],
        names: Names,
        fused: Iterable[str] = (),
    ) -> None:
        self.spans = spans
        self.variables = variables
        self.sizes = sizes
        self.names = names
        self.fused = frozenset(fused)
        self.points = tuple(spans)
        self.all = tuple(dict.fromkeys((*spans, *sizes)))
        # Room for intermediate results, then what is done.
        self.arrays: list[Statement] = []
        self.body: list[Statement] = []
        self.packs: dict[object, str] = {}
        self.forced_terms: dict[int, tuple[Value, Term]] = {}
        # Whether a matrix product has positions in its rows, columns or sums.
        self.crosses = False

    # room

    def order_of(self, dims: Iterable[str]) -> tuple[str, ...]:
        """Axes in the order in which they lie in intermediate results: points, then states."""
        wanted = set(dims)
        return tuple(d for d in self.all if d in wanted)

    def array(self, stem: str, dims: Sequence[str], kind: str = "T") -> Memory:
        """Room for an intermediate result, with axes in this order."""
        dims = tuple(d for d in dims if d not in self.fused)
        last = max((i for i, d in enumerate(dims) if d in self.spans), default=-1)
        index, states = dims[: last + 1], dims[last + 1 :]
        strides, width = strides_of(states, self.sizes)
        name = self.names.get(object(), stem)
        if not index:
            self.arrays.append(f"{kind}* const {name} = room.some<{kind}>({max(width, 1)});")
            text = name if width else f"{name}[0]"
            return Memory(text, (), strides, width, array=name, axes=dims, at=lambda _: text)
        of = f"{kind}, {width}" if width else kind
        self.arrays.append(
            f"const auto {name} = room.cells<{of}>({', '.join(map(self.span, index))});"
        )

        def at(variables: Mapping[str, str]) -> str:
            return f"{name}({', '.join(variables[d] for d in index)})"

        text = at(self.variables)
        return Memory(text, index, strides, width, array=name, axes=dims, at=at)

    def span(self, d: str) -> str:
        """The range of an axis."""
        return self.spans[d] if d in self.spans else f"Span{{0, {self.sizes[d] - 1}}}"

    def start(self, memory: Memory) -> str:
        """A pointer to the first number of an array."""
        if not memory.index:
            return memory.array
        return f"{memory.array}.at"

    # values

    def term(self, value: Value) -> Term:
        """A value as a product of memories: what it is made from is carried out."""
        if not isinstance(value, Later):
            return value
        left, right = self.forced(value.left), self.forced(value.right)
        left, right = self.once(value.left, left, right), self.once(value.right, right, left)
        return Term(value.dims, left.factors, right.factors)

    def once(self, value: Value, term: Term, other: Term) -> Term:
        """A term of a product; carried out if the product would repeat what it multiplies."""
        dims = [factor.strides.keys() for factor in term.factors]
        again = dims_of(other.factors) - dims_of(term.factors) - self.fused
        if again and any(one & two for one, two in combinations(dims, 2)):
            term = self.computed(term)
            self.forced_terms[id(value)] = value, term
        return term

    def forced(self, value: Value) -> Term:
        """A term without sums; carried out once."""
        if id(value) not in self.forced_terms:
            term = self.term(value)
            if term.summed or len(term.factors) > MOST_FACTORS:
                term = self.computed(term)
            # The value is kept, so that nothing else gets its identity.
            self.forced_terms[id(value)] = value, term
        return self.forced_terms[id(value)][1]

    def computed(self, term: Term) -> Term:
        """A term that has been carried out."""
        dims = self.order_of(term.dims)
        target = self.array("v", dims)
        self.assign(target, term)
        return Term(dims, (target,))

    def assign(self, target: Memory, term: Term, *, add: bool = False) -> None:
        """Writes a term into memory (or adds it), repeated along axes that it lacks."""
        matrices = self.matrices(target, term)
        if matrices is not None:
            self.multiply(target, matrices, add)
        else:
            self.body += self.nest(target, term.factors, add=add)

    # loops

    def nest(
        self, target: Memory, factors: Sequence[Memory], fixed: Iterable[str] = (), *, add: bool
    ) -> tuple[Statement, ...]:
        """Loops over all axes but those fixed; the product is written to the target or added."""
        bound = self.fused | {*fixed}
        if not add and len(factors) == 1 and self.lie_alike(target, factors[0]):
            points = [d for d in self.points if d in target.index and d not in bound]
            copy = f"copy<{target.width}>({target.text}, {factors[0].text});"
            return nested([self.loop(d) for d in points], (copy,))
        target, *factors = self.flattened([target, *factors])
        points, outer, inner = self.order(target, factors, bound)
        loops = [*points, *outer]
        pointers, (target, *factors) = self.pointers([target, *factors], loops, inner)
        # Where only the innermost loop sums up, the sum is written.
        summed = [d for d in (*loops, inner) if d and d not in target.dims]
        if not add and summed and summed != [inner]:
            depth = sum(d in target.dims for d in points) if target.width else 0
            pointers[depth].append(self.cleared(target))
            add = True
        body = self.innermost(target, factors, inner, add=add)
        for depth in reversed(range(len(loops))):
            body = (For(self.loop(loops[depth]), (*pointers[depth + 1], *body)),)
        statements = (*pointers[0], *body)
        # Variables are to be those of this sum alone.
        return (For("", statements),) if len(statements) > 1 else statements

    def lie_alike(self, target: Memory, source: Memory) -> bool:
        """Whether cells have the same numbers at the same places, and there are no others."""
        if not target.width or target.width != source.width or target.strides != source.strides:
            return False
        whole = strides_of(tuple(target.strides), self.sizes)[1] == target.width
        return whole and {*source.index} <= {*target.index} <= {*self.points}

    def pointers(
        self, memories: Sequence[Memory], loops: Sequence[str], inner: str | None
    ) -> tuple[list[list[Statement]], list[Memory]]:
        """Pointers to cells, by the number of loops that they stand in, and what they point to."""
        texts: list[dict[str, str]] = [{} for _ in range(len(loops) + 1)]
        places: list[Memory] = []
        free = iter(POINTERS[1:])
        for memory in memories:
            if memory.width and memory.index and inner not in memory.index:
                depth = max((loops.index(d) + 1 for d in memory.index if d in loops), default=0)
                name = next(free) if places else POINTERS[0]
                name = self.names.get(("pointer", name), name)
                texts[depth][name] = memory.text
                memory = replace(memory, text=name)
            places.append(memory)
        to = self.names.get(("pointer", POINTERS[0]), POINTERS[0])
        statements: list[list[Statement]] = []
        for some in texts:
            lines: list[Statement] = [f"T* const {to} = {some.pop(to)};"] if to in some else []
            if some:
                read = ", ".join(f"*const {name} = {text}" for name, text in some.items())
                lines.append(f"const T {read};")
            statements.append(lines)
        return statements, places

    def flattened(self, memories: Sequence[Memory]) -> list[Memory]:
        """Memories with one axis for all states, where they all have the same ones."""
        cells = [memory for memory in memories if memory.width]
        if not cells or len(cells[0].strides) < 2:
            return list(memories)
        first = cells[0]
        strides, width = strides_of(tuple(first.strides), self.sizes)
        same = all(m.strides == first.strides and m.width == first.width for m in cells)
        if not same or first.strides != strides or width != first.width:
            return list(memories)
        if any(d in memory.index for memory in memories for d in first.strides):
            return list(memories)
        flat = "*".join(first.strides)
        self.sizes = {**self.sizes, flat: width}
        self.variables = {**self.variables, flat: self.names.get("flat", "s")}
        self.all = tuple(dict.fromkeys((*self.all, flat)))
        return [replace(m, strides={flat: 1}) if m.width else m for m in memories]

    def cleared(self, target: Memory) -> str:
        """Zeros in a cell, or in a whole intermediate result."""
        if target.width:
            return f"zero<{target.width}>({target.text});"
        return (
            f"{target.array}.fill(0);" if target.array and target.index else f"{target.text} = 0;"
        )

    def innermost(
        self, target: Memory, factors: Sequence[Memory], inner: str | None, *, add: bool
    ) -> tuple[Statement, ...]:
        """The innermost loop: a product, written, added or summed up."""
        sign, place = "+=" if add else "=", target.entry(self.variables)
        entries = [(factor.entry(self.variables), factor) for factor in factors]
        still = [entry for entry, factor in entries if inner not in factor.dims]
        moving = [entry for entry, factor in entries if inner in factor.dims]
        if inner is None:
            return (f"{place} {sign} {' * '.join(still) or '1'};",)
        if inner not in target.dims:
            after = f" * {' * '.join(still)}" if still and moving else ""
            value = " * ".join(moving or still)
            return (
                "T sum = 0;",
                For(f"SUM(sum) {self.counted(inner)}", (f"sum += {value};",)),
                f"{place} {sign} sum{after};",
            )
        body: list[Statement] = []
        if still and len(entries) > 1:
            name = self.names.get("constant", "c")
            body.append(f"const T {name} = {' * '.join(still)};")
            still = [name]
        value = " * ".join([*moving, *still]) or "1"
        return (*body, For(f"LOOP {self.counted(inner)}", (f"{place} {sign} {value};",)))

    def order(
        self, target: Memory, factors: Sequence[Memory], bound: Iterable[str]
    ) -> tuple[list[str], list[str], str | None]:
        """The loops over points, those over states, and the innermost one, if there is any."""
        dims = (target.dims | dims_of(factors)) - set(bound)
        points = [d for d in self.points if d in dims]
        # What is summed comes last, so that the target stays where it is.
        points.sort(key=lambda d: d not in target.dims)
        axes = [d for d in self.order_of(dims) if d not in self.points]
        if not axes and BATCH in points and all(m.affine for m in (target, *factors)):
            # Numbers next to each other are those of the items.
            points.remove(BATCH)
            axes = [BATCH]
        if not axes:
            return points, [], None
        inner = self.inner(target, factors, axes)
        outer = [d for d in axes if d != inner]
        outer.sort(key=lambda d: d not in target.dims)
        return points, outer, inner

    def loop(self, d: str) -> str:
        """The beginning of a loop over an axis."""
        x = self.variables[d]
        return f"for (I {x} : {self.spans[d]})" if d in self.spans else self.counted(d)

    def counted(self, d: str) -> str:
        """The beginning of a loop over an axis, in the form that compilers can vectorise."""
        x = self.variables[d]
        if d in self.spans:
            return f"for (I {x} = {self.spans[d]}.first; {x} <= {self.spans[d]}.last; ++{x})"
        return f"for (I {x} = 0; {x} < {self.sizes[d]}; ++{x})"

    def inner(self, target: Memory, factors: Sequence[Memory], axes: Sequence[str]) -> str:
        """The axis of the innermost loop: one whose entries lie next to each other."""

        def near(memory: Memory, d: str) -> bool:
            if d in memory.strides:
                return memory.strides[d] == 1
            return memory.index[-1] == d and not memory.width

        def key(d: str) -> tuple[bool, int, int]:
            size = self.sizes.get(d, MANY)
            memories = [m for m in (target, *factors) if d in m.dims]
            if d in target.dims:
                rank = 0 if all(near(m, d) for m in memories) else 2 if near(target, d) else 3
            else:
                rank = 1 if all(near(m, d) for m in memories) else 3
            return size < LEAST_SIDE, rank, -size

        return min(axes, key=key)

    # matrix products

    def matrices(self, target: Memory, term: Term) -> Matrices | None:
        """How a term is a matrix product, if it is one that is worth it."""
        left, right = dims_of(term.left) - self.fused, dims_of(term.right) - self.fused
        there = target.dims - self.fused
        if not term.left or not term.right or there - (left | right) or ((left ^ right) - there):
            return None
        product = Matrices(
            term.left,
            term.right,
            self.order_of(left & right & there),
            self.order_of((left & there) - right),
            self.order_of((right & there) - left),
            self.order_of((left & right) - there),
        )
        work = 1
        for group in (product.rows, product.columns, product.inner):
            side = 1
            for d in group:
                side *= self.sizes.get(d, MANY)
            if side < LEAST_SIDE:
                return None
            work *= side
        if work < (LEAST_EACH if product.batch or self.fused else LEAST_WORK):
            return None
        # Points are rows, so that the result lies as cells do.
        if not any(d in self.spans for d in product.rows):
            if any(d in self.spans for d in product.columns):
                return product.turned()
        return product

    def multiply(self, target: Memory, product: Matrices, add: bool) -> None:
        """Writes a term as matrix products; what does not lie as a matrix is copied."""
        rows, columns, inner, batch = product.rows, product.columns, product.inner, product.batch
        crossing = {d for d in (*rows, *columns, *inner) if d in self.spans and d != BATCH}
        self.crosses |= bool(crossing)
        body: list[Statement] = []
        sides = [
            self.side(product.left, rows, inner, batch, body),
            self.side(product.right, inner, columns, batch, body),
        ]
        straight = not target.shared and self.is_matrix(target, rows, columns)
        result = target if straight else self.array("product", (*rows, *columns))
        sides.append((self.first_of(result, batch), self.strides(result, rows, columns)))
        counts = [self.count(group) for group in (rows, columns, inner)]
        matrices = [f"{{{at}, {first}, {second}}}" for at, (first, second) in sides]
        over = ", true" if add and straight else ""
        body.append(f"matmul({', '.join([*counts, *matrices])}{over});")
        if not straight:
            body += self.nest(target, (result,), batch, add=add)
        self.body += nested([self.loop(d) for d in batch], body)

    def count(self, dims: Sequence[str]) -> str:
        """The product of the lengths of axes."""
        number = 1
        spans = []
        for d in dims:
            if d in self.spans:
                spans.append(f"{self.spans[d]}.n()")
            else:
                number *= self.sizes[d]
        return " * ".join([*([str(number)] if number > 1 or not spans else []), *spans])

    def side(
        self,
        factors: Sequence[Memory],
        first: Sequence[str],
        second: Sequence[str],
        batch: Sequence[str],
        body: list[Statement],
    ) -> tuple[str, tuple[str, str]]:
        """A factor of a matrix product: where it begins, and the strides of rows and columns."""
        if len(factors) == 1 and self.is_matrix(factors[0], first, second):
            return self.first_of(factors[0], batch), self.strides(factors[0], first, second)
        order = self.natural(factors, (*first, *second), first, second)
        key = (tuple(factor.key for factor in factors), order)
        if not batch and key in self.packs:
            return self.packs[key], self.dense(order, first, second)
        if self.lies_in_order(factors, order, batch):
            (memory,) = factors
            points = [d for d in order if d in self.spans]
            copy = self.array("packed", order)
            arguments = ", ".join(f"I {self.variables[d]}" for d in points)
            spans = ", ".join(self.spans[d] for d in points)
            name = self.names.get(object(), "matrix")
            body.append(
                f"const T* const {name} = rows({copy.array}, [&]({arguments}) "
                f"{{ return {memory.text}; }}, {spans});"
            )
        else:
            copy = self.array("matrix", order)
            body += self.nest(copy, factors, batch, add=False)
            name = self.start(copy)
        if not batch:
            self.packs[key] = name
        return name, self.dense(order, first, second)

    def natural(
        self,
        factors: Sequence[Memory],
        dims: Sequence[str],
        first: Sequence[str],
        second: Sequence[str],
    ) -> tuple[str, ...]:
        """The order of axes for a copy: rows and columns, or columns and rows; points first."""
        orders = [(*first, *second), (*second, *first)]

        def key(order: tuple[str, ...]) -> tuple[bool, bool]:
            is_point = [d in self.spans for d in order]
            sorted_points = is_point == sorted(is_point, reverse=True)
            last = order[-1]
            near = any(factor.strides.get(last) == 1 for factor in factors)
            return not sorted_points, not near

        return min(orders, key=key)

    def lies_in_order(
        self, factors: Sequence[Memory], order: Sequence[str], batch: Sequence[str]
    ) -> bool:
        """Whether cells of one memory need only be put one behind the other."""
        if len(factors) != 1 or not factors[0].affine or not factors[0].width:
            return False
        memory = factors[0]
        points = [d for d in order if d in self.spans]
        states = [d for d in order if d not in self.spans]
        if tuple(order) != (*points, *states) or not points or len(points) > 4:
            return False
        if {*memory.index} - {*batch} - self.fused != {*points}:
            return False
        strides, width = strides_of(states, self.sizes)
        return width == memory.width and strides == dict(memory.strides)

    def is_matrix(self, memory: Memory, first: Sequence[str], second: Sequence[str]) -> bool:
        """Whether a memory is a matrix as it lies."""
        strides = self.strides(memory, first, second)
        return "" not in strides and "1" in strides

    def strides(
        self, memory: Memory, first: Sequence[str], second: Sequence[str]
    ) -> tuple[str, str]:
        """The strides of rows and columns in a memory; nothing where there is no such stride."""
        return self.merged(memory, first), self.merged(memory, second)

    def dense(
        self, order: Sequence[str], first: Sequence[str], second: Sequence[str]
    ) -> tuple[str, str]:
        """The strides of rows and columns of numbers that lie in an order."""
        if tuple(order[: len(first)]) == tuple(first):
            return self.count(second), "1"
        return "1", self.count(first)

    def merged(self, memory: Memory, dims: Sequence[str]) -> str:
        """The stride of several axes taken as one, if they lie one behind the other."""
        if not dims:
            return "1"
        if memory.array:
            if len({*memory.axes}) < len(memory.axes):
                return ""
            place = memory.axes.index(dims[0])
            if memory.axes[place : place + len(dims)] != tuple(dims):
                return ""
            return self.count(memory.axes[place + len(dims) :])
        if len(dims) == 1 and dims[0] in memory.steps:
            return memory.steps[dims[0]]
        if not all(d in memory.strides for d in dims):
            return ""
        for one, two in pairwise(dims):
            if memory.strides[one] != memory.strides[two] * self.sizes[two]:
                return ""
        return str(memory.strides[dims[-1]])

    def first_of(self, memory: Memory, batch: Sequence[str]) -> str:
        """A pointer to the first number of a memory, for given values of some axes."""
        fixed = {*batch, *self.fused}
        moves = [
            f" + {self.variables[d]}{f' * {stride}' if stride > 1 else ''}"
            for d, stride in memory.strides.items()
            if d in fixed
        ]
        return "".join([self.first_cell(memory, fixed), *moves])

    def first_cell(self, memory: Memory, fixed: Collection[str]) -> str:
        """A pointer to the first cell of a memory, for given values of some axes."""
        if memory.array and not {*memory.index}.intersection(fixed):
            return self.start(memory)
        firsts = {
            d: f"{self.spans[d]}.first" if d in self.spans else "0"
            for d in memory.index
            if d not in fixed
        }
        if not firsts:
            return memory.text if memory.width else f"&{memory.text}"
        text = memory.at({**self.variables, **firsts})
        return text if memory.width else f"&{text}"
