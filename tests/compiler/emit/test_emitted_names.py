"""Emitted modules at the library's own sizes: every name that they use is defined."""

from __future__ import annotations

import ast
import builtins

import pytest

from fgg import load
from fgg.api.compile import selected
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.python import emit
from fgg.compiler.emit.readable import formula_lines
from fgg.compiler.passes.split import SplitImpossible
from fgg.compiler.plan.lower import CannotCompile
from fgg.compiler.rank.uses import NotRankSpace
from fgg.library import library_names


def undefined(source: str) -> set[str]:
    """The names that a module's functions use and nobody defines."""
    module = ast.parse(source)
    top = {n.id for n in ast.walk(module) if isinstance(n, ast.Name) and n in _stores(module.body)}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            top.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            top |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    known = top | set(dir(builtins)) | {"__name__", "__file__"}
    found: set[str] = set()
    for function in (n for n in module.body if isinstance(n, ast.FunctionDef)):
        names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
        own = {n.id for n in names if isinstance(n.ctx, ast.Store)}
        own |= {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
        found |= {n.id for n in names if isinstance(n.ctx, ast.Load)} - own - known
    return found


def _stores(body: list[ast.stmt]) -> list[ast.Name]:
    return [
        n
        for stmt in body
        if isinstance(stmt, ast.Assign | ast.AnnAssign)
        for n in ast.walk(stmt)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]


def programs() -> list[tuple[str, str | None, str]]:
    found: list[tuple[str, str | None, str]] = []
    for name in library_names():
        grammar = load(name)
        if not any(f.rank for f in grammar.factors):
            continue  # what is emitted depends on sizes where factors have a low rank
        spaces = ("state", "rank")
        for query in (*grammar.query, *(() if grammar.queries else (None,))):
            found += [(name, query, space) for space in spaces]
    return found


def test_the_check_finds_what_is_missing() -> None:
    assert undefined("def f(x):\n    y = x\n    return y + q_z\n") == {"q_z"}


CASES = [  # the largest takes two fifths of the time
    pytest.param(*case, marks=pytest.mark.slow) if case[0] == "lexpcfg_rank" else case
    for case in programs()
]


@pytest.mark.parametrize(("name", "query", "space"), CASES)
def test_all_names_are_defined(name: str, query: str | None, space: str) -> None:
    try:
        plan = plan_of(selected(load(name), query), Expected(), space)
    except (CannotCompile, NotRankSpace, SplitImpossible):
        pytest.skip("there is no such program")
    assert undefined(emit(plan)) == set()
    assert undefined(emit(plan, best=True)) == set()


def test_a_line_of_a_formula_ends_between_terms_unless_a_term_is_wider_than_the_line() -> None:
    rule = "X[i, j](p) -> left(p, a) right(a, q) Y[i, j](q)"
    assert formula_lines(rule, 30, "# ", "#     ") == [
        "# X[i, j](p) -> left(p, a)",
        "#     right(a, q) Y[i, j](q)",
    ]
    assert formula_lines("f(a, b, c, d, e, f)", 10) == ["f(a, b, c,", "d, e, f)"]
