"""Names and index expressions as Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

from fgg.grammar.index import Expr, Lookup
from fgg.plan import HIGH, LEVEL, LOW, Bound

BATCH = "@b"

# What intermediate results are called: `v1`, `e2`, …
_TEMPORARY = re.compile(r"(a|at|e|top|v|w|x|y)[1-9][0-9]*")
# What names of tensors and lengths begin with: a loop variable, which has no prefix, does not.
_PREFIXED = re.compile(r"(p|q|r|c|v|e|a|t|s|g|i|w|o|m|k[0-9st]+|lo|hi|item)_")


class Names:
    """Python identifiers for the names of a grammar, each its own."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}
        self.taken: set[str] = set()
        self.kept: dict[str, int] = {}

    def get(self, prefix: str, name: str) -> str:
        """The identifier of a name; `prefix` says what it is."""
        key = (prefix, name)
        if key not in self.known:
            plain = re.sub(r"[^0-9A-Za-z_]", "_", name) or "_"
            wanted = f"{prefix}{plain}"
            if keyword.iskeyword(wanted) or not wanted.isidentifier():
                wanted = f"{prefix}_{plain}"
            if _TEMPORARY.fullmatch(wanted):
                wanted += "_"
            if not prefix and _PREFIXED.match(wanted):
                wanted = f"x_{wanted}"
            found, number = wanted, 2
            while found in self.taken:
                found, number = f"{wanted}_{number}", number + 1
            self.taken.add(found)
            self.known[key] = found
        return self.known[key]

    def keep(self, code: str, variables: Iterable[str]) -> str:
        """Code that is carried out once for each value of the variables in it."""
        number = self.kept.setdefault(code, len(self.kept) + 1)
        used = set(re.findall(r"\w+", code))
        key = ", ".join([str(number), *(name for name in variables if name in used)])
        return f"batch.kept(({key},), lambda: {code})"

    def rows(self) -> dict[str, str]:
        """The tensors whose cells are listed, and what the lists are called."""
        return {name: found for (prefix, name), found in self.known.items() if prefix == "c_"}


def affine_code(expr: Expr, names: Mapping[str, str]) -> str:
    """An affine expression as Python; look-ups must have been named."""
    parts: list[str] = []
    for monomial, coefficient in sorted(expr.terms, key=lambda t: (not t[0], t[1] < 0)):
        factors = [names[str(atom)] for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        term = " * ".join(factors)
        if parts:
            parts.append(f"{'-' if coefficient < 0 else '+'} {term}")
        else:
            parts.append(f"-{term}" if coefficient < 0 else term)
    return " ".join(parts) or "0"


def length_names(lengths: Iterable[str], names: Names) -> dict[str, str]:
    """What the lengths of a batch and the level are called."""
    found = {LEVEL: "level"}
    for length in lengths:
        found[length] = names.get("item_", length)
        found[length + LOW] = names.get("lo_", length)
        found[length + HIGH] = names.get("hi_", length)
    return found


def bound_code(bound: Bound, names: Mapping[str, str], *, low: bool) -> str:
    """A bound as Python: the greatest of its terms if it is a lower one, else the least."""
    parts = []
    for expr, divisor in bound.terms:
        code = affine_code(expr, names)
        if divisor != 1:
            code = f"-(-({code}) // {divisor})" if low else f"({code}) // {divisor}"
        parts.append(code)
    if len(parts) == 1:
        return parts[0]
    return f"{'max' if low else 'min'}({', '.join(parts)})"


def extreme_code(bounds: Sequence[Bound], names: Mapping[str, str], *, low: bool) -> str:
    """The least of several lower bounds, or the greatest of several upper ones."""
    parts = list(dict.fromkeys(bound_code(b, names, low=low) for b in bounds))
    if len(parts) == 1:
        return parts[0]
    return f"{'min' if low else 'max'}({', '.join(parts)})"


def lookups_in(exprs: Iterable[Expr]) -> list[Lookup]:
    """The look-ups of expressions, inner ones first."""
    found: dict[Lookup, None] = {}

    def visit(expr: Expr) -> None:
        for atom in expr.atoms():
            if isinstance(atom, Lookup):
                for index in atom.indices:
                    visit(index)
                found[atom] = None

    for expr in exprs:
        visit(expr)
    return list(found)


def single(bound: Bound) -> Expr | None:
    """A bound that is one expression."""
    if len(bound.terms) == 1 and bound.terms[0][1] == 1:
        return bound.terms[0][0]
    return None


def scaled_sum(numbers: Sequence[int | str], names: Sequence[str]) -> str:
    """The code of a sum of products; numbers that are code are bracketed where need be."""
    parts = []
    for number, name in zip(numbers, names, strict=True):
        code = str(number)
        if code == "0":
            continue
        parts.append(name if code == "1" else f"{bracketed(code)} * {name}")
    return " + ".join(parts).replace("+ -", "- ") or "0"


def plain(text: str) -> str:
    """User's text for a comment or a docstring: one line, nothing that could end either."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(kept.split()).replace("\\", "/").replace('"""', "'''")


def bracketed(code: str) -> str:
    """Code in brackets if it is more than a word."""
    return f"({code})" if " " in code else code
