"""Items that a command works on: one from `--input`, or one a line of a data file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.cli import Usage
from fgg.cli.output import print_diagnostics
from fgg.cli.passes import AUTO, add_jit, add_space, jit_of
from fgg.cli.target import add_inputs, add_weights, assignments, only_query, read_inputs
from fgg.cli.trained import is_run, run_query, run_weights
from fgg.compiler.resolve.load import read_text
from fgg.diagnostics import refuse
from fgg.grammar import Grammar, Input

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program


MAX_LENGTH = 1_000_000
UNKNOWN = "<unk>"
"""The value that stands for all words that are no values, where a domain has it."""


def add_items(parser: argparse.ArgumentParser) -> None:
    """Add the options that give items and weights."""
    parser.add_argument("--query", metavar="NAME", help="join the model with this query")
    parser.add_argument(
        "--data",
        metavar="PATH",
        help="a file with an item a line: words or numbers, inputs apart by tabs; "
        "of a trained model, data as it was trained on",
    )
    parser.add_argument("--format", help="how data of a trained model are written")
    add_inputs(parser, "lengths, where inputs are not given (what is missing is summed out)")
    add_weights(parser)
    add_space(parser)
    add_jit(parser)


@dataclass(frozen=True)
class Items:
    """A batch as programs take it."""

    inputs: dict[str, list[Any]]
    lengths: dict[str, list[int]] | None


def query_of(grammar: Grammar, arguments: argparse.Namespace) -> str | None:
    """The query that is named, or the only one."""
    name: str | None = arguments.query
    if name is None and is_run(arguments.file):
        return run_query(arguments.file)
    return only_query(grammar) if name is None and grammar.queries else name


def space_for(grammar: Grammar, weights: Mapping[str, Any]) -> str:
    """The space to compile in, if none is asked for: that of the weights that are given."""
    whole = [f.name for f in grammar.factors if f.rank is not None and f.name in weights]
    return "dense" if whole else AUTO


def compiled_for(
    grammar: Grammar, arguments: argparse.Namespace, weights: Mapping[str, Any]
) -> Program:
    """The program of a grammar and its query; notes on it go to standard error."""
    from warnings import catch_warnings, simplefilter

    from fgg.api.compile import compile

    space = arguments.space or space_for(grammar, weights)
    jit = jit_of(arguments)
    with catch_warnings():
        simplefilter("ignore")  # the notes say it
        program = compile(grammar, query_of(grammar, arguments), space=space, jit=jit)
    if not arguments.json:
        print_diagnostics(program.notes, None)
    return program


def check_lengths(lengths: Mapping[str, int]) -> None:
    """Raise GrammarError for lengths that no machine gets to the end of."""
    for name, value in lengths.items():
        if value > MAX_LENGTH:
            message = f"length `{name}` is {value:,}; at most {MAX_LENGTH:,} is possible here"
            refuse("F420", message)


def read_items(grammar: Grammar, arguments: argparse.Namespace) -> Items:
    """The items of a grammar joined with its query. Raises GrammarError or Usage."""
    given = read_inputs(arguments.input)
    lengths = assignments(arguments.length, "--length")
    check_lengths(lengths)
    if given and is_run(arguments.file):
        from fgg.api.train import known_words

        given = known_words(arguments.file, grammar, given)
    if arguments.data is None:
        return Items(
            {name: [value] for name, value in given.items()},
            {name: [value] for name, value in lengths.items()} or None,
        )
    if given or lengths:
        raise Usage("`--data` gives the items; `--input` and `--length` cannot be used with it")
    if is_run(arguments.file):
        from fgg.api.train import run_inputs

        return Items(run_inputs(arguments.file, grammar, arguments.data, arguments.format), None)
    return Items(columns(grammar, arguments.data), None)


def columns(grammar: Grammar, path: str) -> dict[str, list[Any]]:
    """The inputs in a file: an item a line, a column for each input."""
    wanted = grammar.inputs
    if not wanted or any(len(item.shape) != 1 for item in wanted) or grammar.input_factors:
        raise Usage(
            f"`--data` cannot give the inputs of `{grammar.name}`",
            "it gives sequences of words; use `--input`, or Python for log-potentials",
        )
    text = read_text(Path(path))
    found: dict[str, list[Any]] = {item.name: [] for item in wanted}
    for number, line in enumerate(text.rstrip().splitlines(), 1):
        if not line.strip():
            message = f"{path}:{number}: an empty line is no item"
            refuse("F411", message)
        columns = line.split("\t") if len(wanted) > 1 else [line]
        if len(columns) != len(wanted):
            names = ", ".join(f"`{item.name}`" for item in wanted)
            message = f"{path}:{number}: {len(columns)} columns; {len(wanted)} are expected"
            help = f"one for each of {names}, apart by tabs"
            refuse("F411", message, help)
        for item, column in zip(wanted, columns, strict=True):
            found[item.name].append(_tokens(grammar, item, column.split(), f"{path}:{number}"))
    if not all(found.values()):
        refuse("F411", f"`{path}` has no items")
    return found


def _tokens(grammar: Grammar, item: Input, words: Sequence[str], place: str) -> list[int]:
    from fgg.grammar.domains import value_index

    index = value_index(grammar, item.domain)
    tokens = []
    for word in words:
        if word in index:
            tokens.append(index[word])
        elif word in ("-1", "-2"):
            tokens.append(int(word))
        elif UNKNOWN in index:
            tokens.append(index[UNKNOWN])
        else:
            message = f"{place}: `{word}` is not a value of `{item.domain}`"
            refuse("F411", message)
    return tokens


def given_weights(arguments: argparse.Namespace) -> dict[str, Any]:
    """The weights in the file that is named, if one is."""
    from fgg.cli.commands.run import read_params

    found = run_weights(arguments.file) if is_run(arguments.file) else {}
    return {**found, **(read_params(arguments.params) if arguments.params else {})}


def weights_of(
    program: Program, given: Mapping[str, Any], arguments: argparse.Namespace
) -> dict[str, Any]:
    """The weights of a program in float64: those given, the grammar's, or by a seed."""
    import torch

    return program.weights(given, seed=arguments.seed, dtype=torch.float64)
