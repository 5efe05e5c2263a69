"""The passes of the compiler, as options name them."""

from __future__ import annotations

import argparse

from fgg.cli import Usage
from fgg.diagnostics import did_you_mean
from fgg.grammar import Grammar


def add_after(parser: argparse.ArgumentParser, use: str) -> None:
    """Add `--after PASS`; `use` says what for."""
    from fgg.compiler.driver import PASS_NAMES

    parser.add_argument("--after", metavar="PASS", help=f"{use}: {', '.join(PASS_NAMES)}")


def check_pass(name: str) -> None:
    """Raise Usage if there is no such pass."""
    from fgg.compiler.driver import PASS_NAMES

    if name not in PASS_NAMES:
        passes = ", ".join(f"`{p}`" for p in PASS_NAMES)
        help = did_you_mean(name, PASS_NAMES) or f"the passes are, in order, {passes}"
        raise Usage(f"there is no pass `{name}`", help)


def rewritten(grammar: Grammar, query: str | None, name: str) -> Grammar:
    """The grammar joined with its query, after a pass. Raises GrammarError."""
    from fgg.compiler.driver import Expected, after
    from fgg.compiling import compilable, selected

    with compilable(grammar.name):
        return after(selected(grammar, query), name, Expected())
