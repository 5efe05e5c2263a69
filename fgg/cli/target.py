"""The grammar a command works on: FILE and the options that select a form of it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fgg.cli import Usage
from fgg.cli.output import print_diagnostics
from fgg.cli.trained import is_run, load_run_grammar
from fgg.compiler.resolve.load import MAX_BYTES, Loaded, decode, load_content, load_file
from fgg.diagnostics import GrammarError, did_you_mean, refuse
from fgg.files import read_stream
from fgg.grammar import Grammar
from fgg.inputs.given import Nest
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.ground import ground


def add_file(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add FILE and `--set`."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?" if optional else None,
        help="a grammar file, FGG JSON, `-` for standard input, a library grammar's name, or the "
        "folder of a training run",
    )
    parser.add_argument(
        "--set",
        metavar="SIZE=N",
        action="append",
        nargs="+",
        default=[],
        help="override a size of the grammar",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that ask for a conjunction or a ground grammar."""
    parser.add_argument("--query", metavar="NAME", help="join the model with this query")
    parser.add_argument(
        "--ground", action="store_true", help="write the families out (where no length is needed)"
    )
    add_inputs(parser, "write the families out for these lengths (`--length n=3`)")


def add_inputs(parser: argparse.ArgumentParser, lengths: str) -> None:
    """Add `--length` and `--input`; `lengths` says what lengths are for."""
    parser.add_argument(
        "--length", metavar="NAME=N", action="append", nargs="+", default=[], help=lengths
    )
    parser.add_argument(
        "--input",
        metavar="NAME=VALUES",
        action="append",
        nargs="+",
        default=[],
        help='give an input: `w="the dog runs"`, `w=0,2,1`, JSON lists, or `w=@file`',
    )


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Add `--params` and `--seed`."""
    parser.add_argument("--params", metavar="FILE", help="weights of factors (.safetensors)")
    parser.add_argument(
        "--seed", type=seed_number, help="random weights where none are given; draws"
    )


MAX_DERIVATIONS = 10_000
"""More than anybody reads; the Python functions have no such limit."""


def count(text: str) -> int:
    """A number of derivations."""
    number = int(text)
    if not 1 <= number <= MAX_DERIVATIONS:
        raise argparse.ArgumentTypeError(f"a number from 1 to {MAX_DERIVATIONS:,} is expected")
    return number


def seed_number(text: str) -> int:
    """A seed of random numbers."""
    number = int(text) if text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number < 2**63:
        raise argparse.ArgumentTypeError("a whole number from 0 up, below 2^63, is expected")
    return number


def load_target(arguments: argparse.Namespace) -> Loaded:
    """FILE, loaded, with sizes set. Raises GrammarError if it cannot be read."""
    sizes = assignments(arguments.set, "--set")
    if arguments.file == "-":
        return load_content(_standard_input(), "<stdin>", sizes=sizes)
    if is_run(arguments.file):
        return load_run_grammar(arguments.file, sizes)
    return load_file(arguments.file, sizes=sizes)


def _standard_input() -> str:
    problem = "standard input is closed"
    if sys.stdin is not None:
        try:
            return decode(read_stream(sys.stdin.buffer, MAX_BYTES), "standard input")
        except (OSError, ValueError) as error:
            problem = f"standard input cannot be read: {error}"
    refuse("F401", problem)


def need_grammar(loaded: Loaded, *, quiet: bool = False) -> Grammar:
    """The loaded grammar; its warnings go to standard error. Raises GrammarError."""
    if loaded.grammar is None:
        raise GrammarError(loaded.diagnostics, loaded.source)
    if not quiet:
        print_diagnostics(loaded.diagnostics, loaded.source)
    return loaded.grammar


def select(grammar: Grammar, arguments: argparse.Namespace, *, whole: bool = False) -> Grammar:
    """The grammar, its conjunction with a query, or the ground grammar, as asked for.

    With `whole` the result is always a finite grammar.
    """
    lengths = assignments(arguments.length, "--length")
    inputs = read_inputs(arguments.input)
    query: str | None = arguments.query
    if query is not None and query not in grammar.query:
        known = ", ".join(f"`{q}`" for q in grammar.query)
        refuse(
            "F409",
            f"`{grammar.name}` has no query `{query}`",
            did_you_mean(query, grammar.query) or f"it has {known or 'none'}",
        )
    if (
        arguments.ground
        or lengths
        or inputs
        or (whole and (query is not None or not grammar.queries))
    ):
        if query is None and grammar.queries:
            query = only_query(grammar)
        return ground(grammar, query=query, lengths=lengths, inputs=inputs)
    if whole:
        return ground(grammar)
    return grammar if query is None else conjoin(grammar, grammar.query[query])


def only_query(grammar: Grammar) -> str:
    """The grammar's query, if it has just one; else the user must say which."""
    if len(grammar.queries) == 1:
        return grammar.queries[0].name
    names = ", ".join(f"`{q}`" for q in grammar.query)
    raise Usage(f"`{grammar.name}` has several queries", f"choose one with --query: {names}")


def assignments(groups: Sequence[Sequence[str]], option: str) -> dict[str, int]:
    """The numbers that `NAME=N` options assign."""
    found: dict[str, int] = {}
    for item in (item for group in groups for part in group for item in part.split(",")):
        name, equals, number = item.partition("=")
        if not equals or not name:
            raise Usage(f"`{option} {item}` is not of the form NAME=NUMBER")
        try:
            value = int(number) if len(number) < 100 else int("x")
        except ValueError:
            raise Usage(f"`{option} {item[:60]}`: a whole number is expected") from None
        if found.setdefault(name.strip(), value) != value:
            raise Usage(f"`{option}` gives `{name.strip()}` two values")
    return found


def read_inputs(groups: Sequence[Sequence[str]]) -> dict[str, Nest]:
    """The inputs that `NAME=VALUES` options give: words, numbers, JSON lists, or `@file`."""
    found: dict[str, Nest] = {}
    for item in (item for group in groups for item in group):
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise Usage(f"`--input {item}` is not of the form NAME=VALUES")
        if text.startswith("@"):
            from fgg.compiler.resolve.load import read_text

            text = read_text(Path(text[1:])).strip()
        if name in found:
            raise Usage(f"`--input` gives `{name}` twice")
        found[name] = parse_values(name, text)
    return found


def parse_values(name: str, text: str) -> Nest:
    """Values from text: a JSON list, numbers separated by commas, or words by spaces."""
    if text.lstrip().startswith("["):
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise Usage(f"`--input {name}`: this is not a JSON list") from None
        return value if isinstance(value, list) else [value]
    parts = [part.strip() for part in text.split(",")] if "," in text else text.split()
    try:
        return [int(part) for part in parts]
    except ValueError:
        return text.split()
