"""The tensors that a program in C++ works on: their identifiers, strides and extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fgg.compiler.emit.cpp.memory import Size, product
from fgg.compiler.emit.python.names import affine_code, lookups_in, plain
from fgg.grammar.index import Expr
from fgg.plan import HIGH, LEVEL, LOW, Bound, Plan
from fgg.plan.cpp_source import Argument

PREFIXES = {
    "values": "v",
    "scales": "e",
    "adjoint": "a",
    "leaf": "p",
    "leaf scales": "q",
    "leaf gradient": "g",
    "lengths": "len",
    "table": "tab",
    "gradient": "dz",
    "range": "room_of_range",
}

WRITTEN = ("values", "scales", "adjoint", "leaf gradient", "range")


class Tensors:
    """Which tensors a function takes, in order; each is named when it is first asked for."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.found: dict[tuple[str, str], Argument] = {}
        self.scope = {LEVEL: "level"}
        for number, length in enumerate(plan.lengths):
            self.scope[length] = f"{self.get('lengths', length)}[b]"
            self.scope[length + LOW] = f"lo{number}"
            self.scope[length + HIGH] = f"hi{number}"
        self.origins: dict[str, list[Expr]] = {}
        for number, chart in enumerate(plan.charts):
            for axis in range(len(chart.axes)):
                self.scope[f"@{chart.family} {axis}"] = f"o{number}_{axis}"
            self.origins[chart.family] = [
                Expr.of(f"@{chart.family} {axis}") for axis in range(len(chart.axes))
            ]

    def get(self, role: str, name: str) -> str:
        """The identifier of a tensor."""
        key = (role, name)
        if key not in self.found:
            prefix = PREFIXES[role]
            number = sum(role == other for other, _ in self.found)
            kind = "T"
            if role in ("scales", "leaf scales", "range"):
                kind = "double"
            elif role in ("lengths", "table"):
                kind = "I"
            self.found[key] = Argument(role, name, self.rank(role, name), f"{prefix}{number}", kind)
        return self.found[key].ident

    def rank(self, role: str, name: str) -> int:
        """How many indices a tensor has before the batch."""
        if role in ("values", "scales", "adjoint"):
            return len(self.plan.chart[name].axes)
        if role.startswith("leaf"):
            return len(self.plan.table[name].axes) if name in self.plan.table else 0
        if role == "table":
            return next(len(t.shape) for t in self.plan.grammar.tables if t.name == name)
        return 0

    def strides(self, role: str, name: str, states: Sequence[int]) -> list[Size]:
        """The strides of a tensor's indices: names, or what they must be for a single index."""
        ident, rank = self.get(role, name), self.rank(role, name)
        if rank == 1:
            return [Size(1, ("B",)) * product(Size(s) for s in states)]
        return [Size(1, (f"{ident}_s{axis}",)) for axis in range(rank)]

    def head(self) -> Iterator[str]:
        """The fields that take the arguments apart."""
        yield "const I B = *N++;"
        yield "const bool mixed = *N++ != 0;"
        for length in self.plan.lengths:
            yield f"const I {self.scope[length + LOW]} = *N++;"
            yield f"const I {self.scope[length + HIGH]} = *N++;"
        for tensor in self.found.values():
            const = "" if tensor.role in WRITTEN else "const "
            yield (
                f"{const}{tensor.kind}* const {tensor.ident} = "
                f"static_cast<{const}{tensor.kind}*>(*P++);  // {tensor.role} {plain(tensor.name)}"
            )
            for axis in range(tensor.rank):
                yield f"const I {tensor.ident}_s{axis} = *N++;"
            if tensor.rank:
                names = ", ".join("*N++" for _ in range(tensor.rank))
                yield f"const I {tensor.ident}_n[{tensor.rank}] = {{{names}}};"
        for chart in self.plan.charts:
            for axis, loop in enumerate(chart.axes):
                name = self.scope[f"@{chart.family} {axis}"]
                yield f"const I {name} = {self.bound(loop.low, low=True)};"

    def code(self, expr: Expr, scope: Mapping[str, str]) -> str:
        """An index expression as C++."""
        local = dict(scope)
        for lookup in lookups_in([expr]):
            index = ", ".join(_polynomial(i, local) for i in lookup.indices)
            table = self.get("table", lookup.table)
            count = len(lookup.indices)
            local[str(lookup)] = f"look<{count}>({table}, {table}_n, {{{index}}}, b, B)"
        return _polynomial(expr, local)

    def bound(self, bound: Bound, *, low: bool) -> str:
        """A bound as C++."""
        parts = []
        for expr, divisor in bound.terms:
            code = self.code(expr, self.scope)
            if divisor != 1:
                code = f"{'ceil' if low else 'floor'}_div({code}, {divisor})"
            parts.append(code)
        return fold("greatest" if low else "least", parts)

    def extreme(self, bounds: Sequence[Bound], *, low: bool) -> str:
        """The least of several lower bounds, or the greatest of several upper ones."""
        parts = list(dict.fromkeys(self.bound(b, low=low) for b in bounds))
        return fold("least" if low else "greatest", parts)


def fold(function: str, parts: Sequence[str]) -> str:
    """A function of two, of all parts."""
    found = parts[0]
    for part in parts[1:]:
        found = f"{function}({found}, {part})"
    return found


def _polynomial(expr: Expr, names: Mapping[str, str]) -> str:
    text = affine_code(expr, names)
    return text if len(expr.terms) < 2 and not text.startswith("-") else f"({text})"
