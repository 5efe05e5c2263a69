"""Index expressions, bounds and conditions as Python, written as people would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgg.compiler.emit.readable import quoted
from fgg.grammar.index import Atom, Expr, Lookup
from fgg.plan import Bound, Loop


class Scope:
    """What the names in index expressions are called; look-ups become entries of tables."""

    def __init__(self, names: Mapping[str, str], forms: Mapping[str, Expr] | None = None) -> None:
        self.names = dict(names)
        # Sums that have a name of their own, which stands in their place; and which did.
        self.forms = forms or {}
        self.renamed: set[str] = set()
        self.used: set[str] = set()

    def extended(self, names: Mapping[str, str], forms: Mapping[str, Expr] | None = None) -> Scope:
        """A scope with more names; what is used counts for both."""
        inner = Scope({**self.names, **names}, forms)
        inner.used = self.used
        return inner

    def short(self, expr: Expr) -> Expr:
        """An expression with names in place of sums."""
        for name, form in self.forms.items():
            terms = {m: c for m, c in form.terms if m}
            own = dict(expr.terms)
            ratios = {own.get(m, 0) * c for m, c in terms.items()}  # the coefficients are 1 or -1
            if len(ratios) == 1 and ratios <= {1, -1} and set(terms.values()) <= {1, -1}:
                (ratio,) = ratios
                self.renamed.add(name)
                expr = expr - form * ratio + Expr.of(f"={name}") * ratio
        return expr

    def atom(self, atom: Atom) -> str:
        """The code of a variable, a length or a look-up."""
        if isinstance(atom, Lookup):
            index = "".join(f", {self.affine(i)}" for i in atom.indices)
            return f"batch.entry({quoted(atom.table)}{index})"
        self.used.add(atom)
        return self.names[atom]

    def terms(self, expr: Expr) -> tuple[list[str], list[str], int]:
        """What is added, what is subtracted, and the constant."""
        plus: list[tuple[int, str]] = []
        minus: list[tuple[int, str]] = []
        constant = 0
        for monomial, coefficient in self.short(expr).terms:
            if not monomial:
                constant = coefficient
                continue
            factors = [self.atom(atom) for atom in monomial]
            if abs(coefficient) != 1:
                factors.insert(0, str(abs(coefficient)))
            order = max(self.order(atom) for atom in monomial)
            (plus if coefficient > 0 else minus).append((order, " * ".join(factors)))
        return _in_order(plus), _in_order(minus), constant

    def order(self, atom: Atom) -> int:
        """Loop variables come before levels, and these before lengths."""
        if isinstance(atom, Lookup):
            return 3
        return 2 if "." in atom else 1 if atom.startswith("@") else 0

    def affine(self, expr: Expr) -> str:
        """An expression."""
        return _sum(*self.terms(expr))

    def condition(self, expr: Expr) -> str:
        """The comparison that says `expr >= 0`."""
        plus, minus, constant = self.terms(expr)
        if not plus:
            return f"{_sum(minus, [], 0)} <= {constant}"
        if constant == -1:
            return f"{_sum(plus, [], 0)} > {_sum(minus, [], 0)}"
        if constant <= 0:
            return f"{_sum(plus, [], 0)} >= {_sum(minus, [], -constant)}"
        return f"{_sum(plus, [], constant)} >= {_sum(minus, [], 0)}"

    def bound(self, bound: Bound, *, low: bool, more: int = 0) -> str:
        """The greatest of the terms of a lower bound, the least of an upper one; and `more`."""
        parts = []
        for expr, divisor in bound.terms:
            if divisor == 1:
                parts.append(self.affine(expr + more))
                continue
            code = self.affine(-expr if low else expr)
            code = f"{f'({code})' if ' ' in code else code} // {divisor}"
            code = f"-({code})" if low else code
            parts.append(f"{code} + {more}" if more else code)
        parts = list(dict.fromkeys(parts))
        if len(parts) == 1:
            return parts[0]
        return f"{'max' if low else 'min'}({', '.join(parts)})"

    def extreme(self, bounds: Sequence[Bound], *, low: bool, more: int = 0) -> str:
        """The least of several lower bounds, or the greatest of several upper ones."""
        parts = list(dict.fromkeys(self.bound(b, low=low, more=more) for b in bounds))
        if len(parts) == 1:
            return parts[0]
        return f"{'min' if low else 'max'}({', '.join(parts)})"

    def range(self, loop: Loop) -> str:
        """The values of a loop variable."""
        low, high = self.bound(loop.low, low=True), self.bound(loop.high, low=False, more=1)
        return f"range({high})" if low == "0" else f"range({low}, {high})"


def _in_order(terms: list[tuple[int, str]]) -> list[str]:
    return [code for _, code in sorted(terms, key=lambda term: term[0])]


def _sum(plus: list[str], minus: list[str], constant: int) -> str:
    if plus:
        text = " + ".join(plus)
    elif constant > 0 or not minus:
        text, constant = str(constant), 0
    else:
        text, minus = f"-{minus[0]}", minus[1:]
    text += "".join(f" - {term}" for term in minus)
    if constant:
        text += f" {'+' if constant > 0 else '-'} {abs(constant)}"
    return text
