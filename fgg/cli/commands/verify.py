"""Prove that a grammar's plans and programs, and the grammar after each pass, mean the same."""

from __future__ import annotations

import argparse

from fgg.api.verify import ITEMS, LENGTH, TRIALS, verify
from fgg.cli.declaring import add_declarations, with_declarations
from fgg.cli.items import query_of
from fgg.cli.output import print_json
from fgg.cli.passes import add_jit
from fgg.cli.target import add_file, assignments, load_target, need_grammar, seed_number
from fgg.diagnostics import as_json
from fgg.progress import stage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc verify`."""
    from fgg.compiler.driver import SPACES

    add_file(parser)
    parser.add_argument("--query", metavar="NAME", help="join the model with this query")
    add_declarations(parser)
    parser.add_argument(
        "--against", metavar="FILE", help="compare with this grammar, which has the same inputs"
    )
    parser.add_argument(
        "--space", choices=("auto", *SPACES), help="compare in this space (default: in all)"
    )
    parser.add_argument(
        "--after", metavar="PASS", help="compare the grammar after this pass, and nothing else"
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=TRIALS,
        metavar="N",
        help=f"random points of prime fields (default: {TRIALS})",
    )
    parser.add_argument(
        "--length",
        type=int,
        default=LENGTH,
        metavar="N",
        help=f"the greatest length of inputs (default: {LENGTH})",
    )
    parser.add_argument(
        "--items",
        type=int,
        default=ITEMS,
        metavar="N",
        help=f"about how many inputs to try (default: {ITEMS})",
    )
    parser.add_argument("--seed", type=seed_number, default=0, help="of weights and inputs")
    add_jit(parser)
    parser.add_argument(
        "--no-peaked", action="store_true", help="leave out long inputs and extreme weights"
    )
    parser.add_argument(
        "--no-float", action="store_true", help="compare exactly only, without programs in float64"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what was compared; 0 if it is proved, 1 if it is refuted or stays undecided."""
    loaded = load_target(arguments)
    grammar = with_declarations(need_grammar(loaded, quiet=arguments.json), arguments)
    query = query_of(grammar, arguments)
    sizes = assignments(arguments.set, "--set")
    other = None
    if arguments.against is not None:
        from fgg.compiler.resolve.load import load_file

        other = need_grammar(load_file(arguments.against), quiet=arguments.json)
    with stage("comparison") as compared:
        found = verify(
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
            jit=arguments.jit,
            progress=compared.update,
        )
    if arguments.json:
        notes = [as_json(d, loaded.source) for d in loaded.diagnostics]
        print_json({**found.as_json(), "query": query, "diagnostics": notes})
    else:
        print("\n".join(found.lines()))
    return 0 if found.proved else 1
