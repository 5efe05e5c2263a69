"""Approximate factors that have weights by factors of low rank; report error and size."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage, assignments, whole_number
from fgg.cli.options_data import given_item
from fgg.cli.options_model import (
    Weights,
    add_file,
    add_inputs,
    add_merging,
    given_weights,
    load_target,
    merged,
    need_grammar,
    query_of,
)
from fgg.cli.output import (
    Figures,
    check_writable,
    print_diagnostics,
    print_report,
    write_weights,
    write_whole,
)
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.api.decompose import DecomposedGrammar


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc decompose`."""
    add_file(parser)
    parser.add_argument(
        "--params", "--weights", metavar="FILE", help="weights of factors (.safetensors)"
    )
    parser.repeated_values("--rank", "FACTOR=R", "decompose a factor into pieces of this rank")
    parser.value(
        "--rank-tol",
        "E",
        "decompose at the smallest rank with a relative error of at most E",
        type=_tolerance,
    )
    parser.repeated(
        "--factor", "NAME", "the factor that `--rank-tol` is for (default: all that become smaller)"
    )
    add_merging(parser)
    parser.flag("--signed", "allow negative numbers in pieces; no program runs with them")
    count = whole_number(1, 1_000_000)
    parser.value("--restarts", "N", "the number of random starts to choose from", type=count)
    parser.value("--sweeps", "N", "the number of sweeps from the best start", type=count)
    parser.seed("the seed of the starts (default: 0)")
    parser.add_argument("-o", "--output", metavar="PATH", help="where to write the grammar")
    parser.add_argument(
        "--weights-out",
        "--params-out",
        metavar="PATH",
        help="where to write weights and pieces (.safetensors); without it, the grammar has them",
    )
    parser.value("--query", "NAME", "the query to compare log Z for")
    add_inputs(parser, "report how far log Z moves for these lengths or inputs")


def _tolerance(text: str) -> float:
    number = float(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError("a number between 0 and 1 is expected")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Decompose, print a table, and write the grammar and the weights."""
    ranks = assignments(arguments.rank, "--rank")
    if not ranks and arguments.rank_tol is None:
        raise Usage("nothing says what to decompose", "`--rank trans=4`, or `--rank-tol 1e-3`")
    if arguments.rank_tol is not None and ranks and not arguments.factor:
        raise Usage(
            "`--rank` and `--rank-tol` are both given",
            "name the factors of the tolerance: `--factor`",
        )
    if arguments.factor and arguments.rank_tol is None:
        raise Usage("`--factor` needs `--rank-tol`", "or give its rank: `--rank trans=4`")
    if arguments.signed and arguments.output is not None and arguments.weights_out is None:
        raise Usage(
            "a grammar cannot hold pieces with signs", "add `--weights-out pieces.safetensors`"
        )
    if arguments.json and arguments.output == "-":
        raise Usage("`-o -` and `--json` both use standard output")
    from fgg.api.decompose import decompose

    loaded = load_target(arguments)
    grammar = merged(need_grammar(loaded, quiet=True), arguments)
    weights = given_weights(arguments)
    done = decompose(
        grammar,
        weights,
        ranks=ranks,
        tolerance=arguments.rank_tol,
        factors=arguments.factor or (ranks or None),
        nonnegative=not arguments.signed,
        restarts=arguments.restarts,
        sweeps=arguments.sweeps,
        seed=arguments.seed,
    )
    report: Figures = {"name": grammar.name, "factors": [vars(line) for line in done.report]}
    notes = [*loaded.diagnostics, *done.notes]
    moved = _moved(grammar, weights, done, arguments)
    if moved is not None:
        before, after = moved
        report["log_z"] = {"before": before, "after": after, "moved": after - before}
    _write(done, arguments)
    report |= {"file": arguments.output, "weights": arguments.weights_out}
    if arguments.json:
        print_report(report, notes, loaded.source)
    else:
        print_diagnostics(notes, loaded.source)
        _print(report, arguments)
    return 0


def _moved(
    grammar: Grammar, weights: Weights, done: DecomposedGrammar, arguments: argparse.Namespace
) -> tuple[float, float] | None:
    """Return log Z before and after of the item that is given; None if there is none."""
    from fgg.api.compile import selected
    from fgg.api.decompose import log_z_moved

    if not arguments.input and not arguments.length:
        if arguments.query is not None:
            raise Usage("`--query` asks how far log Z moves", "give an `--input` or a `--length`")
        return None
    query = query_of(grammar, arguments)
    item = given_item(selected(grammar, query), arguments)
    (moved,) = log_z_moved(
        grammar, weights, done, query=query, inputs=item.inputs, lengths=item.lengths
    )
    return moved


def _write(done: DecomposedGrammar, arguments: argparse.Namespace) -> None:
    """Write the grammar and the weights; whatever can fail comes first."""
    from fgg.grammar.printer import print_grammar

    text = None
    if arguments.output is not None:
        whole = done.grammar if arguments.weights_out is not None else done.explicit()
        text = print_grammar(whole)
    for path in (arguments.output, arguments.weights_out):
        check_writable(None if path == "-" else path)
    if arguments.weights_out is not None:
        write_weights(arguments.weights_out, done.weights)
    if text is not None and arguments.output != "-":
        write_whole(Path(arguments.output), text.encode())
    elif text is not None:
        sys.stdout.write(text)


def _print(report: Figures, arguments: argparse.Namespace) -> None:
    """Print the report; to standard error if the grammar goes to standard output."""
    stream = sys.stderr if arguments.output == "-" else sys.stdout
    rows = [("factor", "rank", "relative error", "entries", "method")]
    for line in report["factors"]:
        entries = f"{line['entries_before']:,} -> {line['entries_after']:,}"
        method = line["method"] + (", left as it is" if line["left"] else "")
        rank = f"{line['rank']:,}"
        rows.append((line["factor"], rank, f"{line['relative_error']:.3g}", entries, method))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip(), file=stream)
    if "log_z" in report:
        moved = report["log_z"]
        print(f"log Z = {moved['before']:.6g} before", file=stream)
        print(f"log Z = {moved['after']:.6g} after, {moved['moved']:+.2g}", file=stream)
    for path in (report["file"], report["weights"]):
        if path is not None and path != "-":
            print(f"wrote {path}", file=sys.stderr)
