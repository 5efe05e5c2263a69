"""Index expressions: integer polynomials over sizes, lengths, index variables and table look-ups.

One normal form serves size expressions (`2 * m + 1`), family indices (`X[i, k + 1]`) and
guards (`for i < k < j`), so that equal expressions are equal values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from fgg.grammar.spans import Span

MAX_TERMS = 64
MAX_DEGREE = 8


class ExpressionTooLarge(ValueError):
    """An expression grew past `MAX_TERMS` terms or degree `MAX_DEGREE`."""


@dataclass(frozen=True)
class Lookup:
    """An entry of an input table, `left[v]`: an integer known at run time only."""

    table: str
    indices: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"{quote_name(self.table)}[{', '.join(map(str, self.indices))}]"


Atom = str | Lookup
Monomial = tuple[Atom, ...]


def _atom_key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, str(atom))


# Of a few names come many thousands of expressions.
@lru_cache(maxsize=4096)
def _monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[int, str], ...]]:
    return (-len(monomial), tuple(map(_atom_key, monomial)))


@dataclass(frozen=True)
class Expr:
    """An integer polynomial in normal form: sorted monomials with non-zero coefficients."""

    terms: tuple[tuple[Monomial, int], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(value: int | str | Lookup | Expr) -> Expr:
        """The expression that a number, a name or a look-up stands for."""
        if isinstance(value, Expr):
            return value
        if isinstance(value, int):
            return Expr((((), value),) if value else ())
        return Expr((((value,), 1),))

    @staticmethod
    def _normal(terms: Iterable[tuple[Monomial, int]]) -> Expr:
        total: dict[Monomial, int] = {}
        for monomial, coefficient in terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        kept = [(m, c) for m, c in total.items() if c]
        if len(kept) > MAX_TERMS or any(len(m) > MAX_DEGREE for m, _ in kept):
            raise ExpressionTooLarge
        if len(kept) > 1:
            kept.sort(key=lambda term: _monomial_key(term[0]))
        return Expr(tuple(kept))

    def __add__(self, other: Expr | int) -> Expr:
        if isinstance(other, int) and len(self.terms) < MAX_TERMS:
            if all(monomial for monomial, _ in self.terms):
                return Expr((*self.terms, ((), other)) if other else self.terms)
        return Expr._normal(self.terms + Expr.of(other).terms)

    def __neg__(self) -> Expr:
        return Expr(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Expr | int) -> Expr:
        return self + -other

    def __mul__(self, other: Expr | int) -> Expr:
        right = Expr.of(other)
        return Expr._normal(
            (tuple(sorted(m1 + m2, key=_atom_key)), c1 * c2)
            for m1, c1 in self.terms
            for m2, c2 in right.terms
        )

    def __radd__(self, other: int) -> Expr:
        return self + other

    def __rsub__(self, other: int) -> Expr:
        return Expr.of(other) - self

    def __rmul__(self, other: int) -> Expr:
        return self * other

    def __lt__(self, other: Expr | int) -> Condition:
        return Condition((self, Expr.of(other)), ("<",))

    def __le__(self, other: Expr | int) -> Condition:
        return Condition((self, Expr.of(other)), ("<=",))

    def __gt__(self, other: Expr | int) -> Condition:
        return Condition((self, Expr.of(other)), (">",))

    def __ge__(self, other: Expr | int) -> Condition:
        return Condition((self, Expr.of(other)), (">=",))

    def equals(self, other: Expr | int) -> Condition:
        """The condition that two expressions are equal (`==` compares the expressions)."""
        return Condition((self, Expr.of(other)), ("==",))

    def differs(self, other: Expr | int) -> Condition:
        """The condition that two expressions are not equal (`!=` compares the expressions)."""
        return Condition((self, Expr.of(other)), ("!=",))

    def at(self, span: Span | None) -> Expr:
        """The same expression, placed at `span`."""
        return Expr(self.terms, span)

    @property
    def constant(self) -> int | None:
        """The value of an expression without names, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def atoms(self) -> Iterator[Atom]:
        """Every name and look-up at the top level of the expression, in order, once each."""
        yield from dict.fromkeys(atom for monomial, _ in self.terms for atom in monomial)

    def names(self) -> Iterator[str]:
        """Every name in the expression, those inside look-ups included, once each."""
        seen: dict[str, None] = {}
        for atom in self.atoms():
            if isinstance(atom, str):
                seen[atom] = None
            else:
                for index in atom.indices:
                    seen.update(dict.fromkeys(index.names()))
        yield from seen

    def lookups(self) -> Iterator[Lookup]:
        """Every table look-up in the expression, nested ones included."""
        for atom in self.atoms():
            if isinstance(atom, Lookup):
                yield atom
                for index in atom.indices:
                    yield from index.lookups()

    def map_atoms(self, change: Callable[[Atom], Expr]) -> Expr:
        """The expression with every atom replaced by what `change` gives for it."""
        total = Expr()
        for monomial, coefficient in self.terms:
            product = Expr.of(coefficient)
            for atom in monomial:
                product = product * change(atom)
            total = total + product
        return total.at(self.span)

    def substitute(self, values: Mapping[str, int | Expr]) -> Expr:
        """The expression with names replaced by values, inside look-ups too."""

        def change(atom: Atom) -> Expr:
            if isinstance(atom, str):
                return Expr.of(values.get(atom, atom))
            return Expr.of(Lookup(atom.table, tuple(i.substitute(values) for i in atom.indices)))

        # Nearly all expressions are affine in names: one sum, and nothing to multiply out.
        total: list[tuple[Monomial, int]] = []
        changed = False
        for monomial, coefficient in self.terms:
            if len(monomial) > 1 or (monomial and not isinstance(monomial[0], str)):
                return self.map_atoms(change)
            value = values.get(monomial[0]) if monomial else None  # type: ignore[arg-type]
            if value is None:
                total.append((monomial, coefficient))
                continue
            changed = True
            if isinstance(value, int):
                total.append(((), value * coefficient))
            else:
                total += [(inner, c * coefficient) for inner, c in value.terms]
        return Expr._normal(total).at(self.span) if changed else self

    def evaluate(
        self,
        values: Mapping[str, int],
        look_up: Callable[[str, tuple[int, ...]], int | None] | None = None,
    ) -> int | None:
        """The integer value, or None where a look-up falls outside its table.

        Raises KeyError for a name without a value.
        """
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom in monomial:
                if isinstance(atom, str):
                    product *= values[atom]
                    continue
                indices = [i.evaluate(values, look_up) for i in atom.indices]
                if look_up is None:
                    raise KeyError(atom.table)
                known = tuple(i for i in indices if i is not None)
                entry = look_up(atom.table, known) if len(known) == len(indices) else None
                if entry is None:
                    return None
                product *= entry
            total += product
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        # What is added comes first: `j - i` rather than `-i + j`.
        for monomial, coefficient in sorted(self.terms, key=lambda term: term[1] < 0):
            factors = [quote_name(a) if isinstance(a, str) else str(a) for a in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            term = "*".join(factors)
            if text:
                text += f" {sign} {term}"
            else:
                text = f"-{term}" if coefficient < 0 else term
        return text


@dataclass(frozen=True)
class Condition:
    """A chain of comparisons, `0 <= i < j`, that index values must satisfy."""

    terms: tuple[Expr, ...]
    operators: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        assert len(self.terms) == len(self.operators) + 1 >= 2
        assert all(op in OPERATORS for op in self.operators)

    def __bool__(self) -> bool:
        # `i < k < j` would ask this of `i < k` and silently drop it.
        raise TypeError("a chain of comparisons is written `i < k, k < j` in Python")

    def pairs(self) -> Iterator[tuple[Expr, str, Expr]]:
        """The comparisons of the chain, one by one."""
        yield from zip(self.terms, self.operators, self.terms[1:], strict=False)

    def inequalities(self) -> Iterator[Expr]:
        """Expressions that are all non-negative if the condition holds.

        Without `!=`, which no inequality says, also only if it holds.
        """
        for left, operator, right in self.pairs():
            if operator in ("<=", "=="):
                yield right - left
            if operator in (">=", "=="):
                yield left - right
            if operator == "<":
                yield right - left - 1
            if operator == ">":
                yield left - right - 1

    def differences(self) -> Iterator[Expr]:
        """Expressions that must not be 0 if the condition, with `!=`, is to hold."""
        for left, operator, right in self.pairs():
            if operator == "!=":
                yield left - right

    @cached_property
    def looks_up(self) -> bool:
        """Whether the condition depends on a table."""
        return any(True for term in self.terms for _ in term.lookups())

    def substitute(self, values: Mapping[str, int | Expr]) -> Condition:
        """The condition with names replaced by values."""
        return Condition(tuple(t.substitute(values) for t in self.terms), self.operators, self.span)

    def __str__(self) -> str:
        parts = [str(self.terms[0])]
        for operator, term in zip(self.operators, self.terms[1:], strict=True):
            parts += [operator, str(term)]
        return " ".join(parts)


OPERATORS = ("<", "<=", ">", ">=", "==", "!=")

RESERVED = frozenset(
    "size domain rank factor nonterminal input start rule query use for with".split()
)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def is_plain_name(text: str) -> bool:
    """Whether a name can be written as it is, without backquotes."""
    return _PLAIN_NAME.fullmatch(text) is not None and text not in RESERVED


def quote_name(text: str) -> str:
    """A name as the language writes it: plain where possible, else between backquotes."""
    return text if is_plain_name(text) else f"`{text}`"
