"""Writing out uses of nonterminals."""

from __future__ import annotations

from fgg.compiler.passes.inline import matching
from fgg.grammar.index import Expr


def test_indices_are_matched() -> None:
    i, j, n, x = map(Expr.of, ("i", "j", "n", "x"))
    assert matching([i, i + 1], [x, x + 1], {"i"}) == ({"i": x}, ())
    assert matching([i, i + 1], [x, x + 2], {"i"}) is None
    assert matching([n], [Expr.of(0)], {"i"}) == ({}, (n.equals(0),))
    assert matching([i + j, j], [x, n], {"i", "j"}) == ({"j": n, "i": x - n}, ())
    assert matching([i * 2], [x], {"i"}) == ({}, ((i * 2 - x).equals(0),))
