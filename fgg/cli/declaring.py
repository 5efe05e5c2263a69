"""Options that change the model before it is compiled: factors merged, ranks declared."""

from __future__ import annotations

import argparse

from fgg.cli import Usage
from fgg.cli.target import assignments
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.grammar import Grammar


def add_declarations(parser: argparse.ArgumentParser) -> None:
    """Add `--merge` and `--rank`."""
    add_merging(parser)
    parser.add_argument(
        "--rank",
        metavar="FACTOR=R",
        action="append",
        nargs="+",
        default=[],
        help="declare the rank of a factor that has no value: its pieces are the parameters",
    )


def add_merging(parser: argparse.ArgumentParser) -> None:
    """Add `--merge` and `--merge-rule`."""
    parser.add_argument(
        "--merge",
        action="store_true",
        help="join the factors of each rule that share nodes: `emit` and `trans` to `emit_trans`",
    )
    parser.add_argument(
        "--merge-rule",
        metavar="RULE",
        action="append",
        default=[],
        help="join the factors of this rule only",
    )


def with_declarations(grammar: Grammar, arguments: argparse.Namespace) -> Grammar:
    """The grammar with factors merged and ranks declared as options say. Raises GrammarError."""
    from fgg.compiler.passes.cpd import CpdImpossible, declared

    grammar = merged(grammar, arguments)
    ranks = assignments(arguments.rank, "--rank")
    try:
        return declared(grammar, ranks) if ranks else grammar
    except CpdImpossible as error:
        problem = Diagnostic(code="F440", message=str(error), help=error.help)
        raise GrammarError([problem]) from None


def merged(grammar: Grammar, arguments: argparse.Namespace) -> Grammar:
    """The grammar with factors merged as options say. Raises Usage."""
    from fgg.compiler.passes.merge import merge

    wanted = arguments.merge_rule
    known = [rule.name for rule in grammar.rules]
    for name in wanted:
        if name not in known:
            raise Usage(f"`{grammar.name}` has no rule `{name}`", did_you_mean(name, known))
    if not arguments.merge and not wanted:
        return grammar
    return merge(grammar, wanted or None)
