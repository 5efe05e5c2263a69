"""Small improvements of emitted lines: nothing unused, one operation instead of two."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import lru_cache

_ASSIGNMENT = re.compile(r"\s*(\w+) = (.*)")


@lru_cache(maxsize=4096)
def product_of(code: str) -> tuple[str, str, str] | None:
    """The two sides of a product and its operator between them; None if code is no product.

    `v1 * w2` is one; `a.as_strided(sizes, strides, 2 * step)` is none, although it contains one.
    """
    if " * " not in code and " @ " not in code:
        return None
    tree = ast.parse(code, mode="eval").body
    if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Mult | ast.MatMult):
        return None
    operator = "*" if isinstance(tree.op, ast.Mult) else "@"
    return ast.unparse(tree.left), operator, ast.unparse(tree.right)


def fused(lines: Sequence[str], matrices: set[str]) -> list[str]:
    """Lines in which a product that is only added to something is one operation.

    `matrices` are the results that have two axes.
    """
    text = "\n".join(lines)
    kept: list[str] = []
    for line in lines:
        kept.append(line)
        for number, earlier in enumerate(kept[:-1]):
            assigned = _ASSIGNMENT.fullmatch(earlier)
            if assigned is None or not line.endswith(suffix := f".add_({assigned[1]})"):
                continue
            product = product_of(assigned[2])
            if product is None or len(re.findall(rf"\b{assigned[1]}\b", text)) != 2:
                continue
            left, operator, right = product
            if operator == "@" and assigned[1] not in matrices:
                continue
            name = "addcmul_" if operator == "*" else "addmm_"
            kept[-1] = f"{line[: -len(suffix)]}.{name}({left}, {right})"
            del kept[number]
            break
    return kept


# A value times the weights of its points: a new tensor, not a view of a chart.
_WEIGHTED = re.compile(r"\s*(v\d+) = v\d+(?:\[[^]]*\])? \* w\d+(?:\[[^]]*\])?")
_DOT = re.compile(r"(\s*\w+ = )dot(\((v\d+), .*)")


def in_place(lines: Sequence[str]) -> list[str]:
    """Lines in which a weighted value that is multiplied and summed is not copied for that."""
    text = "\n".join(lines)
    fresh = {found[1] for found in map(_WEIGHTED.fullmatch, lines) if found}
    kept = []
    for line in lines:
        found = _DOT.fullmatch(line)
        if found and found[3] in fresh and len(re.findall(rf"\b{found[3]}\b", text)) == 2:
            line = f"{found[1]}dot_{found[2]}"
        kept.append(line)
    return kept


_SUM = re.compile(r"\s*(e\w*) = (\w+) \+ (\w+)")
_LOG_SUM = re.compile(r"\s*(e) = torch\.logsumexp\((.*)\)")


def written(lines: Sequence[str]) -> list[str]:
    """Lines in which a result that is only copied to its place is computed there."""
    kept = list(lines)
    if len(kept) < 2:
        return kept
    calls = {_SUM: "torch.add({}, {}, out={})", _LOG_SUM: "torch.logsumexp({}, out={})"}
    for pattern, call in calls.items():
        found = pattern.fullmatch(kept[-2])
        if found is not None and kept[-1].endswith(f".copy_({found[1]})"):
            place = kept[-1][: -len(f".copy_({found[1]})")]
            kept[-2:] = [call.format(*found.groups()[1:], place)]
            break
    return kept


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


def guarded(lines: Sequence[str], name: str) -> list[str]:
    """Lines of which all that a scale does not need are carried out only if it is not zero.

    `name` is the scale's: what it is made from comes first.
    """
    statements: list[list[str]] = []
    for line in lines:
        if line.startswith(" "):
            statements[-1].append(line)
        else:
            statements.append([line])
    needed, first, rest = {name}, list[str](), list[str]()
    for statement in reversed(statements):
        found = [_ASSIGNMENT.fullmatch(line) for line in statement]
        if any(match is not None and match[1] in needed for match in found):
            needed.update(re.findall(r"\w+", "\n".join(statement)))
            first[:0] = statement
        else:
            rest[:0] = statement
    return [*first, f"if alive({name}):", *(f"    {line}" for line in rest)]
