"""Sums of products as C++: loops over points and states, or matrix products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from fgg.compiler.emit.cpp.memory import ONE, Memory, Size, Term, dims_of, product
from fgg.compiler.emit.python.names import BATCH

INDENT = "  "
MANY = 16
"""How long a loop is taken to be whose length is not known."""
LEAST_SIDE = 4
LEAST_WORK = 2048
LEAST_EACH = 32768
"""From how many entries a side, and multiplications, a matrix product is worth a call; if there is
one for each cell, they are to be larger."""


@dataclass(frozen=True)
class Matrices:
    """A sum of products as matrix products: one for each value of `batch`."""

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]


def indented(lines: Iterable[str]) -> Iterator[str]:
    """Lines as deep as the blocks are that are open."""
    depth = 0
    for line in lines:
        depth -= line == "}"
        yield INDENT * depth + line
        depth += line.endswith("{")


class Loops:
    """Writes sums of products over the axes of one step.

    `points` are its loops and the batch; every other axis is one of states, whose size is known.
    """

    def __init__(self, points: Sequence[str], sizes: Mapping[str, Size]) -> None:
        self.points = tuple(points)
        self.sizes = sizes
        self.all = tuple(dict.fromkeys((*points, *sizes)))
        self.lines: list[str] = []
        self.names = count(1)
        self.packs: dict[object, Memory] = {}
        axes = [d for d in sizes if d not in self.points]
        self.variables = {d: f"x{i}" for i, d in enumerate(d for d in points if d != BATCH)}
        self.variables |= {BATCH: "b"} | {d: f"s{i}" for i, d in enumerate(axes)}

    def fresh(self, stem: str) -> str:
        """A new name."""
        return f"{stem}_{next(self.names)}"

    def order_of(self, dims: Iterable[str]) -> tuple[str, ...]:
        """Axes in the order in which they lie in intermediate results: points, then states."""
        wanted = set(dims)
        return tuple(d for d in self.all if d in wanted)

    def buffer(self, dims: Sequence[str], kind: str = "T") -> Memory:
        """Room for an intermediate result."""
        name = self.fresh("r")
        size = product(self.sizes[d] for d in dims)
        self.lines.append(f"{kind}* const {name} = room.some<{kind}>({size});")
        return Memory(name, self.dense(dims))

    def dense(self, dims: Sequence[str]) -> dict[str, Size]:
        """The strides of axes that lie behind each other."""
        strides: dict[str, Size] = {}
        stride = ONE
        for d in reversed(dims):
            strides[d] = stride
            stride = stride * self.sizes[d]
        return {d: strides[d] for d in dims}

    def forced(self, term: Term) -> Term:
        """A term without sums: they are carried out."""
        if not term.summed and len(term.factors) <= 4:
            return term
        dims = self.order_of(term.dims)
        target = self.buffer(dims)
        self.assign(target, term)
        return Term(dims=dims, left=(target,))

    def assign(self, target: Memory, term: Term, *, add: bool = False) -> None:
        """Writes a term into memory (or adds it), repeated along axes that it lacks."""
        matrices = self.matrices(target, term)
        if matrices is not None:
            self.multiply(target, term, matrices, add)
            return
        if not add and dims_of(term.factors) - target.dims:
            self.lines += self.nest(target, (), set(), add=False, zero=True)
            add = True
        self.lines += self.nest(target, term.factors, set(), add=add)

    # loops

    def nest(
        self,
        target: Memory,
        factors: Sequence[Memory],
        fixed: set[str],
        *,
        add: bool,
        zero: bool = False,
    ) -> Iterator[str]:
        """Loops over all axes but those fixed; the product is written to the target or added.

        Outermost come points, then states: their memory is at constant strides from a pointer for
        each point.
        """
        loops, outer, inner = self.order(target, factors, fixed)
        known = [*(d for d in self.order_of(fixed)), *loops]
        pointers = [f"T* const t = {target.at(self.variables, known)};"]
        for number, factor in enumerate(factors):
            pointers.append(f"const T* const f{number} = {factor.at(self.variables, known)};")
        axes = [*outer, inner] if inner else outer
        place = self.entry("t", target, axes)
        entries = [(self.entry(f"f{n}", f, axes), f) for n, f in enumerate(factors)]
        sign = "+=" if add else "="
        still = [e for e, f in entries if inner not in f.dims]
        moving = [e for e, f in entries if inner in f.dims]
        body = []
        if inner and still and len(entries) > 1:
            body.append(f"const T c = {' * '.join(still)};")
            still = ["c"]
        value = "0" if zero else " * ".join([*moving, *still]) or "1"
        if inner is None:
            body.append(f"{place} {sign} {value};")
        elif inner in target.dims:
            body.append(f"LOOP {self.loop(inner)} {place} {sign} {value}; }}")
        else:
            body.append("T sum = 0;")
            body.append(f"SUM(sum) {self.loop(inner)} sum += {value}; }}")
            body.append(f"{place} {sign} sum;")
        opened = [*map(self.loop, loops), *pointers, *map(self.loop, outer)]
        closed = ["}"] * (len(loops) + len(outer))
        return indented(["{", *opened, *body, *closed, "}"])

    def order(
        self, target: Memory, factors: Sequence[Memory], fixed: set[str]
    ) -> tuple[list[str], list[str], str | None]:
        """The loops over points, those over states, and the innermost one, if there is any."""
        dims = (target.dims | dims_of(factors)) - fixed
        points = [d for d in self.points if d in dims]
        # What is summed comes last, so that the target stays where it is.
        points.sort(key=lambda d: d not in target.dims)
        axes = [d for d in self.order_of(dims) if d not in self.points]
        if not axes and BATCH in points and not any(m.points for m in (target, *factors)):
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
        return f"for (I {x} = 0; {x} < {self.sizes[d]}; ++{x}) {{"

    def entry(self, name: str, memory: Memory, axes: Sequence[str]) -> str:
        """An entry of a cell."""
        moves = [
            self.variables[d]
            if memory.strides[d] == ONE
            else f"{self.variables[d]} * {memory.strides[d]}"
            for d in axes
            if d in memory.strides
        ]
        return f"{name}[{' + '.join(moves) or '0'}]"

    def inner(self, target: Memory, factors: Sequence[Memory], axes: Sequence[str]) -> str:
        """The axis of the innermost loop: one whose entries lie next to each other."""

        def key(d: str) -> tuple[bool, int, int]:
            size = MANY if d == BATCH else self.sizes[d].number
            memories = [m for m in (target, *factors) if d in m.dims]
            near = all(m.strides.get(d) == ONE for m in memories)
            if d in target.dims:
                rank = 0 if near else 2 if target.strides.get(d) == ONE else 3
            else:
                rank = 1 if near else 3
            return size < LEAST_SIDE, rank, -size

        return min(axes, key=key)

    # matrix products

    def matrices(self, target: Memory, term: Term) -> Matrices | None:
        """How a term is a matrix product, if it is one that is worth it."""
        left, right, there = dims_of(term.left), dims_of(term.right), target.dims
        if not term.left or not term.right or there - (left | right) or ((left ^ right) - there):
            return None
        found = Matrices(
            self.order_of(left & right & there),
            self.order_of((left & there) - right),
            self.order_of((right & there) - left),
            self.order_of((left & right) - there),
        )
        work = 1
        for group in (found.rows, found.columns, found.inner):
            side = 1
            for d in group:
                side *= self.sizes[d].number if not self.sizes[d].names else MANY
            if side < LEAST_SIDE:
                return None
            work *= side
        return found if work >= (LEAST_EACH if found.batch else LEAST_WORK) else None

    def multiply(self, target: Memory, term: Term, found: Matrices, add: bool) -> None:
        """Writes a term as matrix products; what does not lie as a matrix is copied."""
        rows, columns, inner, batch = found.rows, found.columns, found.inner, found.batch
        sides = []
        for factors, first, second in ((term.left, rows, inner), (term.right, inner, columns)):
            direct = self.direct(factors, first, second) if len(factors) == 1 else None
            packed, new = (
                (None, False) if direct else self.packed(factors, (*first, *second), batch)
            )
            sides.append((factors, packed or factors[0], packed if new else None))
        straight = not target.shared and self.direct((target,), rows, columns)
        result = target if straight else self.buffer((*rows, *columns))
        depth = 0
        for d in batch:
            self.lines.append(INDENT * depth + self.loop(d))
            depth += 1
        pad = INDENT * depth
        fixed = set(batch)
        for factors, _, packed in sides:
            if packed is not None:
                self.lines += [pad + line for line in self.nest(packed, factors, fixed, add=False)]
        arguments = [str(product(self.sizes[d] for d in group)) for group in (rows, columns, inner)]
        for memory, first, second in (
            (sides[0][1], rows, inner),
            (sides[1][1], inner, columns),
            (result, rows, columns),
        ):
            strides = [memory.merged(group, self.sizes) for group in (first, second)]
            assert None not in strides
            arguments += [memory.at(self.variables, batch), *map(str, strides)]
        over = "true" if add and straight else "false"
        self.lines.append(f"{pad}matmul(blas, {', '.join(arguments)}, {over});")
        if not straight:
            self.lines += [pad + line for line in self.nest(target, (result,), fixed, add=add)]
        while depth:
            depth -= 1
            self.lines.append(INDENT * depth + "}")

    def packed(
        self, factors: Sequence[Memory], dims: Sequence[str], batch: Sequence[str]
    ) -> tuple[Memory, bool]:
        """Room for factors as one matrix, and whether it is to be filled: once for all cells."""
        if batch:
            return self.buffer(dims), True
        key = (tuple((f.base, tuple(f.strides.items())) for f in factors), tuple(dims))
        new = key not in self.packs
        if new:
            self.packs[key] = self.buffer(dims)
        return self.packs[key], new

    def direct(
        self, factors: Sequence[Memory], first: Sequence[str], second: Sequence[str]
    ) -> bool:
        """Whether a memory is a matrix as it lies."""
        (memory,) = factors
        strides = [memory.merged(group, self.sizes) for group in (first, second)]
        return None not in strides and ONE in strides
