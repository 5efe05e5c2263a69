"""Names and index expressions as C++."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count

from fgg.grammar.index import Expr, Lookup
from fgg.plan import LEVEL, Bound
from fgg.plan.kernel import BATCH

KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while
    xor xor_eq final override import module linux unix
    """.split()
)
PRELUDE = frozenset(
    """
    T I B LOOP SUM GREATEST ENDS PRAGMA ALWAYS SEPARATE Bits LARGEST NEGATIVE FLOOR OUTSIDE LIMIT
    SETTINGS SHARED EOF NULL NAN INFINITY HUGE_VAL std least greatest floor_div ceil_div exp_of
    worth ratio log_add Span Cells Array Room Range Host Stopped Team Crew Matrix Part Pass Length
    Stored Chart Table Parameter Lookup Call call crew thread numbers pointers mixed threads
    least_work items mate mates team kept room range counting work Gradient gradients spare spares
    looked state begin opens meet look matmul rows apply each weigh log_sum raise_to put tell
    Tensors Sources Prepare Through Inside Outside prepare inside outside through run seed
    Tokens Made Logs ends potential part_of block_of slope weight logs entries entry
    sum level width zero copy main errno assert
    signgam j0 j1 jn y0 y1 yn gamma index
    """.split()
)
"""What the prelude, the program around users' names, and C's own headers call theirs."""
MACROS = re.compile(
    r"(ADJ|ATOMIC|BIG|BYTE|CLOCKS?|CLONE|CPU|EXIT|FD|FP|HUGE|LITTLE|MATH|MB|MOD|PDP|PTHREAD|PTRDIFF"
    r"|RAND|SCHED|SIG|SIZE|STA|TIMER?|U?INT(MAX|PTR|[0-9]+)?|WCHAR|WINT)_[A-Z0-9_]+"
    r"|M_(1_PI|2_|E|LN|LOG|PI|SQRT).*|W(EOF|NO|EXIT|STOP|CONT|UNTR|TERM|IF).*|S?NANF?.*|CSIGNAL"
    r"|MAXFLOAT|NFDBITS|NULL|EOF"
)
"""Macros of C's headers, some of which others define."""


class Names:
    """Identifiers for users' names: each its own, none that C++ or the prelude has already."""

    def __init__(self, outer: Names | None = None) -> None:
        self.outer = outer
        self.known: dict[object, str] = {}
        self.taken: set[str] = set()

    def is_free(self, identifier: str) -> bool:
        """Whether nothing else has this name."""
        if identifier in self.taken or identifier in KEYWORDS or identifier in PRELUDE:
            return False
        if MACROS.fullmatch(identifier):
            return False
        return self.outer is None or self.outer.is_free(identifier)

    def get(self, key: object, name: str, *others: str) -> str:
        """The identifier of what `key` stands for: a name, or others, or the name with a number."""
        if key not in self.known:
            wanted = identifier_like(name)
            numbered = (f"{wanted}{number}" for number in count(2))
            choices = chain([wanted], map(identifier_like, others), numbered)
            found = next(choice for choice in choices if self.is_free(choice))
            self.taken.add(found)
            self.known[key] = found
        return self.known[key]


def identifier_like(name: str) -> str:
    """An identifier of C++ made from a name; it may be taken."""
    plain = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")
    plain = plain or "x"
    return f"x{plain}" if plain[0].isdigit() or MACROS.fullmatch(plain) else plain


# ------------------------------------------------------------------------------------ expressions


def lookups_in(expr: Expr) -> list[Lookup]:
    """The look-ups of an expression, inner ones first."""
    seen: dict[Lookup, None] = {}

    def visit(part: Expr) -> None:
        for atom in part.atoms():
            if isinstance(atom, Lookup):
                for index in atom.indices:
                    visit(index)
                seen[atom] = None

    visit(expr)
    return list(seen)


class Scope:
    """What the names in index expressions are called: variables, lengths and input tables.

    `forms` are sums that have a name of their own: `j` is `i + width`. `used` are those that
    occurred.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        lengths: Mapping[str, str],
        tables: Mapping[str, str],
        forms: Mapping[str, Expr] | None = None,
    ) -> None:
        self.variables = variables
        self.lengths = lengths
        self.tables = tables
        self.forms = forms or {}
        self.used: set[str] = set()

    def with_variables(
        self, variables: Mapping[str, str], forms: Mapping[str, Expr] | None = None
    ) -> Scope:
        """A scope with more variables; the names of sums are those given, or the same."""
        inner = Scope({**self.variables, **variables}, self.lengths, self.tables, self.forms)
        inner.used = self.used
        if forms is not None:
            inner.forms, inner.used = forms, set()
        return inner

    def short(self, expr: Expr) -> Expr:
        """An expression with names in place of sums."""
        for name, form in self.forms.items():
            terms, own = {m: c for m, c in form.terms if m}, dict(expr.terms)
            if all(own.get(m) == c for m, c in terms.items()):
                self.used.add(name)
                expr = expr - form + Expr.of(name)
        return expr

    @property
    def item(self) -> str:
        """The variable that runs over items."""
        return self.variables[BATCH]

    def expression(self, expr: Expr) -> str:
        """An expression: what is added comes first, constants last."""
        return self._sum(_sorted(self.short(expr)))

    def _sum(self, terms: Sequence[tuple[tuple[str | Lookup, ...], int]]) -> str:
        text = ""
        for monomial, coefficient in terms:
            factors = [self._atom(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            term = " * ".join(factors)
            if text:
                text += f" {'-' if coefficient < 0 else '+'} {term}"
            else:
                text = f"-{term}" if coefficient < 0 else term
        return text or "0"

    def _atom(self, atom: str | Lookup) -> str:
        if isinstance(atom, Lookup):
            index = ", ".join(self.expression(i) for i in atom.indices)
            return f"{self.tables[atom.table]}({index}, {self.item})"
        return (
            f"{self.lengths[atom]}[{self.item}]" if atom in self.lengths else self.variables[atom]
        )

    def holds(self, expr: Expr) -> str:
        """The test whether an expression is not negative, `n[b] > i + 1`.

        Where a table has no entry, it fails.
        """
        entries = [f"{self._atom(entry)} != OUTSIDE" for entry in lookups_in(expr)]
        return " && ".join([self._compared(expr, ">=", ">", "<="), *entries])

    def fails(self, expr: Expr) -> str:
        """The test whether an expression is negative, or a table has no entry."""
        entries = [f"{self._atom(entry)} == OUTSIDE" for entry in lookups_in(expr)]
        return " || ".join([self._compared(expr, "<", "<=", ">"), *entries])

    def _compared(self, expr: Expr, sign: str, closer: str, turned: str) -> str:
        """An expression compared with 0: what is subtracted stands on the other side.

        `closer` compares with one less, and `turned` what is subtracted with what is added.
        """
        terms = _sorted(-self.short(-self.short(expr)))
        above = [(m, c) for m, c in terms if c > 0]
        below = [(m, -c) for m, c in terms if c < 0]
        if below and not any(monomial for monomial, _ in above):
            # A constant alone reads better on the right: `i <= 3`.
            return f"{self._sum(below)} {turned} {self._sum(above)}"
        if len(below) > 1 and below[-1] == ((), 1):
            below, sign = below[:-1], closer
        return f"{self._sum(above)} {sign} {self._sum(below)}"

    def bound(self, bound: Bound, *, low: bool) -> str:
        """A bound of a loop."""
        parts = []
        for expr, divisor in bound.terms:
            code = self.expression(expr)
            if divisor != 1:
                code = f"{'ceil' if low else 'floor'}_div({code}, {divisor})"
            parts.append(code)
        return folded("greatest" if low else "least", parts)

    def extreme(self, bounds: Sequence[Bound], *, low: bool) -> str:
        """The least of several lower bounds, or the greatest of several upper ones."""
        parts = list(dict.fromkeys(self.bound(bound, low=low) for bound in bounds))
        return folded("least" if low else "greatest", parts)


def _sorted(expr: Expr) -> list[tuple[tuple[str | Lookup, ...], int]]:
    """The terms of an expression: variables, the level, constants; what is added comes first."""
    return sorted(expr.terms, key=lambda term: (not term[0], term[1] < 0, term[0] == (LEVEL,)))


def folded(function: str, parts: Iterable[str]) -> str:
    """A function of two, applied to all parts."""
    first, *rest = parts
    for part in rest:
        first = f"{function}({first}, {part})"
    return first
