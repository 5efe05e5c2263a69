"""Sample: draws from the posterior of each item, or whole derivations from a model alone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fgg.cli.commands.decode import add_form, print_derivations
from fgg.cli.items import add_items, compiled_for, given_weights, read_items, weights_of
from fgg.cli.output import print_json
from fgg.cli.target import add_file, count, load_target, need_grammar
from fgg.diagnostics import as_json
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc sample`."""
    add_file(parser)
    add_items(parser)
    parser.add_argument("--number", type=count, default=1, help="draws an item (default: 1)")
    add_form(parser)


def run(arguments: argparse.Namespace) -> int:
    """Draw derivations and print them."""
    loaded = load_target(arguments)
    grammar = need_grammar(loaded, quiet=arguments.json)
    asked = arguments.query or arguments.data or arguments.input or arguments.length
    if grammar.queries and not asked:
        found = [generated(grammar, arguments)]
    else:
        found = posterior_draws(grammar, arguments)
    if arguments.json:
        notes = [as_json(d, loaded.source) for d in loaded.diagnostics]
        listed = [[d.as_json() for d in item] for item in found]
        print_json({"ok": True, "name": grammar.name, "items": listed, "diagnostics": notes})
        return 0
    print_derivations(found, arguments.form)
    return 0


def posterior_draws(grammar: Grammar, arguments: argparse.Namespace) -> list[list[Derivation]]:
    """Draws for each item that is given."""
    given = given_weights(arguments)
    program = compiled_for(grammar, arguments, given)
    items = read_items(program.grammar, arguments)
    return program.posterior(
        weights_of(program, given, arguments), items.inputs, items.lengths
    ).sample(arguments.number, seed=arguments.seed)


def generated(grammar: Grammar, arguments: argparse.Namespace) -> list[Derivation]:
    """Draws from the model without any query: derivations of every length."""
    import numpy as np

    from fgg.rewrite.ground import ground
    from fgg.runtime.derive.decode_ground import sample

    return sample(
        ground(grammar),
        arguments.number,
        weights=given_weights(arguments),
        seed=arguments.seed,
        generator=np.random.default_rng(arguments.seed),
    )
