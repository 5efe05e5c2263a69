"""The passes of the compiler, as options name them."""

from __future__ import annotations

import argparse

from fgg.cli import Usage
from fgg.diagnostics import did_you_mean
from fgg.grammar import Grammar


def add_after(parser: argparse.ArgumentParser, use: str) -> None:
    """Add `--after PASS` and `--space SPACE`; `use` says what the pass is for."""
    from fgg.compiler.driver import PASS_NAMES, PIPELINES

    parser.add_argument("--after", metavar="PASS", help=f"{use}: {', '.join(PASS_NAMES)}")
    parser.add_argument(
        "--space",
        choices=tuple(PIPELINES),
        help="with nonterminals over states (the default), or over ranks where factors have one; "
        "then there are the passes `cpd`, before `split`, and `rank_space`, before `fold`",
    )


def space_of(arguments: argparse.Namespace) -> str:
    """The space that options ask for; decomposing comes before it makes a difference."""
    return str(arguments.space or ("rank" if arguments.after == "cpd" else "state"))


def check_pass(name: str, space: str) -> None:
    """Raise Usage if there is no such pass."""
    from fgg.compiler.driver import CONJOIN, PIPELINES, RANK_PASS_NAMES

    names = (CONJOIN, *(item.name for item in PIPELINES[space]))
    if name not in names:
        if name in RANK_PASS_NAMES:
            raise Usage(f"`{name}` is a pass on the way to rank space", "add `--space rank`")
        passes = ", ".join(f"`{p}`" for p in names)
        help = did_you_mean(name, names) or f"the passes are, in order, {passes}"
        raise Usage(f"there is no pass `{name}`", help)


def rewritten(grammar: Grammar, query: str | None, name: str, space: str) -> Grammar:
    """The grammar joined with its query, after a pass. Raises GrammarError."""
    from fgg.compiler.driver import Expected, after
    from fgg.compiling import compilable, selected

    with compilable(grammar.name):
        return after(selected(grammar, query), name, Expected(), space)
