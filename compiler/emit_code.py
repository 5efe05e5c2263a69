"""Pieces of emitted Python: names, index expressions, products of labelled tensors."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fgg.index import Expr, Lookup
from fgg.plan import HIGH, LEVEL, LOW, Bound

BATCH = "@b"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# What intermediate results are called: `v1`, `e2`, …
_TEMPORARY = re.compile(r"(a|at|e|top|v|w|x|y)[1-9][0-9]*")


class Names:
    """Python identifiers for the names of a grammar, each its own."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}
        self.taken: set[str] = set()

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
            found, number = wanted, 2
            while found in self.taken:
                found, number = f"{wanted}_{number}", number + 1
            self.taken.add(found)
            self.known[key] = found
        return self.known[key]


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
        plain = names.get("n_", length)
        found[length] = f"{plain}_item"
        found[length + LOW] = f"{plain}_lo"
        found[length + HIGH] = f"{plain}_hi"
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


@dataclass(frozen=True)
class Value:
    """A tensor in emitted code: a name (or an expression) and a label for each axis."""

    code: str
    dims: tuple[str, ...]


def aligned(value: Value, dims: Sequence[str]) -> str:
    """A value with its axes in the order of `dims`, length one where it has none."""
    code = value.code
    order = [d for d in dims if d in value.dims]
    assert len(order) == len(value.dims), (value, dims)
    if order != list(value.dims):
        code = f"{code}.permute({', '.join(str(value.dims.index(d)) for d in order)})"
    if len(order) == len(dims):
        return code
    missing = [d not in value.dims for d in dims]
    if not order:
        return f"{code}.reshape({', '.join('1' for _ in dims)})" if dims else code
    # Leading axes of length one need not be written: broadcasting adds them.
    first = missing.index(False)
    tail = missing[first:]
    if not any(tail):
        return code
    while tail and not tail[-1]:
        tail.pop()
    index = ", ".join("None" if m else ":" for m in tail)
    return f"{code}[{index}]"


def product_code(left: Value, right: Value, dims: Sequence[str]) -> str:
    """The product of two values, summed over the axes that are not in `dims`."""
    together = set(left.dims) | set(right.dims)
    summed = together - set(dims)
    assert set(dims) <= together, (left, right, dims)
    if not summed:
        return f"{aligned(left, dims)} * {aligned(right, dims)}"
    matrix = _matrix_code(left, right, dims) or _matrix_code(right, left, dims)
    if matrix is not None:
        return matrix
    letters = dict(zip(sorted(together), LETTERS, strict=False))
    spec = ",".join("".join(letters[d] for d in v.dims) for v in (left, right))
    return f'torch.einsum("{spec}->{"".join(letters[d] for d in dims)}", {left.code}, {right.code})'


def _matrix_code(left: Value, right: Value, dims: Sequence[str]) -> str | None:
    """A product of rows with a matrix, if that is what it is."""
    if len(right.dims) != 2 or len(left.dims) < 1 or len(dims) < 1:
        return None
    inner, outer = left.dims[-1], dims[-1]
    if inner in dims or outer in left.dims or set(right.dims) != {inner, outer}:
        return None
    if tuple(dims[:-1]) != left.dims[:-1]:
        return None
    turned = right.code if right.dims == (inner, outer) else transposed(right.code)
    return f"{left.code} @ {turned}"


def transposed(code: str) -> str:
    """A matrix turned; a named one is turned once, where it is defined."""
    return f"{code}_T" if code.isidentifier() and code.startswith("p_") else f"{code}.mT"


_PRODUCT = re.compile(r"(\s*)(\w+) = ([^@]+) (\*|@) ([^*@]+)")


def fused(lines: Sequence[str], matrices: set[str]) -> list[str]:
    """Lines in which a product that is only added to something is one operation.

    `matrices` are the results that have two axes.
    """
    text = "\n".join(lines)
    kept: list[str] = []
    for line in lines:
        kept.append(line)
        for number, earlier in enumerate(kept[:-1]):
            found = _PRODUCT.fullmatch(earlier)
            if found is None or len(re.findall(rf"\b{found[2]}\b", text)) != 2:
                continue
            suffix = f".add_({found[2]})"
            if not line.endswith(suffix) or (found[4] == "@" and found[2] not in matrices):
                continue
            name = "addcmul_" if found[4] == "*" else "addmm_"
            kept[-1] = f"{line[: -len(suffix)]}.{name}({found[3]}, {found[5]})"
            del kept[number]
            break
    return kept


_SUM = re.compile(r"\s*(e\w*) = (\w+) \+ (\w+)")
_LOG_SUM = re.compile(r"\s*(e) = torch\.logsumexp\((.*)\)")


def written(lines: Sequence[str]) -> list[str]:
    """Lines in which a result that is only copied to its place is computed there."""
    kept = list(lines)
    if len(kept) < 2:
        return kept
    for pattern, call in ((_SUM, "torch.add({}, {}, out={})"), (_LOG_SUM, "torch.logsumexp({}, out={})")):
        found = pattern.fullmatch(kept[-2])
        if found is not None and kept[-1].endswith(f".copy_({found[1]})"):
            place = kept[-1][: -len(f".copy_({found[1]})")]
            kept[-2:] = [call.format(*found.groups()[1:], place)]
            break
    return kept


_ASSIGNMENT = re.compile(r"\s*(\w+) = (.*)")


def without_unused(lines: Sequence[str]) -> list[str]:
    """Lines without assignments that nothing after them reads."""
    used: set[str] = set()
    kept: list[str] = []
    for line in reversed(lines):
        found = _ASSIGNMENT.fullmatch(line)
        if found is not None and found[1] not in used:
            continue
        if line.endswith(":") and not (kept and kept[-1].startswith("    ")):
            continue  # a block that has become empty
        text = found[2] if found is not None else line
        used.update(re.findall(r"\w+", text))
        kept.append(line)
    return kept[::-1]
