"""The options that say what data are and what is made of them."""

from __future__ import annotations

import argparse
from typing import Any

from fgg.cli import Usage

CHANGES = ("characters", "lower", "digits", "no_punctuation", "min_length", "max_length")
VOCABULARY = ("min_count", "max_words", "max_part", "unknown_shapes", "no_unknown")


def add_data(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options of data."""
    parser.add_argument(
        "--data", metavar="PATH", nargs="+" if several else None, default=[] if several else None,
        help="data (also .gz, .xz)",
    )  # fmt: skip
    parser.add_argument("--format", help="how they are written: words, ids, conllu, trees, …")
    parser.add_argument(
        "--field", metavar="INPUT=FIELD", action="append", default=[],
        help="what an input is taken from: words, tags, fine_tags, parts",
    )  # fmt: skip
    parser.add_argument("--characters", action="store_true", help="take words apart into letters")
    parser.add_argument("--lower", action="store_true", help="in lower case")
    parser.add_argument(
        "--digits", choices=("each", "number"), help="each digit is 0; each number is N"
    )
    parser.add_argument("--no-punctuation", action="store_true", help="drop words tagged as such")
    parser.add_argument("--min-length", type=int, metavar="N", help="leave out what is shorter")
    parser.add_argument("--max-length", type=int, metavar="N", help="leave out what is longer")
    parser.add_argument("--min-count", type=int, metavar="N", help="rarer words are <unk>")
    parser.add_argument("--max-words", type=int, metavar="N", help="so many words have numbers")
    parser.add_argument("--max-part", type=int, metavar="N", help="the longest part of `parts`")
    parser.add_argument(
        "--unknown-shapes", action="store_true", help="several <unk>, by the shape of the word"
    )
    parser.add_argument("--no-unknown", action="store_true", help="no word for unknown ones")
    parser.add_argument("--skip-bad", action="store_true", help="leave out lines that are wrong")


def changes_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is asked to be made of the data, without what is not asked for."""
    found = {name: getattr(arguments, name) for name in (*CHANGES, *VOCABULARY)}
    for name, value in found.items():
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise Usage(f"`--{name.replace('_', '-')}` is a number from 1 up")
    return {name: value for name, value in found.items() if value}


def fields_given(arguments: argparse.Namespace) -> dict[str, str]:
    """The fields of inputs that are said."""
    found = {}
    for text in arguments.field:
        name, equals, value = text.partition("=")
        if not equals:
            raise Usage(f"`--field {text}`", "write INPUT=FIELD, `--field t=tags`")
        found[name] = value
    return found
