"""The passes and the spaces of the compiler, as options name them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgg.cli import Usage
from fgg.diagnostics import did_you_mean
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.compiler.driver import Expected

AUTO = "auto"


def add_space(parser: argparse.ArgumentParser) -> None:
    """Add `--space SPACE`."""
    from fgg.compiler.driver import SPACES

    parser.add_argument(
        "--space",
        choices=(AUTO, *SPACES),
        help="what becomes of factors of low rank: they are taken as they are (dense), as their "
        "pieces (state), or states are summed beforehand (rank); auto takes the cheapest",
    )


def add_jit(parser: argparse.ArgumentParser) -> None:
    """Add `--jit`."""
    parser.add_argument(
        "--jit",
        action="store_true",
        help="inside and outside passes as machine code, by a C++ compiler when first needed",
    )


def jit_of(arguments: argparse.Namespace) -> bool:
    """Whether passes are to be machine code; without a compiler not, with a warning (F435)."""
    if not arguments.jit:
        return False
    from fgg.cli.output import print_diagnostics
    from fgg.runtime.native.build import CannotBuild, compiler

    try:
        compiler()
    except CannotBuild as error:
        print_diagnostics([error.note()], None)
        return False
    return True


def add_after(parser: argparse.ArgumentParser, use: str) -> None:
    """Add `--after PASS` and `--space SPACE`; `use` says what the pass is for."""
    from fgg.compiler.driver import SPACES

    names = ", ".join(_in_order(SPACES))
    parser.add_argument("--after", metavar="PASS", help=f"{use}: {names}")
    add_space(parser)


def _in_order(spaces: Sequence[str]) -> tuple[str, ...]:
    """The passes of some spaces, each after those that come before it in any of them."""
    from fgg.compiler.driver import pass_names

    ways = [list(pass_names(space)) for space in spaces]
    found: list[str] = []
    while any(ways):
        ahead = {name for way in ways for name in way[1:]}
        first = next(way[0] for way in ways if way and way[0] not in ahead)
        found.append(first)
        ways = [way[1:] if way and way[0] == first else way for way in ways]
    return tuple(found)


def check_pass(name: str | None, space: str | None) -> None:
    """Raise Usage if there is no such pass on the way to a space."""
    from fgg.compiler.driver import SPACES, pass_names

    spaces = SPACES if space in (None, AUTO) else (space,)
    known = _in_order(spaces)
    if name is None or name in known:
        return
    if name in pass_names("rank"):
        way = "rank" if name not in pass_names("state") else "state"
        raise Usage(f"`{name}` is a pass on the way to {way} space", f"try `--space {way}`")
    passes = ", ".join(f"`{p}`" for p in known)
    help = did_you_mean(name, known) or f"the passes are, in order, {passes}"
    raise Usage(f"there is no pass `{name}`", help)


def space_of(
    grammar: Grammar, arguments: argparse.Namespace, expected: Expected
) -> tuple[str, str]:
    """The space that options ask for, and why it was chosen, if it was.

    Where a pass is named, it is a space on the way to which the pass is. Raises SplitImpossible.
    """
    from fgg.compiler.cost.choose import choose
    from fgg.compiler.driver import pass_names
    from fgg.compiler.plan.lower import CannotCompile

    if arguments.space not in (None, AUTO):
        return str(arguments.space), ""
    try:
        choice = choose(grammar, expected)
    except CannotCompile:  # a grammar and its passes can be shown all the same
        return _way(arguments.after or "cpd"), ""
    if arguments.after is not None and arguments.after not in pass_names(choice.space):
        return _way(arguments.after), ""
    return choice.space, choice.reason


def _way(name: str) -> str:
    """The first space on the way to which a pass is."""
    from fgg.compiler.driver import SPACES, pass_names

    return next(s for s in SPACES if name in pass_names(s))


def rewritten(grammar: Grammar, query: str | None, arguments: argparse.Namespace) -> Grammar:
    """The grammar joined with its query, after the pass that is named. Raises GrammarError."""
    from fgg.api.compile import compilable, selected
    from fgg.compiler.driver import Expected, after

    with compilable(grammar.name):
        source = selected(grammar, query)
        space, _ = space_of(source, arguments, Expected())
        return after(source, arguments.after, Expected(), space)
