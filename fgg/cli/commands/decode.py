"""Find the best derivation of each item, by Viterbi or minimum Bayes risk."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage, derivation_count
from fgg.cli.options_compiler import compiled_for
from fgg.cli.options_data import add_items, read_items
from fgg.cli.options_model import add_file, fields_of, given_weights, load_grammar, query_of
from fgg.cli.output import print_report
from fgg.cli.pictures import add_derivation_picture, check_picture, draw_derivations

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation

FORMS = ("values", "brackets", "tree", "input")


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc decode`."""
    add_file(parser)
    add_items(parser)
    parser.choice(
        "--method",
        ("viterbi", "mbr"),
        "the derivation of greatest weight (viterbi) or of minimum Bayes risk (mbr)",
        default="viterbi",
    )
    parser.value("--kbest", "K", "the K derivations of greatest weight", type=derivation_count)
    add_form(parser)
    add_derivation_picture(
        parser, "the derivations, each in a file of its own if there are several"
    )


def add_form(parser: Parser) -> None:
    """Add `--form`, how to print derivations."""
    parser.choice(
        "--form",
        FORMS,
        "how to print derivations: their values (tags, trees over words, heads, segments, "
        "pairs), rule names in brackets, an indented tree of all steps, or the inputs filled in, "
        "as a line of a data file",
        default="values",
    )


def run(arguments: argparse.Namespace) -> int:
    """Decode the items and print their derivations."""
    import torch

    if arguments.kbest and arguments.method != "viterbi":
        raise Usage("`--kbest` needs `--method viterbi`")
    check_picture(arguments.output)
    grammar, loaded = load_grammar(arguments)
    given = given_weights(arguments)
    program = compiled_for(grammar, query_of(grammar, arguments), arguments, given)
    items = read_items(program.grammar, arguments)
    weights = program.weights(given, seed=arguments.seed, dtype=torch.float64)
    post = program.posterior(weights, items.inputs, items.lengths, words=items.words)
    if arguments.kbest:
        derivations = post.k_best(arguments.kbest)
    else:
        derivations = [[derivation] for derivation in post.decode(arguments.method)]
    draw_derivations([derivation for item in derivations for derivation in item], arguments)
    if arguments.json:
        listed = [[d.as_json() for d in item] for item in derivations]
        notes = (*loaded.diagnostics, *program.notes)
        print_report({"name": grammar.name, "items": listed}, notes, loaded.source)
    else:
        print_derivations(derivations, arguments.form, fields_of(arguments))
    return 0


def print_derivations(
    items: list[list[Derivation]], form: str, fields: Mapping[str, str] | None = None
) -> None:
    """Print the derivations of each item; `fields` says which of its inputs are words and tags."""
    if form == "input":
        from fgg.runtime.derive.completed import line

        for derivation in (derivation for item in items for derivation in item):
            print(line(derivation, fields or {}))
        return
    for number, item in enumerate(items):
        if form == "tree" and number:
            print()
        for derivation in item:
            print(shown(derivation, form))


def shown(derivation: Derivation, form: str) -> str:
    """Return a derivation as text, with its log-weight."""
    weight = derivation.log_weight
    value = f"{weight:.6g}" if math.isfinite(weight) else str(weight)
    if form == "tree":
        return f"{value}\n" + "\n".join(f"  {line}" for line in derivation.lines())
    if form == "values":
        return f"{value}\t{derivation.written()}"
    return f"{value}\t{derivation.brackets()}"
