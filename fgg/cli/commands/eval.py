"""Score a trained model on data: its likelihood, and its derivations against gold ones."""

from __future__ import annotations

import argparse
import sys

from fgg.cli.arguments import Parser, Usage
from fgg.cli.options_compiler import add_backend, add_space, backend_of
from fgg.cli.options_data import add_potentials
from fgg.cli.options_model import add_json
from fgg.cli.output import print_report
from fgg.diagnostics import refuse
from fgg.progress import stage

SCORES = ("likelihood", "spans", "heads", "tags", "segments", "pairs")


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc eval`."""
    parser.add_argument(
        "model", metavar="MODEL", help="a trained model: a file, or the folder of its run"
    )
    parser.value("--query", "NAME", "ask this query instead of the one it was trained with")
    parser.add_argument("--data", metavar="PATH", nargs="+", required=True, help="files of data")
    parser.add_argument("--format", help="the format of the data (default: as in training)")
    parser.add_argument(
        "--score", choices=SCORES, nargs="+", default=["likelihood"], help="what to measure"
    )
    parser.choice(
        "--method", ("viterbi", "mbr"), "how to find the best derivation", default="viterbi"
    )
    parser.values("--family", "NAME", "the families whose cells are spans or tags")
    parser.values(
        "--links",
        "RULE=HEAD:WORD",
        "the positions that a rule connects, in its indices: `left_some=j-1:k root=:r`",
    )
    add_potentials(parser)
    parser.value("--max-length", "N", "leave out longer items", type=int)
    parser.value("--tokens", "N", "tokens in a batch", type=int, default=4096)
    add_space(parser)
    add_backend(parser)
    parser.flag("--skip-bad", "leave out items that cannot be read")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print a table."""
    if arguments.tokens < 1 or (arguments.max_length or 1) < 1:
        raise Usage("`--tokens` and `--max-length` must be at least 1")
    from fgg.api.train import load_fed
    from fgg.data import Batches, of_length, read
    from fgg.data.potentials import read_potentials
    from fgg.data.preprocessing import preprocessed
    from fgg.grammar.annotations import read_links
    from fgg.runtime.train.evaluation import Evaluation, evaluate

    model, feed = load_fed(
        arguments.model, arguments.query, space=arguments.space, backend=backend_of(arguments)
    )
    format = arguments.format or model.preprocessing.format
    corpus = read(*arguments.data, format=format, skip=arguments.skip_bad)
    if arguments.potentials:
        corpus = corpus.beside(read_potentials(model.program.grammar, arguments.potentials))
    corpus = preprocessed(corpus, model.preprocessing.changes)
    if arguments.max_length:
        corpus = corpus.map(of_length(1, arguments.max_length))
    if arguments.potentials:
        feed.check(model.program, corpus)
    known = model.program.grammar.nonterminal
    for name in arguments.family:
        if name not in known:
            refuse("F478", f"there is no nonterminal `{name}`")
    asked = Evaluation(
        tuple(dict.fromkeys(arguments.score)),
        arguments.method,
        tuple(arguments.family),
        read_links(arguments.links, model.program.grammar),
    )
    with stage("token") as scored:

        def tick(tokens: int) -> None:
            scored.done += tokens

        batches = Batches(corpus=corpus, tokens=arguments.tokens, shuffle=False)
        scores = evaluate(model, feed, batches, asked, tick)
    if arguments.json:
        print_report({"scores": scores, "range": model.program.ranges.as_json()})
        return 0
    if line := model.program.ranges.line():
        print(line, file=sys.stderr)
    for name, values in scores.items():
        print(name)
        width = max(map(len, values))
        for key, value in values.items():
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
            print(f"  {key.replace('_', ' '):<{width}}  {shown}")
    return 0
