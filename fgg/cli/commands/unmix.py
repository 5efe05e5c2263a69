"""Estimate the parameters of a latent tree model from moments of sentences, without iterating."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage, whole_number
from fgg.cli.options_data import read_columns
from fgg.cli.options_model import (
    add_file,
    add_query,
    add_weights,
    given_weights,
    load_grammar,
    query_of,
)
from fgg.cli.output import (
    Figures,
    check_picture,
    check_writable,
    print_diagnostics,
    print_report,
    write_weights,
    write_whole,
)
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar

if TYPE_CHECKING:
    import numpy as np

    from fgg.draw.plot import Plot
    from fgg.runtime.unmix.result import Unmixing

NUMBERS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SHARES = 6
"""Points of a plot: all sentences, a half of them, a quarter, …"""


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc unmix`."""
    add_file(parser)
    add_query(parser)
    parser.value("--data", "PATH", "a file with one sentence a line")
    parser.flag("--exact", "use the exact moments of weights; report the error")
    add_weights(parser)
    parser.value(
        "--max-length",
        "N",
        "use sentences of at most N words (default: 3)",
        type=whole_number(2, 12),
        default=3,
    )
    parser.choice(
        "--method",
        ("auto", "spectral", "moments"),
        "linear algebra, matching, or the first where the structure is known (default: auto)",
        default="auto",
    )
    parser.value(
        "--moments",
        "F",
        "the moments that `moments` matches: **, ***, all, … (default: ***)",
        default="***",
    )
    parser.value(
        "--starts",
        "N",
        "the most random starts of `moments` (default: 20)",
        type=whole_number(1, 10_000),
        default=20,
    )
    parser.value(
        "--directions",
        "N",
        "the number of random directions to choose the best of (default: 20)",
        type=whole_number(1, 10_000),
        default=20,
    )
    parser.value(
        "--refine",
        "N",
        "afterwards take at most N steps to the greatest likelihood of all sentences (default: 0)",
        type=whole_number(0, 100_000),
        default=0,
    )
    parser.flag("--errors", "print standard errors, and how many sentences `--within` needs")
    parser.value(
        "--within",
        "X",
        "with `--errors`: the distance that estimates are to keep with 95 %% (default: 0.05)",
        type=float,
    )
    parser.value("--params-out", "PATH", "where to write the weights")
    parser.value("--plot", "PATH", "plot the error against the number of sentences (.svg)")


def run(arguments: argparse.Namespace) -> int:
    """Estimate the parameters, print them, and write the files that are asked for."""
    if (arguments.data is None) == (not arguments.exact):
        raise Usage(
            "moments come either from `--data` or from `--exact`",
            "`--data FILE`, or `--exact` with `--seed 0`",
        )
    if arguments.exact and arguments.refine:
        raise Usage("`--refine` needs sentences", "give them with `--data`")
    if arguments.within is not None and not arguments.errors:
        raise Usage("`--within` belongs to `--errors`", "`--errors --within 0.01`")
    if arguments.errors and not arguments.exact and not arguments.refine:
        if arguments.method != "moments":
            raise Usage(
                "standard errors are those of the greatest likelihood or of moment matching",
                "`--refine 1000`, or `--method moments`",
            )
    check_writable(arguments.params_out)
    check_picture(arguments.plot)
    from fgg.api.compile import selected

    grammar, loaded = load_grammar(arguments)
    query = query_of(grammar, arguments)
    truth = _truth(grammar, query, arguments)
    sentences = None
    if arguments.data is not None:
        asked = selected(grammar, query)
        columns, _ = read_columns(asked, arguments.data, refused=bool(asked.input_factors))
        (sentences,) = columns.values()
    estimate = _estimate(grammar, query, sentences, truth, arguments)
    report: Figures = {"name": grammar.name, **estimate.as_json()}
    if truth is not None:
        report["errors"] = estimate.errors(truth)
    if arguments.errors:
        report["precision"] = _precision(grammar, query, sentences, truth, estimate, arguments)
    if arguments.params_out is not None:
        write_weights(arguments.params_out, estimate.weights)
    if arguments.plot is not None:
        from fgg.draw.plot import to_svg

        plot = _plot(grammar, query, sentences, truth, estimate, arguments)
        write_whole(Path(arguments.plot), to_svg(plot).encode())
    if arguments.json:
        print_report(report, [*loaded.diagnostics, *estimate.notes], loaded.source)
        return 0
    print_diagnostics(estimate.notes, None)
    _print(estimate, report)
    return 0


def _truth(
    grammar: Grammar, query: str | None, arguments: argparse.Namespace
) -> dict[str, np.ndarray] | None:
    """Return the weights that have the exact moments, or that the estimate is compared with."""
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
    sentences: Sequence[Sequence[int]] | None,
    truth: dict[str, np.ndarray] | None,
    arguments: argparse.Namespace,
) -> Unmixing:
    from fgg.api.unmix import unmix

    return unmix(
        grammar,
        sentences,
        weights=truth if arguments.exact else None,
        query=query,
        method=arguments.method,
        moments=arguments.moments,
        max_length=arguments.max_length,
        starts=arguments.starts,
        directions=arguments.directions,
        refine=arguments.refine,
        seed=arguments.seed or 0,
    )


def _precision(
    grammar: Grammar,
    query: str | None,
    sentences: Sequence[Sequence[int]] | None,
    truth: dict[str, np.ndarray] | None,
    estimate: Unmixing,
    arguments: argparse.Namespace,
) -> Figures:
    """Return standard errors at the estimate, or at the weights whose moments are exact."""
    from collections import Counter

    from fgg.api.unmix import precision

    within = 0.05 if arguments.within is None else arguments.within
    matched = not arguments.refine and estimate.mixing is None
    moments = arguments.moments if matched else None
    if sentences is None:
        number = 0
        assert truth is not None
        counts = Counter({arguments.max_length: 1})
        limits = precision(grammar, truth, counts, moments=moments, query=query)
    else:
        longest = arguments.max_length if matched else max(map(len, sentences))
        counts = Counter(len(s) for s in sentences if 0 < len(s) <= longest)
        number = counts.total()
        limits = precision(grammar, estimate.weights, counts, moments=moments, query=query)
    return {
        "lengths": dict(sorted(counts.items())),
        "basis": limits.basis,
        "sentences": number,
        "errors": {n: e.tolist() for n, e in limits.errors(number).items()} if number else None,
        "within": within,
        "needed": limits.needed(within),
        "border": list(limits.border),
    }


def _plot(
    grammar: Grammar,
    query: str | None,
    sentences: Sequence[Sequence[int]] | None,
    truth: dict[str, np.ndarray] | None,
    estimate: Unmixing,
    arguments: argparse.Namespace,
) -> Plot:
    """Return a plot of the error against the number of sentences.

    The sentences are samples of the weights, or parts of the file. Without weights to compare
    with, the error of a part is the distance from the estimate from all sentences.
    """
    from fgg.api.unmix import curve
    from fgg.draw.plot import Plot, lines

    label = "greatest error of a parameter"
    if sentences is None:
        assert truth is not None
        points = curve(grammar, truth, NUMBERS, query=query, seed=arguments.seed or 0)
        shown = [(float(p.sentences), p.error) for p in points]
    else:
        target = estimate.weights if truth is None else truth
        label = (
            label if truth is not None else "greatest distance from the estimate from all sentences"
        )
        shown = []
        count = len(sentences)
        for share in range(SHARES - 1, -1, -1):
            part = sentences[: count >> share]
            try:
                partial = _estimate(grammar, query, part, truth, arguments)
            except GrammarError:  # too few sentences, or complex numbers: leave the point out
                continue
            shown.append((float(len(part)), partial.error(target)))
    title = f"{grammar.name}: unmixing"
    kept = [(n, e) for n, e in shown if e > 0]
    return Plot(
        title=title, lines=lines([("error", kept)]), x="sentences", y=label, log_x=True, log_y=True
    )


def _print(estimate: Unmixing, report: Figures) -> None:
    mixed = report["mixing"]
    if mixed is None:
        _print_match(estimate, report)
    else:
        print(
            f"{report['name']}: {report['method']}; mixing matrix "
            f"{mixed['rows']:,} x {mixed['columns']:,} of rank {mixed['rank']:,}"
        )
        print(f"moments used: {', '.join(mixed['used'])}")
        print(
            f"greatest error of moments {estimate.residual:.3g}, "
            f"least gap of eigenvalues {estimate.gap:.3g}"
        )
    if "polynomial" in report:
        print(f"polynomial {report['polynomial']}, {report['choices']:,} ways to choose roots")
    if estimate.levels:
        print(
            f"refined: {len(estimate.levels) - 1} steps, mean log Z {estimate.levels[0]:.6g} -> "
            f"{estimate.levels[-1]:.6g}, gradient {estimate.gradient:.1e}"
        )
    for name, value in estimate.weights.items():
        error = f", greatest error {report['errors'][name]:.3g}" if "errors" in report else ""
        print(f"{name} {list(value.shape)}{error}")
        for row in value.reshape(-1, value.shape[-1]):
            shown = "  ".join(f"{x:.4f}" for x in row[:12])
            print(f"  {shown}" + ("  …" if len(row) > 12 else ""))
    if "precision" in report:
        _print_precision(report["precision"])


def _print_match(estimate: Unmixing, report: Figures) -> None:
    lengths = ", ".join(map(str, report["lengths"]))
    print(
        f"{report['name']}: {report['count']:,} moments `{report['moments']}` of sentences of "
        f"{lengths} words, weighted by {report['weighting']}"
    )
    print(
        f"{report['reached']:,} of {report['starts']:,} starts reached the best fit; greatest "
        f"error of moments {estimate.residual:.3g}, gradient {report['moment_gradient']:.1e}"
    )
    if report["statistic"] is not None:
        print(
            f"chi-squared {report['statistic']:,.1f} with {report['freedom']:,} degrees of "
            f"freedom, probability {report['probability'] or 0:.3g}"
        )


def _print_precision(limits: Figures) -> None:
    lengths = ", ".join(map(str, limits["lengths"]))
    print(f"standard errors by {limits['basis']} of {lengths} words:")
    for name, needed in limits["needed"].items():
        greatest = ""
        if limits["errors"] is not None:
            error = _greatest(limits["errors"][name])
            greatest = f"at most {error:.3g} from {limits['sentences']:,} sentences; "
        border = " (some weights are zero)" if name in limits["border"] else ""
        print(f"  {name}: {greatest}±{limits['within']:g} needs {needed:,}{border}")


def _greatest(values: object) -> float:
    if isinstance(values, list):
        return max((_greatest(value) for value in values), default=0.0)
    assert isinstance(values, float)
    return values
