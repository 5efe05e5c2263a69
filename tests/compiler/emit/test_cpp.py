"""Programs in C++ as text: golden files, names of users, what threads share."""

from __future__ import annotations

from functools import cache

import pytest

from fgg.api.compile import selected
from fgg.compiler import load, loads
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.cpp import FOLDER, native
from fgg.compiler.emit.cpp.layout import WIDTH, comment, laid_out, nested
from fgg.compiler.emit.cpp.names import Names
from fgg.compiler.emit.cpp.step import sharing_of
from fgg.compiler.emit.simplify import passes
from fgg.grammar import Grammar
from fgg.grammar.domains import with_sizes
from fgg.plan.kernel import Kernel
from tests.compiler.test_compiled import NOT_RANK_SPACE, SPACES, source
from tests.conftest import Golden


def text_of(grammar: Grammar, space: str = "dense") -> str:
    return native(plan_of(grammar, Expected(), space)).source


@pytest.mark.parametrize(
    ("name", "query", "space"),
    [("hmm", "string", "dense"), ("eisner", None, "dense"), ("pcfg", "string", "rank")],
)
def test_program(name: str, query: str | None, space: str, golden: Golden) -> None:
    """`pytest --update-golden tests/compiler/emit/test_cpp.py` writes the files anew."""
    golden(text_of(selected(load(name), query), space), "cpp.txt")


def test_programs_of_the_library_are_narrow() -> None:
    for name, query, space in SPACES:
        if space == "rank" and name in NOT_RANK_SPACE:
            continue
        lines = text_of(source(name, query), space).splitlines()
        wide = [line for line in lines if len(line) > WIDTH]
        assert not wide, (name, query, space)
    prelude = (FOLDER / "prelude.hpp").read_text(encoding="utf-8").splitlines()
    assert max(map(len, prelude)) <= WIDTH


def test_rank_space_fits_on_a_few_screens() -> None:
    text = text_of(selected(load("pcfg"), "string"), "rank")
    passes = text[text.index("struct Tensors") :]
    assert len(passes.splitlines()) <= 290


def test_a_program_with_the_prelude_in_it_includes_nothing_of_ours() -> None:
    program = native(plan_of(selected(load("hmm"), "string"), Expected(), "dense"))
    assert '#include "prelude.hpp"' in program.source
    assert "prelude.hpp" not in program.whole.replace("folder of prelude.hpp", "")
    assert program.whole.endswith(program.source.partition('"prelude.hpp"\n')[2])


def test_large_states_are_matrix_products() -> None:
    grammar = with_sizes(load("pcfg"), {"nt": 40, "pt": 50, "r": 60, "words": 30})
    for space in ("state", "rank"):
        assert "matmul(" in text_of(selected(grammar, "string"), space)
    small = with_sizes(load("hmm"), {"k": 3, "d": 4})
    assert "matmul(" not in text_of(selected(small, "string")).partition("struct Outside")[0]


# names


def test_names_of_users_are_identifiers() -> None:
    names = Names()
    wanted = ["X", "X'", "int", "T", "a b", "1st", "", "__x__", "x", "room", "é"]
    given = [names.get(name, name) for name in wanted]
    assert given == ["X", "X2", "int2", "T2", "a_b", "x1st", "x", "x2", "x3", "room2", "x4"]
    assert names.get("X", "X") == "X"
    inner = Names(names)
    assert inner.get("X", "X") == "X3" and inner.get("y", "y") == "y"
    assert inner.get("k", "x", "z") == "z"


# layout


def test_loops_share_a_line_and_long_statements_are_broken() -> None:
    body = nested(["for (I i : is)", "for (I b : items)"], ("x(i, b) = 0;",))
    assert list(laid_out(body)) == ["for (I i : is) for (I b : items) x(i, b) = 0;"]
    two = nested(["for (I i : is)"], ("a;", "b;"))
    assert list(laid_out(two)) == ["for (I i : is) {", "  a;", "  b;", "}"]
    long = f"{'a' * 50} += function({'b' * 30}, {'c' * 10}) * d;"
    assert list(laid_out([long])) == [
        f"{'a' * 50} +=",
        f"    function({'b' * 30}, {'c' * 10}) * d;",
    ]
    lines = list(comment("rule " + " ".join(["X[i, j](a)"] * 20), 1))
    assert all(len(line) <= WIDTH and line.startswith("  // ") for line in lines)
    assert not any(line.endswith(("[i,", "(a")) for line in lines)


# threads


@cache
def kernels(name: str, query: str | None, space: str = "dense") -> tuple[Kernel, Kernel]:
    return passes(plan_of(source(name, query), Expected(), space))


def axes_shared(kernel: Kernel) -> dict[str, str]:
    shared = {}
    for stage in kernel.stages:
        for group in stage.groups:
            found = sharing_of(group)
            name = "+".join(block.rule.name for block in group)
            text = "" if found is None else found.axis
            shared[name] = text + ("!" if found is not None and found.waits else "")
    return shared


def test_positions_are_shared_where_cells_are_not() -> None:
    inside, outside = kernels("pcfg", "string", "rank")
    assert axes_shared(inside) == {
        "X_P_binary_1": "i",
        "X_P_binary_2": "i",
        "binary": "i",
        "X_N_binary_1": "i",
        "X_N_binary_2": "i",
        "root": "",
    }
    assert axes_shared(outside)["binary"] == "i"
    # Both children are cells of one chart: threads wait before the second is added to.
    dense = axes_shared(kernels("cnf", "string")[1])
    assert "i!" in dense.values()
    # A chain has no positions, and cells that are looked up may be the same.
    chain = axes_shared(kernels("hmm", "string")[0])
    assert set(chain.values()) == {""}


def test_the_same_cell_is_never_shared() -> None:
    """An adjoint that several positions add to is left to one thread."""
    text = """
    domain T = 2
    factor f(T)
    factor g(T -> T)
    input w: T[n]
    nonterminal S()
    nonterminal Y[i](T) for 0 <= i < n
    nonterminal X[i, j](T) for 0 <= i < j <= n
    start S
    rule s: S -> X[0, n](t)
    rule y: Y[i](t) -> g(t, w[i])
    rule x: X[i, j](t) -> f(t) Y[0](t)
    """
    outside = passes(plan_of(loads(text), Expected(), "dense"))[1]
    assert axes_shared(outside)["x"] == ""
