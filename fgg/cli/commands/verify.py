"""Prove that a grammar, the grammar after each pass, its plans and its programs mean the same."""

from __future__ import annotations

import argparse
import sys

from fgg.api.verify import ITEMS, LENGTH, TRIALS, verify
from fgg.cli.arguments import Parser, assignments
from fgg.cli.options_compiler import add_backend
from fgg.cli.options_model import (
    add_declarations,
    add_file,
    add_query,
    load_grammar,
    need_grammar,
    query_of,
)
from fgg.cli.output import print_json
from fgg.cli.pictures import add_picture, check_picture, write_picture
from fgg.cli.terminal import GREEN, RED, YELLOW, painted
from fgg.diagnostics import as_json
from fgg.progress import stage


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc verify`."""
    from fgg.compiler.driver import SPACES

    add_file(parser)
    add_query(parser)
    add_declarations(parser)
    parser.value("--against", "FILE", "compare with this grammar; it must have the same inputs")
    parser.choice("--space", ("auto", *SPACES), "compare in this space (default: in all)")
    parser.value("--after", "PASS", "compare the grammar after this pass, and nothing else")
    for option, default, text in (
        ("--trials", TRIALS, "the number of random points of prime fields"),
        ("--length", LENGTH, "the greatest length of inputs"),
        ("--items", ITEMS, "about how many inputs to try"),
    ):
        help = f"{text} (default: {default})"
        parser.value(option, "N", help, type=int, default=default)
    parser.seed("the seed of weights and inputs")
    add_backend(parser)
    parser.flag("--no-peaked", "leave out long inputs and extreme weights")
    parser.flag("--no-float", "compare exactly only, no programs in float64")
    add_picture(parser, "the verdict and the comparisons")


def run(arguments: argparse.Namespace) -> int:
    """Print the comparisons; return 0 if all are proved, 1 if one is refuted or undecided."""
    check_picture(arguments.output)
    grammar, loaded = load_grammar(arguments)
    query = query_of(grammar, arguments)
    sizes = assignments(arguments.set, "--set")
    other = None
    if arguments.against is not None:
        from fgg.compiler.resolve.load import load_file

        other = need_grammar(load_file(arguments.against), quiet=arguments.json)
    with stage("comparison") as compared:
        result = verify(
            grammar,
            query,
            against=other,
            sizes=sizes,
            space=arguments.space,
            after=arguments.after,
            trials=arguments.trials,
            length=arguments.length,
            items=arguments.items,
            seed=arguments.seed,
            floats=not arguments.no_float,
            peaked=not arguments.no_peaked,
            backend=arguments.backend,
            progress=compared.update,
        )
    if arguments.output:
        write_picture(arguments.output, result.draw)
    if arguments.json:
        notes = [as_json(d, loaded.source) for d in loaded.diagnostics]
        print_json({**result.as_json(), "query": query, "diagnostics": notes})
    else:
        first, *others = result.lines()
        color = {"proved": GREEN, "refuted": RED}.get(result.verdict, YELLOW)
        print("\n".join([painted(first, color, sys.stdout), *others]))
    return 0 if result.proved else 1
