"""The options that say how to compile: passes, spaces, backends."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage
from fgg.cli.output import print_diagnostics
from fgg.diagnostics import did_you_mean
from fgg.grammar import Grammar
from fgg.plan.backend import ASKED, AUTO, CPP, TORCH

if TYPE_CHECKING:
    from fgg.cli.options_model import Weights
    from fgg.compiler.driver import Expected
    from fgg.runtime.program.program import Program


def add_space(parser: Parser) -> None:
    """Add `--space SPACE`."""
    from fgg.compiler.driver import SPACES

    parser.choice(
        "--space",
        (AUTO, *SPACES),
        "how to treat factors of low rank: whole (dense), as their pieces (state), or with "
        "the states summed out beforehand (rank); auto, the default, takes the cheapest",
    )


def add_backend(parser: Parser) -> None:
    """Add `--backend BACKEND`."""
    parser.choice(
        "--backend",
        ASKED,
        "what carries out the inside and outside passes: tensor operations (torch), machine code "
        "from a C++ compiler (cpp), or Triton kernels on a GPU (triton); auto takes what pays",
        default=AUTO,
    )


def backend_of(arguments: argparse.Namespace) -> str:
    """Return the backend that is asked for.

    If it is C++ and there is no compiler, it is torch, and a warning (F435) is printed.
    """
    asked = str(arguments.backend)
    if asked != CPP:
        return asked
    from fgg.runtime.native.build import CannotBuild, no_compiler

    reason = no_compiler()
    if reason:
        print_diagnostics([CannotBuild(reason).note()], None)
    return TORCH if reason else CPP


def add_after(parser: Parser, use: str) -> None:
    """Add `--after PASS` and `--space SPACE`; `use` says what the pass is for."""
    from fgg.compiler.driver import SPACES

    names = ", ".join(_in_order(SPACES))
    parser.value("--after", "PASS", f"{use}: {names}")
    add_space(parser)


def _in_order(spaces: Sequence[str]) -> tuple[str, ...]:
    """Return the passes of some spaces, each after all that come before it in any of them."""
    from fgg.compiler.driver import pass_names

    remaining = [list(pass_names(space)) for space in spaces]
    names: list[str] = []
    while any(remaining):
        later = {name for passes in remaining for name in passes[1:]}
        first = next(passes[0] for passes in remaining if passes and passes[0] not in later)
        names.append(first)
        remaining = [passes[1:] if passes[:1] == [first] else passes for passes in remaining]
    return tuple(names)


def check_pass(name: str | None, space: str | None) -> None:
    """Raise Usage if compiling to a space has no such pass."""
    from fgg.compiler.driver import SPACES, pass_names

    known = _in_order(SPACES if space in (None, AUTO) else (space,))
    if name is None or name in known:
        return
    if name in pass_names("rank"):
        way = "rank" if name not in pass_names("state") else "state"
        raise Usage(f"only {way} space has the pass `{name}`", f"try `--space {way}`")
    passes = ", ".join(f"`{p}`" for p in known)
    help = did_you_mean(name, known) or f"the passes are, in order, {passes}"
    raise Usage(f"there is no pass `{name}`", help)


def space_of(
    grammar: Grammar, arguments: argparse.Namespace, expected: Expected
) -> tuple[str, str]:
    """Return the space that options ask for, and the reason for it if the compiler chose it.

    The space is one that has the pass `--after`, if it is given. Raises SplitImpossible.
    """
    from fgg.compiler.cost.choose import choose
    from fgg.compiler.driver import pass_names
    from fgg.compiler.plan.lower import CannotCompile

    if arguments.space not in (None, AUTO):
        return str(arguments.space), ""
    try:
        choice = choose(grammar, expected)
    except CannotCompile:  # a grammar and its passes can be shown all the same
        return _first_space(arguments.after or "cpd"), ""
    if arguments.after is not None and arguments.after not in pass_names(choice.space):
        return _first_space(arguments.after), ""
    return choice.space, choice.reason


def _first_space(name: str) -> str:
    """Return the first space that has a pass."""
    from fgg.compiler.driver import SPACES, pass_names

    return next(space for space in SPACES if name in pass_names(space))


def rewritten(grammar: Grammar, query: str | None, arguments: argparse.Namespace) -> Grammar:
    """Return the grammar joined with its query, after the pass `--after`. Raises GrammarError."""
    from fgg.api.compile import compilable, selected
    from fgg.compiler.driver import Expected, after

    with compilable(grammar.name):
        source = selected(grammar, query)
        space, _ = space_of(source, arguments, Expected())
        return after(source, arguments.after, Expected(), space)


def space_for(grammar: Grammar, weights: Weights) -> str:
    """Return the space for given weights: dense if they give a factor of low rank whole."""
    whole = any(f.rank is not None and f.name in weights for f in grammar.factors)
    return "dense" if whole else AUTO


def compiled_for(
    grammar: Grammar, query: str | None, arguments: argparse.Namespace, weights: Weights
) -> Program:
    """Return the program of a grammar and its query; prints the notes on it."""
    from warnings import catch_warnings, simplefilter

    from fgg.api.compile import compile

    space = arguments.space or space_for(grammar, weights)
    backend = backend_of(arguments)
    with catch_warnings():
        simplefilter("ignore")  # the notes say it
        program = compile(grammar, query, space=space, backend=backend)
    if not arguments.json:
        print_diagnostics(program.notes, None)
    return program
