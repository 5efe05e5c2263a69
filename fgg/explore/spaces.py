"""Which space a grammar is compiled in."""

from __future__ import annotations

from fgg.api.compile import compilable
from fgg.compiler.cost.choose import choose
from fgg.compiler.driver import Expected
from fgg.grammar import Grammar


def chosen_space(source: Grammar, space: str, expected: Expected) -> tuple[str, str]:
    """The space to compile in, and a sentence that says why; empty if it was asked for.

    Raises GrammarError (F425) where `auto` finds none.
    """
    if space != "auto":
        return space, ""
    with compilable(source.name):
        choice = choose(source, expected)
    return choice.space, choice.reason
