"""Sample derivations: from the posterior of each item, or, without items, from the model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, derivation_count
from fgg.cli.commands.decode import add_form, print_derivations
from fgg.cli.options_compiler import compiled_for
from fgg.cli.options_data import add_items, read_items
from fgg.cli.options_model import add_file, fields_of, given_weights, load_grammar, query_of
from fgg.cli.output import print_report
from fgg.cli.pictures import add_derivation_picture, check_picture, draw_derivations
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc sample`."""
    add_file(parser)
    add_items(parser)
    parser.value(
        "--number",
        "K",
        "the number of samples for each item (default: 1)",
        type=derivation_count,
        default=1,
    )
    add_form(parser)
    add_derivation_picture(parser, "the samples, each to a file of its own")


def run(arguments: argparse.Namespace) -> int:
    """Sample derivations and print them."""
    check_picture(arguments.output)
    grammar, loaded = load_grammar(arguments)
    asked = (arguments.data, arguments.potentials, arguments.input, arguments.length)
    if grammar.is_indexed or grammar.queries:
        samples = _from_program(grammar, arguments, alone=not any(asked))
    else:
        samples = [_from_model(grammar, arguments)]
    draw_derivations([derivation for item in samples for derivation in item], arguments)
    if arguments.json:
        listed = [[d.as_json() for d in item] for item in samples]
        figures = {"name": grammar.name, "items": listed}
        print_report(figures, loaded.diagnostics, loaded.source)
    else:
        print_derivations(samples, arguments.form, fields_of(arguments))
    return 0


def _from_program(
    grammar: Grammar, arguments: argparse.Namespace, *, alone: bool
) -> list[list[Derivation]]:
    """Return samples from the posterior of each item, or, `alone`, from the model."""
    import torch

    from fgg.runtime.model.generate import generate

    given = given_weights(arguments)
    program = compiled_for(grammar, query_of(grammar, arguments), arguments, given)
    weights = program.weights(given, seed=arguments.seed, dtype=torch.float64)
    if alone:
        return [generate(program, weights, arguments.number, seed=arguments.seed)]
    items = read_items(program.grammar, arguments)
    post = program.posterior(weights, items.inputs, items.lengths, words=items.words)
    return post.sample(arguments.number, seed=arguments.seed)


def _from_model(grammar: Grammar, arguments: argparse.Namespace) -> list[Derivation]:
    """Return samples from a model without inputs."""
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
