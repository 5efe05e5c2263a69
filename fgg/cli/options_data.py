"""The options that give data: items to run a program on, and corpora to train on."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fgg.cli.arguments import Parser, Usage, assignments
from fgg.cli.options_compiler import add_backend, add_space
from fgg.cli.options_model import (
    add_inputs,
    add_query,
    add_weights,
    given_inputs,
    given_words,
    saved_model,
)
from fgg.compiler.resolve.files import read_text
from fgg.diagnostics import refuse
from fgg.grammar import Grammar, Input
from fgg.inputs.given import Nest
from fgg.inputs.tokens import token_id, why_unread
from fgg.inputs.written import Words, WrittenWords

MAX_LENGTH = 1_000_000
CHANGES = ("characters", "lower", "digits", "no_punctuation", "min_length", "max_length")
VOCABULARY = ("min_count", "max_words", "max_part", "unknown_shapes", "no_unknown")


def add_items(parser: Parser) -> None:
    """Add the options that give items and weights, and say how to compile."""
    add_query(parser)
    parser.value(
        "--data",
        "PATH",
        "a file with one item a line: words or numbers, with a tab between inputs; for a "
        "trained model, a file like its training data",
    )
    parser.add_argument("--format", help="the format of the data, for a trained model")
    add_potentials(parser)
    add_inputs(parser, "lengths of inputs that are not given; their tokens are summed out")
    add_weights(parser)
    add_space(parser)
    add_backend(parser)


def add_potentials(parser: Parser) -> None:
    """Add the option that gives log-potentials."""
    parser.value(
        "--potentials",
        "FILE",
        "log-potentials of input factors (.safetensors, .npz): arrays by name with an axis for "
        "the items first, or `phi.0`, `phi.1`, … for each item; whole numbers by name are lengths",
    )


def add_normalisation(parser: Parser) -> None:
    """Add the options that say how each word is read."""
    parser.flag("--lower", "put all words into lower case")
    parser.choice(
        "--digits",
        ("each", "number"),
        "replace each digit by 0 (each), or each number by N (number)",
    )
    parser.flag("--skip-bad", "leave out items that cannot be read")


def add_training_data(parser: Parser) -> None:
    """Add the options that give training data and say how to read them."""
    parser.values("--data", "PATH", "files of data (also .gz, .xz)")
    add_reading(parser)
    for option, text in {
        "--min-count": "replace words that occur less often by <unk>",
        "--max-words": "keep only so many words in the vocabulary",
        "--max-part": "the greatest length of a part, for the field `parts`",
    }.items():
        parser.value(option, "N", text, type=int)
    parser.flag("--unknown-shapes", "use several kinds of <unk>, by the shape of the word")
    parser.flag("--no-unknown", "have no <unk> in the vocabulary")


def add_reading(parser: Parser) -> None:
    """Add the options that say how to read items from files of data."""
    parser.add_argument("--format", help="the format of the data: words, ids, conllu, trees, …")
    parser.repeated(
        "--field",
        "INPUT=FIELD",
        "which field of an item an input reads: words, tags, fine_tags or parts",
    )
    add_normalisation(parser)
    parser.flag("--characters", "split words into letters")
    parser.flag("--no-punctuation", "drop words that are tagged as punctuation")
    for option, text in {
        "--min-length": "leave out shorter items",
        "--max-length": "leave out longer items",
    }.items():
        parser.value(option, "N", text, type=int)


def changes_of(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the options that change the data, those that are given. Raises Usage."""
    values = {name: getattr(arguments, name, None) for name in (*CHANGES, *VOCABULARY)}
    for name, value in values.items():
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise Usage(f"`--{name.replace('_', '-')}` must be at least 1")
    return {name: value for name, value in values.items() if value}


def fields_given(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the field of each input that `--field` names. Raises Usage."""
    fields = {}
    for text in arguments.field:
        name, equals, value = text.partition("=")
        if not equals:
            raise Usage(
                f"`--field {text}` is not of the form INPUT=FIELD",
                "write, for example, `--field t=tags`",
            )
        fields[name] = value
    return fields


@dataclass(frozen=True)
class ItemBatch:
    """A batch as programs take it: for each input and each length a list with one entry an item.

    `words` are those of the inputs as they were written.
    """

    inputs: Mapping[str, Sequence[Nest]]
    lengths: Mapping[str, Sequence[int]] | None = None
    words: WrittenWords | None = None


def given_item(grammar: Grammar, arguments: argparse.Namespace) -> ItemBatch:
    """Return the batch of the one item that `--input` and `--length` give. Raises Usage.

    `grammar` is joined with its query.
    """
    lengths = assignments(arguments.length, "--length")
    for name, value in lengths.items():
        if value > MAX_LENGTH:
            message = f"length `{name}` is {value:,}; at most {MAX_LENGTH:,} is possible here"
            refuse("F420", message)
    inputs = given_inputs(grammar, arguments)
    return ItemBatch(
        {name: [value] for name, value in inputs.items()},
        {name: [value] for name, value in lengths.items()} or None,
        given_words(arguments),
    )


def read_items(grammar: Grammar, arguments: argparse.Namespace) -> ItemBatch:
    """Return the items of a grammar joined with its query. Raises GrammarError or Usage."""
    items = _read_tokens(grammar, arguments)
    if arguments.potentials is None:
        return items
    from fgg.data.potentials import read_potentials

    given = read_potentials(grammar, arguments.potentials)
    known = {**(items.lengths or {}), **given.lengths}
    return ItemBatch({**items.inputs, **given.inputs}, known or None, items.words)


def _read_tokens(grammar: Grammar, arguments: argparse.Namespace) -> ItemBatch:
    """Return what `--data`, `--input` and `--length` give. Raises GrammarError or Usage."""
    item = given_item(grammar, arguments)
    if arguments.data is None:
        return item
    if item.inputs or item.lengths:
        raise Usage("`--data` gives the items; `--input` and `--length` cannot be used with it")
    saved = saved_model(arguments.file)
    if saved is not None:
        from fgg.api.train import file_inputs

        ids, words = file_inputs(saved.preprocessing, grammar, arguments.data, arguments.format)
        return ItemBatch(ids, words=words)
    factors = arguments.potentials is None and grammar.input_factors
    tokens, words = read_columns(grammar, arguments.data, refused=bool(factors))
    return ItemBatch(tokens, words=words)


def read_columns(
    grammar: Grammar, path: str, *, refused: bool
) -> tuple[dict[str, list[list[int]]], WrittenWords]:
    """Return the tokens and the words in a file with an item a line and a column for each input.

    Raises GrammarError or Usage.
    """
    inputs = grammar.inputs
    if not inputs or any(len(item.shape) != 1 for item in inputs) or refused:
        raise Usage(
            f"`--data` cannot give the inputs of `{grammar.name}`",
            "it gives sequences of words; `--input` gives others, `--potentials` log-potentials",
        )
    tokens: dict[str, list[list[int]]] = {item.name: [] for item in inputs}
    words: dict[str, list[Words | None]] = {item.name: [] for item in inputs}
    for number, line in enumerate(read_text(Path(path)).rstrip().splitlines(), 1):
        if not line.strip():
            refuse("F411", f"{path}:{number}: this line is empty")
        columns = line.split("\t") if len(inputs) > 1 else [line]
        if len(columns) != len(inputs):
            names = ", ".join(f"`{item.name}`" for item in inputs)
            message = f"{path}:{number}: {len(columns)} columns; {len(inputs)} are expected"
            refuse("F411", message, f"one for each of {names}, separated by tabs")
        for item, column in zip(inputs, columns, strict=True):
            tokens[item.name].append(_tokens(grammar, item, column.split(), f"{path}:{number}"))
            words[item.name].append(tuple(column.split()))
    if not all(tokens.values()):
        refuse("F411", f"`{path}` has no items")
    return tokens, words


def _tokens(grammar: Grammar, item: Input, words: Sequence[str], place: str) -> list[int]:
    tokens = []
    for word in words:
        number = token_id(grammar, item.domain, word)
        if number is None:
            reason, help = why_unread(grammar, item.domain, word)
            refuse("F411", f"{place}: {reason}", help)
        tokens.append(number)
    return tokens
