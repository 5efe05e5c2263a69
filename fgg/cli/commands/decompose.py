"""Find pieces of low rank for factors that have weights: how near they come, and what they save."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.cli import Usage
from fgg.cli.declaring import add_merging, merged
from fgg.cli.output import print_diagnostics, print_json, write_whole
from fgg.cli.target import (
    add_file,
    add_inputs,
    assignments,
    load_target,
    need_grammar,
    only_query,
    read_inputs,
    seed_number,
)
from fgg.diagnostics import as_json, refuse
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.api.decompose import DecomposedGrammar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc decompose`."""
    add_file(parser)
    parser.add_argument(
        "--params", "--weights", metavar="FILE", help="weights of factors (.safetensors)"
    )
    parser.add_argument(
        "--rank",
        metavar="FACTOR=R",
        action="append",
        nargs="+",
        default=[],
        help="decompose a factor at this rank",
    )
    parser.add_argument(
        "--rank-tol",
        metavar="E",
        type=_tolerance,
        help="find the smallest rank with a relative error of at most E",
    )
    parser.add_argument(
        "--factor",
        metavar="NAME",
        action="append",
        default=[],
        help="with `--rank-tol`, this factor (default: all that become smaller)",
    )
    add_merging(parser)
    parser.add_argument(
        "--signed", action="store_true", help="pieces may be negative: no program runs with them"
    )
    parser.add_argument("--restarts", type=_count, metavar="N", help="starts to choose from")
    parser.add_argument("--sweeps", type=_count, metavar="N", help="sweeps of the best start")
    parser.add_argument("--seed", type=seed_number, default=0, help="of the starts (default: 0)")
    parser.add_argument("-o", "--output", metavar="PATH", help="where to write the grammar")
    parser.add_argument(
        "--weights-out",
        "--params-out",
        metavar="PATH",
        help="where to write weights and pieces (.safetensors); else pieces are in the grammar",
    )
    parser.add_argument("--query", metavar="NAME", help="with an input: the query that is asked")
    add_inputs(parser, "tell how far log Z moves for this length, or an input")


def _tolerance(text: str) -> float:
    number = float(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError("a number between 0 and 1 is expected")
    return number


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError("a number from 1 to 1,000,000 is expected")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Decompose, report, and write what is asked for."""
    ranks = assignments(arguments.rank, "--rank")
    if not ranks and arguments.rank_tol is None:
        raise Usage("say what to decompose", "`--rank trans=4`, or `--rank-tol 1e-3`")
    if arguments.rank_tol is not None and ranks and not arguments.factor:
        raise Usage(
            "`--rank` and `--rank-tol` together", "add `--factor` for what the tolerance is for"
        )
    if arguments.factor and arguments.rank_tol is None:
        raise Usage("`--factor` needs `--rank-tol`", "or give its rank: `--rank trans=4`")
    if arguments.signed and arguments.output is not None and arguments.weights_out is None:
        raise Usage(
            "a grammar cannot hold pieces with signs", "add `--weights-out pieces.safetensors`"
        )
    if arguments.json and arguments.output == "-":
        raise Usage("`-o -` and `--json` both want standard output")
    from fgg.api.decompose import decompose
    from fgg.cli.commands.run import read_params

    loaded = load_target(arguments)
    grammar = merged(need_grammar(loaded, quiet=True), arguments)
    weights = read_params(arguments.params) if arguments.params else {}
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
    report = {"ok": True, "name": grammar.name, "factors": [vars(line) for line in done.report]}
    notes = [*loaded.diagnostics, *done.notes]
    moved = _moved(grammar, weights, done, arguments)
    if moved is not None:
        before, after = moved
        report["log_z"] = {"before": before, "after": after, "moved": after - before}
    _write(done, arguments)
    report |= {"file": arguments.output, "weights": arguments.weights_out}
    if arguments.json:
        report["diagnostics"] = [as_json(d, loaded.source) for d in notes]
        print_json(report)
    else:
        print_diagnostics(notes, loaded.source)
        _print(report, arguments)
    return 0


def _moved(
    grammar: Grammar,
    weights: dict[str, Any],
    done: DecomposedGrammar,
    arguments: argparse.Namespace,
) -> tuple[float, float] | None:
    """log Z before and after, of the item that is given."""
    from fgg.api.decompose import log_z_moved

    inputs = read_inputs(arguments.input)
    lengths = assignments(arguments.length, "--length")
    if not inputs and not lengths:
        if arguments.query is not None:
            raise Usage("`--query` asks how far log Z moves", "give an `--input` or a `--length`")
        return None
    query = arguments.query
    if query is None and grammar.queries:
        query = only_query(grammar)
    (found,) = log_z_moved(
        grammar,
        weights,
        done,
        query=query,
        inputs={name: [value] for name, value in inputs.items()},
        lengths={name: [value] for name, value in lengths.items()} or None,
    )
    return found


def _write(done: DecomposedGrammar, arguments: argparse.Namespace) -> None:
    """Write the files that are asked for, each whole; all that can fail comes first."""
    from fgg.grammar.printer import print_grammar

    text = data = None
    if arguments.output is not None:
        whole = done.grammar if arguments.weights_out is not None else done.explicit()
        text = print_grammar(whole)
    for path in (arguments.output, arguments.weights_out):
        folder = None if path in (None, "-") else Path(path).resolve().parent
        if folder is not None and not folder.is_dir():
            message = f"`{path}` cannot be written: there is no folder `{Path(path).parent}`"
            refuse("F413", message)
    if arguments.weights_out is not None:
        data = _safetensors(done)
        write_whole(Path(arguments.weights_out), data)
    if text is not None and arguments.output != "-":
        write_whole(Path(arguments.output), text.encode())
    elif text is not None:
        sys.stdout.write(text)


def _safetensors(done: DecomposedGrammar) -> bytes:
    import numpy as np
    from safetensors.numpy import save

    try:
        return save({n: np.ascontiguousarray(w) for n, w in done.weights.items()})
    except Exception:
        problem = "the weights cannot be written as a safetensors file"
        refuse("F413", problem)


def _print(report: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the report as text; to standard error where the grammar goes to standard output."""
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
