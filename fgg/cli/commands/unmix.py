"""Unmix: the parameters of a latent tree model from moments of sentences, without iterating."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.cli import Usage
from fgg.cli.items import columns, given_weights, query_of
from fgg.cli.output import (
    check_picture,
    check_writable,
    print_diagnostics,
    print_json,
    write_whole,
)
from fgg.cli.target import add_file, add_weights, load_target, need_grammar
from fgg.diagnostics import GrammarError, as_json
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.draw.plot import Plot
    from fgg.runtime.unmix.result import Unmixing

NUMBERS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SHARES = 6
"""Points of a plot: all sentences, a half of them, a quarter, …"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc unmix`."""
    add_file(parser)
    parser.add_argument("--query", metavar="NAME", help="join the model with this query")
    parser.add_argument("--data", metavar="PATH", help="a file with a sentence a line")
    parser.add_argument(
        "--exact", action="store_true", help="use the exact moments of weights, and tell the error"
    )
    add_weights(parser)
    parser.add_argument(
        "--max-length",
        metavar="N",
        type=_number(2, 12),
        default=3,
        help="use sentences of at most so many words (default: 3)",
    )
    parser.add_argument(
        "--directions",
        metavar="N",
        type=_number(1, 10_000),
        default=20,
        help="random directions to choose the best from (default: 20)",
    )
    parser.add_argument(
        "--refine",
        metavar="N",
        type=_number(0, 100_000),
        default=0,
        help="then at most N steps of EM on all sentences (default: 0)",
    )
    parser.add_argument("--params-out", metavar="PATH", help="where to write the weights")
    parser.add_argument(
        "--plot",
        metavar="PATH",
        help="an SVG: the error as sentences grow in number",
    )


def _number(low: int, high: int) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"a number from {low} to {high:,} is expected")
        return value

    return number


def run(arguments: argparse.Namespace) -> int:
    """Estimate, report, and write what is asked for."""
    if (arguments.data is None) == (not arguments.exact):
        raise Usage("say where moments come from", "`--data FILE`, or `--exact` with `--seed 0`")
    if arguments.exact and arguments.refine:
        raise Usage("`--refine` needs sentences", "give them with `--data`")
    check_writable(arguments.params_out)
    check_picture(arguments.plot)
    from fgg.api.compile import selected

    loaded = load_target(arguments)
    grammar = need_grammar(loaded, quiet=arguments.json)
    query = query_of(grammar, arguments)
    truth = _truth(grammar, query, arguments)
    sentences = None
    if arguments.data is not None:
        (sentences,) = columns(selected(grammar, query), arguments.data).values()
    found = _estimate(grammar, query, sentences, truth, arguments)
    report: dict[str, Any] = {"ok": True, "name": grammar.name, **found.as_json()}
    if truth is not None:
        report["errors"] = found.errors(truth)
    if arguments.params_out is not None:
        from safetensors.numpy import save

        data = save({name: value.copy(order="C") for name, value in found.weights.items()})
        write_whole(Path(arguments.params_out), data)
    if arguments.plot is not None:
        from fgg.draw.plot import to_svg

        plot = _plot(grammar, query, sentences, truth, found, arguments)
        write_whole(Path(arguments.plot), to_svg(plot).encode())
    notes = [*loaded.diagnostics, *found.notes]
    if arguments.json:
        print_json({**report, "diagnostics": [as_json(d, loaded.source) for d in notes]})
        return 0
    print_diagnostics(found.notes, None)
    _print(found, report)
    return 0


def _truth(
    grammar: Grammar, query: str | None, arguments: argparse.Namespace
) -> dict[str, Any] | None:
    """The weights that moments are of, or that the estimate is compared with, if there are any."""
    import torch

    from fgg.api.compile import compile
    from fgg.api.unmix import checked

    given = given_weights(arguments)
    if not arguments.exact and not given:
        return None
    program = compile(grammar, query)
    whole = program.weights(given, seed=arguments.seed, dtype=torch.float64)
    return {name: value.numpy() for name, value in checked(program, whole).items()}


def _estimate(
    grammar: Grammar,
    query: str | None,
    sentences: Any,
    truth: dict[str, Any] | None,
    arguments: argparse.Namespace,
) -> Unmixing:
    from fgg.api.unmix import unmix

    return unmix(
        grammar,
        sentences,
        weights=truth if arguments.exact else None,
        query=query,
        max_length=arguments.max_length,
        directions=arguments.directions,
        refine=arguments.refine,
        seed=arguments.seed or 0,
    )


def _plot(
    grammar: Grammar,
    query: str | None,
    sentences: Any,
    truth: dict[str, Any] | None,
    found: Unmixing,
    arguments: argparse.Namespace,
) -> Plot:
    """The error as sentences grow in number: draws of the weights, or parts of the file.

    Without weights to compare with, the error of a part is its distance from the whole.
    """
    from fgg.api.unmix import curve
    from fgg.draw.plot import Plot, lines

    label = "greatest error of a parameter"
    if sentences is None:
        assert truth is not None
        points = curve(grammar, truth, NUMBERS, query=query, seed=arguments.seed or 0)
        shown = [(float(p.sentences), p.error) for p in points]
    else:
        aim = found.weights if truth is None else truth
        label = label if truth is not None else "greatest distance from the estimate from all"
        shown = []
        count = len(sentences)
        for share in range(SHARES - 1, -1, -1):
            part = sentences[: count >> share]
            try:
                own = _estimate(grammar, query, part, truth, arguments)
            except GrammarError:  # too few, or complex: no point of the line
                continue
            shown.append((float(len(part)), own.error(aim)))
    title = f"{grammar.name}: unmixing"
    kept = [(n, e) for n, e in shown if e > 0]
    return Plot(
        title=title, lines=lines([("error", kept)]), x="sentences", y=label, log_x=True, log_y=True
    )


def _print(found: Unmixing, report: dict[str, Any]) -> None:
    mixed = report["mixing"]
    print(
        f"{report['name']}: {report['method']}; mixing matrix "
        f"{mixed['rows']:,} x {mixed['columns']:,} of rank {mixed['rank']:,}"
    )
    print(f"moments used: {', '.join(mixed['used'])}")
    print(
        f"greatest error of moments {found.residual:.3g}, least gap of eigenvalues {found.gap:.3g}"
    )
    if "polynomial" in report:
        print(f"polynomial {report['polynomial']}, {report['choices']:,} ways to choose roots")
    if found.levels:
        print(
            f"EM: {len(found.levels) - 1} steps, mean log Z {found.levels[0]:.6g} -> "
            f"{found.levels[-1]:.6g}"
        )
    for name, value in found.weights.items():
        error = f", greatest error {report['errors'][name]:.3g}" if "errors" in report else ""
        print(f"{name} {list(value.shape)}{error}")
        for row in value if value.ndim > 1 else [value]:
            shown = "  ".join(f"{x:.4f}" for x in row[:12])
            print(f"  {shown}" + ("  …" if len(row) > 12 else ""))
