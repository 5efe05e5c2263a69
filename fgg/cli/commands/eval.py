"""Score a model on data: its likelihood, and its derivations against gold ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage
from fgg.cli.options_compiler import add_backend, add_space, backend_of, compiled_for
from fgg.cli.options_data import add_potentials, add_reading, changes_of, fields_given
from fgg.cli.options_model import (
    add_file,
    add_weights,
    given_weights,
    load_grammar,
    query_of,
    saved_model,
)
from fgg.cli.output import print_report
from fgg.diagnostics import refuse
from fgg.progress import stage

if TYPE_CHECKING:
    from fgg.data.preprocessing import Preprocessing
    from fgg.runtime.entries.factor_reader import Weight
    from fgg.runtime.program.program import Program

SCORES = ("likelihood", "usage", "spans", "heads", "tags", "segments", "pairs")


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc eval`."""
    add_file(parser)
    parser.value("--query", "NAME", "ask this query instead of the one it was trained with")
    parser.add_argument("--data", metavar="PATH", nargs="+", required=True, help="files of data")
    add_reading(parser)
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
    add_weights(parser)
    parser.value("--tokens", "N", "tokens in a batch", type=int, default=4096)
    add_space(parser)
    add_backend(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print a table."""
    if arguments.tokens < 1:
        raise Usage("`--tokens` must be at least 1")
    from fgg.data import Batches, read
    from fgg.data.potentials import read_potentials
    from fgg.data.preprocessing import preprocessed
    from fgg.grammar.annotations import read_links
    from fgg.runtime.train.evaluation import Evaluation, evaluate
    from fgg.runtime.train.feed import Feed

    program, weights = _program(arguments)
    reading = _reading(arguments)
    feed = Feed.of(program.grammar, reading.fields)
    corpus = read(*arguments.data, format=reading.format, skip=arguments.skip_bad)
    if arguments.potentials:
        corpus = corpus.beside(read_potentials(program.grammar, arguments.potentials))
    corpus = preprocessed(corpus, reading.changes)
    if arguments.potentials:
        feed.check(program, corpus)
    known = program.grammar.nonterminal
    for name in arguments.family:
        if name not in known:
            refuse("F478", f"there is no nonterminal `{name}`")
    asked = Evaluation(
        tuple(dict.fromkeys(arguments.score)),
        arguments.method,
        tuple(arguments.family),
        read_links(arguments.links, program.grammar),
    )
    with stage("token") as scored:

        def tick(tokens: int) -> None:
            scored.done += tokens

        batches = Batches(corpus=corpus, tokens=arguments.tokens, shuffle=False)
        scores = evaluate(program, weights, feed, batches, asked, tick)
    if arguments.json:
        print_report({"scores": scores, "range": program.ranges.as_json()})
        return 0
    if line := program.ranges.line():
        print(line, file=sys.stderr)
    for name, values in scores.items():
        print(name)
        width = max(map(len, values))
        for key, value in values.items():
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
            print(f"  {key.replace('_', ' '):<{width}}  {shown}")
    return 0


def _program(arguments: argparse.Namespace) -> tuple[Program, Mapping[str, Weight]]:
    """Return the program of a trained model, or of a grammar and its query, and its weights."""
    import torch

    if saved_model(arguments.file) is not None and not arguments.params and not arguments.set:
        from fgg.api.saved import load_model

        backend = backend_of(arguments)
        model = load_model(
            arguments.file, query=arguments.query, space=arguments.space, backend=backend
        )
        with torch.no_grad():
            return model.program, model.readers()
    grammar, _ = load_grammar(arguments)
    given = given_weights(arguments)
    program = compiled_for(grammar, query_of(grammar, arguments), arguments, given)
    return program, program.weights(given, seed=arguments.seed, dtype=torch.float64)


def _reading(arguments: argparse.Namespace) -> Preprocessing:
    """Return how data are read: as the data of a trained model were, unless options say so."""
    from fgg.data.preprocessing import Preprocessing

    saved = saved_model(arguments.file)
    known = Preprocessing() if saved is None else saved.preprocessing
    return Preprocessing(
        fields_given(arguments) or known.fields,
        {**known.changes, **changes_of(arguments)},
        arguments.format or known.format,
    )
