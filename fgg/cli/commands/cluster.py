"""Cluster: put the words of a text into blocks, by Brown clustering or more simply."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli import Usage
from fgg.cli.output import print_diagnostics, print_json, write_whole
from fgg.cli.target import seed_number
from fgg.diagnostics import Diagnostic, as_json, refuse
from fgg.progress import stage

if TYPE_CHECKING:
    from fgg.clusters import Bigrams, Clustering
    from fgg.data import Corpus

METHODS = ("brown", "uniform", "frequency")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc cluster`."""
    parser.add_argument("data", nargs="+", metavar="DATA", help="text files (also .gz, .xz, .bz2)")
    parser.add_argument(
        "-c", "--clusters", type=_positive, required=True, metavar="C", help="how many blocks"
    )
    parser.add_argument("-o", "--output", metavar="PATH", help="write `word<TAB>block` lines here")
    parser.add_argument(
        "--paths", metavar="PATH", help="write `bits<TAB>word<TAB>count` lines here"
    )
    parser.add_argument("--method", choices=METHODS, default="brown", help="how blocks are made")
    parser.add_argument("--seed", type=seed_number, default=0, help="for `--method uniform`")
    parser.add_argument(
        "--by-line", action="store_true", help="no pair of words reaches over the end of an item"
    )
    add_reading(parser)
    parser.add_argument("--vocab", metavar="PATH", help="words that are not in this file are <unk>")
    parser.add_argument(
        "--least", type=_positive, default=1, metavar="N", help="words with fewer tokens are <unk>"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number < 2**31:
        raise argparse.ArgumentTypeError("a number from 1 on is expected")
    return number


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how data files are read."""
    parser.add_argument("--format", metavar="NAME", help="of the data, if its name does not tell")
    parser.add_argument(
        "--columns", metavar="NAMES", help="of the format `columns`: word,tag,fine,head,relation"
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out items that are wrong")
    parser.add_argument("--lower", action="store_true", help="all words in lower case")
    parser.add_argument(
        "--digits", choices=("each", "number"), help="each digit becomes 0, or each number N"
    )


def read_corpus(paths: list[str], arguments: argparse.Namespace) -> Corpus:
    """The corpus that files and options describe. Raises GrammarError."""
    from fgg.data import normal, read

    columns = arguments.columns.split(",") if arguments.columns else None
    corpus = read(*paths, format=arguments.format, columns=columns, skip=arguments.skip_bad)
    if arguments.lower or arguments.digits:
        corpus = corpus.map(normal(lower=arguments.lower, digits=arguments.digits))
    return corpus


def run(arguments: argparse.Namespace) -> int:
    """Cluster the words and write the blocks."""
    from fgg.clusters import mutual_information

    if arguments.paths and arguments.method != "brown":
        raise Usage("`--paths` goes with `--method brown`: the others have no hierarchy")
    for path in (arguments.output, arguments.paths):
        _check_folder(path)
    bigrams, warnings = _count(arguments)
    clustering = _clustering(bigrams, arguments)
    if arguments.output:
        write_whole(Path(arguments.output), clustering.blocks_text().encode())
    if arguments.paths:
        write_whole(Path(arguments.paths), clustering.paths_text().encode())
    information = mutual_information(bigrams, clustering.blocks)
    if arguments.json:
        listed = [as_json(d, None) for d in warnings]
        figures = {"words": len(bigrams.words), "tokens": int(bigrams.tokens.sum())}
        figures |= {"clusters": clustering.many}
        print_json({"ok": True, **figures, "bits": information, "diagnostics": listed})
        return 0
    print_diagnostics(warnings, None)
    if not arguments.output:
        print(clustering.blocks_text(), end="")
        return 0
    print(f"{len(bigrams.words):,} words, {bigrams.tokens.sum():,} tokens, ", end="")
    print(f"{clustering.many:,} clusters")
    print(f"average mutual information {information:.4f} bits")
    return 0


def _check_folder(path: str | None) -> None:
    """Raise GrammarError before the work is done, not after it."""
    if path and not Path(path).resolve().parent.is_dir():
        message = f"`{path}` cannot be written: there is no folder `{Path(path).parent}`"
        refuse("F413", message)


def _count(arguments: argparse.Namespace) -> tuple[Bigrams, list[Diagnostic]]:
    """The words and pairs of the text, and warnings about what was left out."""
    from fgg.clusters import count_bigrams
    from fgg.data import build_vocabulary, load_vocabulary

    corpus = read_corpus(arguments.data, arguments)
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
