"""Put the words of a text into blocks, by Brown clustering, at random, or by frequency."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage, whole_number
from fgg.cli.options_data import add_normalisation
from fgg.cli.options_model import add_json
from fgg.cli.output import check_writable, print_diagnostics, print_report, write_whole
from fgg.diagnostics import Diagnostic
from fgg.progress import stage

if TYPE_CHECKING:
    from fgg.clusters import Bigrams, Clustering
    from fgg.data import Corpus

METHODS = ("brown", "uniform", "frequency")
_positive = whole_number(1, 2**31 - 1)


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc cluster`."""
    parser.add_argument("data", nargs="+", metavar="DATA", help="text files (also .gz, .xz, .bz2)")
    parser.add_argument(
        "-c", "--clusters", type=_positive, required=True, metavar="C", help="the number of blocks"
    )
    parser.add_argument("-o", "--output", metavar="PATH", help="write lines `word<TAB>block`")
    parser.value("--paths", "PATH", "write lines `bits<TAB>word<TAB>count`")
    parser.choice("--method", METHODS, "how to make blocks", default="brown")
    parser.seed("the seed of `uniform`")
    parser.flag("--by-line", "count no pair of words across the end of an item")
    parser.value("--format", "NAME", "the format of the data, if the file's name does not tell")
    parser.value(
        "--columns",
        "NAMES",
        "the columns of the format `columns`, such as `word,tag,fine,head,relation`",
    )
    add_normalisation(parser)
    parser.value("--vocab", "PATH", "replace words not in this file by <unk>")
    parser.value(
        "--least", "N", "replace words that occur less often by <unk>", type=_positive, default=1
    )
    add_json(parser)


def _read_corpus(arguments: argparse.Namespace) -> Corpus:
    """Return the corpus that files and options describe. Raises GrammarError."""
    from fgg.data import normal, read

    columns = arguments.columns.split(",") if arguments.columns else None
    corpus = read(
        *arguments.data, format=arguments.format, columns=columns, skip=arguments.skip_bad
    )
    if arguments.lower or arguments.digits:
        corpus = corpus.map(normal(lower=arguments.lower, digits=arguments.digits))
    return corpus


def run(arguments: argparse.Namespace) -> int:
    """Cluster the words and write the blocks."""
    from fgg.clusters import mutual_information

    if arguments.paths and arguments.method != "brown":
        raise Usage("`--paths` needs `--method brown`: the others have no hierarchy")
    for path in (arguments.output, arguments.paths):
        check_writable(path)
    bigrams, warnings = _count(arguments)
    clustering = _clustering(bigrams, arguments)
    if arguments.output:
        write_whole(Path(arguments.output), clustering.blocks_text().encode())
    if arguments.paths:
        write_whole(Path(arguments.paths), clustering.paths_text().encode())
    information = mutual_information(bigrams, clustering.blocks)
    if arguments.json:
        tokens = int(bigrams.tokens.sum())
        figures = {"words": len(bigrams.words), "tokens": tokens, "clusters": clustering.many}
        print_report({**figures, "bits": information}, warnings)
        return 0
    print_diagnostics(warnings, None)
    if not arguments.output:
        print(clustering.blocks_text(), end="")
        return 0
    print(f"{len(bigrams.words):,} words, {bigrams.tokens.sum():,} tokens, ", end="")
    print(f"{clustering.many:,} clusters")
    print(f"average mutual information {information:.4f} bits")
    return 0


def _count(arguments: argparse.Namespace) -> tuple[Bigrams, list[Diagnostic]]:
    """Return the words and pairs of the text, and warnings about items that are left out."""
    from fgg.clusters import count_bigrams
    from fgg.data import build_vocabulary, load_vocabulary

    corpus = _read_corpus(arguments)
    if arguments.vocab:
        corpus = corpus.map(load_vocabulary(arguments.vocab).replaced)
    if arguments.least > 1:
        corpus = corpus.map(build_vocabulary(corpus, least=arguments.least).replaced)
    sentences = (example.words for example in corpus)
    bigrams = count_bigrams(sentences, across=not arguments.by_line)
    warning = corpus.skipped.warning()
    return bigrams, [warning] if warning else []


def _clustering(bigrams: Bigrams, arguments: argparse.Namespace) -> Clustering:
    from fgg.clusters import brown, by_frequency, uniform

    if arguments.method == "uniform":
        return uniform(bigrams, arguments.clusters, seed=arguments.seed)
    if arguments.method == "frequency":
        return by_frequency(bigrams, arguments.clusters)
    with stage("word") as placed:
        return brown(bigrams, arguments.clusters, progress=placed.update)
