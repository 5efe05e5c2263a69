"""Evaluate a trained model on data: likelihood, and scores of its derivations against gold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fgg.cli import Usage
from fgg.cli.output import print_json
from fgg.cli.passes import add_jit, jit_of
from fgg.diagnostics import refuse
from fgg.progress import stage

SCORES = ("likelihood", "spans", "heads", "tags", "segments", "pairs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc eval`."""
    parser.add_argument("folder", metavar="DIR", help="the folder of a training run")
    parser.add_argument("--query", metavar="NAME", help="another query than that of the run")
    parser.add_argument("--data", metavar="PATH", nargs="+", required=True, help="what to score on")
    parser.add_argument("--format", help="how they are written, if not as the training data")
    parser.add_argument(
        "--score", choices=SCORES, nargs="+", default=["likelihood"], help="what to measure"
    )
    parser.add_argument(
        "--method", choices=("viterbi", "mbr"), default="viterbi", help="which derivation is best"
    )
    parser.add_argument(
        "--family", metavar="NAME", nargs="+", default=[], help="whose cells are spans or tags"
    )
    parser.add_argument(
        "--links", metavar="RULE=HEAD:WORD", nargs="+", default=[],
        help="which positions a rule connects, in its indices: `left_some=j-1:k root=:r`",
    )  # fmt: skip
    parser.add_argument("--max-length", type=int, metavar="N", help="leave out what is longer")
    parser.add_argument("--tokens", type=int, default=4096, metavar="N", help="tokens of a batch")
    add_jit(parser)
    parser.add_argument("--skip-bad", action="store_true", help="leave out lines that are wrong")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print a table."""
    if arguments.tokens < 1 or (arguments.max_length or 1) < 1:
        raise Usage("`--tokens` and `--max-length` are numbers from 1 up")
    from fgg.api.train import load_run
    from fgg.data import Batches, of_length, read
    from fgg.grammar.annotations import read_links
    from fgg.runtime.train.evaluation import Evaluation, evaluate
    from fgg.runtime.train.feed import preprocessed

    model, feed, settings = load_run(Path(arguments.folder), arguments.query, jit=jit_of(arguments))
    format = arguments.format or settings.format
    corpus = preprocessed(
        read(*arguments.data, format=format, skip=arguments.skip_bad), settings.changes
    )
    if arguments.max_length:
        corpus = corpus.map(of_length(1, arguments.max_length))
    known = model.program.grammar.nonterminal
    for name in arguments.family:
        if name not in known:
            message = f"there is no nonterminal `{name}`"
            refuse("F478", message)
    asked = Evaluation(
        tuple(dict.fromkeys(arguments.score)),
        arguments.method,
        tuple(arguments.family),
        read_links(arguments.links, model.program.grammar),
    )
    with stage("token") as scored:

        def tick(tokens: int) -> None:
            scored.done += tokens

        found = evaluate(
            model, feed, Batches(corpus=corpus, tokens=arguments.tokens, shuffle=False), asked, tick
        )
    if arguments.json:
        ranges = model.program.ranges.as_json()
        print_json({"ok": True, "scores": found, "range": ranges, "diagnostics": []})
        return 0
    if line := model.program.ranges.line():
        print(line, file=sys.stderr)
    for name, values in found.items():
        print(name)
        width = max(map(len, values))
        for key, value in values.items():
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
            print(f"  {key.replace('_', ' '):<{width}}  {shown}")
    return 0
