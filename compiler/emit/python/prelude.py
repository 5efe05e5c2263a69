"""The prelude of emitted Python: what it offers, and the text of what a program uses of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "fgg.runtime.prelude"
MODULES = (
    "indices",
    "cells",
    "scaled",
    "charts",
    "batch",
    "evidence",
    "certificate",
    "passes",
    "best",
)
GPU = "gpu"
"""The module that Triton programs use besides."""


@dataclass(frozen=True)
class Definition:
    """A definition of the prelude: where it stands, its text, and the names in it."""

    module: str
    text: str
    names: frozenset[str]


def used_names(source: str) -> set[str]:
    """The names that Python code reads."""
    tree = ast.parse(source)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@cache
def definitions(more: tuple[str, ...] = ()) -> dict[str, Definition]:
    """What the prelude defines, in order; with `more` modules besides those that all use."""
    found: dict[str, Definition] = {}
    for module in (*MODULES, *more):
        # The module is found, not imported: that would load torch.
        spec = find_spec(f"{PACKAGE}.{module}")
        assert spec is not None and spec.origin is not None
        found |= definitions_in(module, Path(spec.origin).read_text(encoding="utf-8"))
    return found


@cache
def definitions_in(module: str, text: str) -> dict[str, Definition]:
    """What the text of a module defines, in order."""
    lines = text.splitlines()
    found = {}
    body = ast.parse(text).body
    for number, node in enumerate(body):
        end = node.end_lineno
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name, first = node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            assert isinstance(target, ast.Name)
            name, first = target.id, node.lineno
            after = body[number + 1] if number + 1 < len(body) else None
            if isinstance(after, ast.Expr):
                end = after.end_lineno  # its docstring
        else:
            continue
        piece = "\n".join(lines[first - 1 : end])
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        found[name] = Definition(module, piece, frozenset(names - {name}))
    return found


def import_lines(names: Iterable[str], more: tuple[str, ...] = ()) -> Iterator[str]:
    """The statements that import names of the prelude."""
    known = definitions(more)
    by_module: dict[str, list[str]] = {}
    for name in names:
        if name in known:
            by_module.setdefault(known[name].module, []).append(name)
    for module in sorted(by_module):
        wanted = sorted(by_module[module], key=_import_order)
        line = f"from {PACKAGE}.{module} import {', '.join(wanted)}"
        if len(line) <= 100:
            yield line
            continue
        yield f"from {PACKAGE}.{module} import ("
        yield from (f"    {name}," for name in wanted)
        yield ")"


def _import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as sorters of imports have it."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, name


STANDARD = """\
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, log, log2, nan
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
"""


def needed(names: Iterable[str], known: Mapping[str, Definition]) -> list[Definition]:
    """The definitions that names stand for, and all that these need, in order."""
    wanted: set[str] = set()
    pending = [name for name in names if name in known]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending += [other for other in known[name].names if other in known]
    return [definition for name, definition in known.items() if name in wanted]


def standalone_lines(names: Iterable[str]) -> Iterator[str]:
    """The text of all that names of the prelude need, in an order in which it can be run."""
    text = "\n\n\n".join(definition.text for definition in needed(names, definitions()))
    yield from _standard_lines(used_names(text) | {"torch"}, text)
    yield ""
    yield ""
    yield from text.splitlines()


def _standard_lines(used: set[str], text: str) -> Iterator[str]:
    """The imports of standard modules that are needed."""
    yield "from __future__ import annotations"
    yield ""
    for line in STANDARD.splitlines()[2:]:
        if not line.startswith("from ") or "torch" in line:
            yield line
            continue
        module, names = line.removeprefix("from ").split(" import ")
        wanted = [name for name in names.split(", ") if name in used or f"{name}[" in text]
        if wanted:
            yield f"from {module} import {', '.join(wanted)}"
