"""Decode: the best derivation of each item, by Viterbi or minimum Bayes risk."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli import Usage
from fgg.cli.items import add_items, compiled_for, given_weights, read_items, weights_of
from fgg.cli.output import print_json, write_whole
from fgg.cli.target import add_file, count, load_target, need_grammar
from fgg.diagnostics import as_json, refuse

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation

FORMS = ("brackets", "tree", "values")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc decode`."""
    add_file(parser)
    add_items(parser)
    parser.add_argument(
        "--method", choices=("viterbi", "mbr"), default="viterbi", help="what is best"
    )
    parser.add_argument("--kbest", type=count, metavar="K", help="the K derivations of most weight")
    add_form(parser)
    parser.add_argument("--draw", metavar="PATH", help="draw the first derivation (.svg)")


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how derivations are printed."""
    parser.add_argument(
        "--form",
        choices=FORMS,
        default="brackets",
        help="rule names in brackets, an indented tree, or the values of the cells in order",
    )


def run(arguments: argparse.Namespace) -> int:
    """Decode the items and print their derivations."""
    if arguments.kbest and arguments.method != "viterbi":
        raise Usage("`--kbest` goes with `--method viterbi`")
    loaded = load_target(arguments)
    grammar = need_grammar(loaded, quiet=arguments.json)
    given = given_weights(arguments)
    program = compiled_for(grammar, arguments, given)
    items = read_items(program.grammar, arguments)
    weights = weights_of(program, given, arguments)
    if arguments.kbest:
        found = program.posterior(weights, items.inputs, items.lengths).k_best(arguments.kbest)
    else:
        method = arguments.method
        best = program.posterior(weights, items.inputs, items.lengths).decode(method)
        found = [[derivation] for derivation in best]
    if arguments.draw:
        draw(found[0][0], arguments.draw)
    if arguments.json:
        notes = [as_json(d, loaded.source) for d in (*loaded.diagnostics, *program.notes)]
        listed = [[d.as_json() for d in item] for item in found]
        print_json({"ok": True, "name": grammar.name, "items": listed, "diagnostics": notes})
        return 0
    print_derivations(found, arguments.form)
    return 0


def print_derivations(found: list[list[Derivation]], form: str) -> None:
    """Print the derivations of each item."""
    for number, item in enumerate(found):
        if form == "tree" and number:
            print()
        for derivation in item:
            print(shown(derivation, form))


def shown(derivation: Derivation, form: str) -> str:
    """A derivation as text, with its log-weight."""
    weight = derivation.log_weight
    value = f"{weight:.6g}" if math.isfinite(weight) else str(weight)
    if form == "tree":
        return f"{value}\n" + "\n".join(f"  {line}" for line in derivation.lines())
    if form == "values":
        return f"{value}\t{' '.join(derivation.cell_values())}"
    return f"{value}\t{derivation.brackets()}"


def draw(derivation: Derivation, path: str) -> None:
    """Draw a derivation as SVG."""
    from fgg.draw import TooLarge

    if Path(path).suffix != ".svg":
        raise Usage(f"`--draw {path}`: derivations are drawn as .svg")
    try:
        text = derivation.to_svg()
    except TooLarge as error:
        refuse("F412", str(error))
    write_whole(Path(path), text.encode())
