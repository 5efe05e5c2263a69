"""The options that name a grammar, a form of it, and its weights.

FILE may also be the folder of a training run, which stands for its grammar and its weights.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fgg.cli.arguments import Parser, Usage, assignments, read_inputs
from fgg.cli.output import print_diagnostics
from fgg.compiler.resolve.load import MAX_BYTES, Loaded, decode, load_content, load_file
from fgg.diagnostics import GrammarError, did_you_mean, refuse
from fgg.files import check_regular, read_stream, unreadable
from fgg.grammar import Enumerated, Grammar, Sized
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.ground import ground

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

Weights: TypeAlias = "dict[str, np.ndarray | Tensor]"
"""The weights of factors by name, each with one axis for each node that the factor touches."""

MODEL = "model.safetensors"
"""The file in the folder of a training run that holds the best model."""


def add_file(parser: Parser, *, optional: bool = False, or_else: str = "") -> None:
    """Add FILE, `--set` and `--json`; `or_else` names what else FILE may be."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?" if optional else None,
        help=f"{or_else}a grammar file, FGG JSON, `-` for standard input, the name of a library "
        "grammar, or the folder of a training run",
    )
    add_sizes(parser)


def add_sizes(parser: Parser) -> None:
    """Add `--set` and `--json`."""
    parser.repeated_values("--set", "SIZE=N", "change a size of the grammar")
    add_json(parser)


def add_json(parser: Parser) -> None:
    """Add `--json`."""
    parser.flag("--json", "print one JSON object, nothing else")


def add_query(parser: Parser) -> None:
    """Add `--query`."""
    parser.value("--query", "NAME", "the query to join the model with")


def add_selection(parser: Parser) -> None:
    """Add the options that ask for a conjunction or a ground grammar."""
    add_query(parser)
    parser.flag(
        "--ground",
        "write out every member of the indexed families, if no length is needed for that",
    )
    add_inputs(parser, "write out every member of the families for these lengths (`--length n=3`)")


def add_inputs(parser: Parser, lengths_help: str) -> None:
    """Add `--length` and `--input`."""
    parser.repeated_values("--length", "NAME=N", lengths_help)
    inputs_help = 'give an input: `w="the dog runs"`, `w=0,2,1`, a JSON list, or `w=@file`'
    parser.repeated_values("--input", "NAME=VALUES", inputs_help)


def add_declarations(parser: Parser) -> None:
    """Add the options that change the model before it is compiled: `--merge` and `--rank`."""
    add_merging(parser)
    rank_help = "declare the rank of a factor that has no value; its pieces become the parameters"
    parser.repeated_values("--rank", "FACTOR=R", rank_help)


def add_merging(parser: Parser) -> None:
    """Add `--merge` and `--merge-rule`."""
    parser.flag(
        "--merge",
        "merge the factors of each rule that share nodes: `emit` and `trans` become `emit_trans`",
    )
    parser.repeated("--merge-rule", "RULE", "merge the factors of this rule only")


def add_weights(parser: Parser) -> None:
    """Add `--params` and `--seed`."""
    parser.value("--params", "FILE", "weights of factors (.safetensors)")
    parser.seed("the random seed: for weights that are not given, and for samples", default=None)


def load_target(arguments: argparse.Namespace) -> Loaded:
    """Load FILE with its sizes set. Raises GrammarError if it cannot be read."""
    sizes = assignments(arguments.set, "--set")
    if arguments.file == "-":
        return load_content(_standard_input(), "<stdin>", sizes=sizes)
    if is_run(arguments.file):
        return _load_run(Path(arguments.file), sizes)
    return load_file(arguments.file, sizes=sizes)


def _standard_input() -> str:
    problem = "standard input is closed"
    if sys.stdin is not None:
        try:
            return decode(read_stream(sys.stdin.buffer, MAX_BYTES), "standard input")
        except (OSError, ValueError) as error:
            problem = f"standard input cannot be read: {error}"
    refuse("F401", problem)


def is_run(file: str | None) -> bool:
    """Return whether FILE is the folder of a training run."""
    return bool(file) and file != "-" and (Path(str(file)) / "settings.json").is_file()


def _load_run(folder: Path, sizes: Mapping[str, int]) -> Loaded:
    """Load the grammar of a run; its domains have the words of the run's vocabulary as values."""
    from fgg.runtime.model.saving import read

    if sizes:
        refuse("F410", "the sizes of a trained model are fixed")
    saved = read(folder / MODEL)
    loaded = load_content(saved.text, f"{saved.name}.fgg", sizes={})
    if loaded.grammar is None:
        return loaded
    vocabulary = dict(saved.vocabulary)
    domains = tuple(
        replace(domain, shape=Enumerated(tuple(vocabulary[domain.name])))
        if vocabulary.get(domain.name) and isinstance(domain.shape, Sized)
        else domain
        for domain in loaded.grammar.domains
    )
    return replace(loaded, grammar=replace(loaded.grammar, domains=domains))


def need_grammar(loaded: Loaded, *, quiet: bool = False) -> Grammar:
    """Return the loaded grammar and print its warnings. Raises GrammarError if it has errors."""
    if loaded.grammar is None:
        raise GrammarError(loaded.diagnostics, loaded.source)
    if not quiet:
        print_diagnostics(loaded.diagnostics, loaded.source)
    return loaded.grammar


def load_grammar(
    arguments: argparse.Namespace, *, quiet: bool | None = None
) -> tuple[Grammar, Loaded]:
    """Return the grammar of FILE with merges and ranks as options declare them, and FILE as loaded.

    Prints warnings, unless `quiet` (default: with `--json`). Raises GrammarError or Usage.
    """
    loaded = load_target(arguments)
    grammar = need_grammar(loaded, quiet=arguments.json if quiet is None else quiet)
    if hasattr(arguments, "merge"):  # a command with `add_declarations`
        grammar = with_declarations(grammar, arguments)
    return grammar, loaded


def query_of(grammar: Grammar, arguments: argparse.Namespace) -> str | None:
    """Return the name of the query to ask: `--query`, that of a run, or the grammar's only one.

    It is None if the grammar has no queries. Raises Usage if it has several.
    """
    if arguments.query is not None or not grammar.queries:
        return str(arguments.query) if arguments.query is not None else None
    if is_run(arguments.file):
        from fgg.runtime.train.run_settings import load_settings

        return load_settings(Path(arguments.file)).query
    if len(grammar.queries) == 1:
        return grammar.queries[0].name
    names = ", ".join(f"`{name}`" for name in grammar.query)
    raise Usage(f"`{grammar.name}` has several queries", f"choose one with --query: {names}")


def select(grammar: Grammar, arguments: argparse.Namespace, *, whole: bool = False) -> Grammar:
    """Return the grammar, its conjunction with a query, or the ground grammar, as options ask.

    With `whole` the result is always a finite grammar.
    """
    lengths = assignments(arguments.length, "--length")
    inputs = read_inputs(arguments.input)
    query: str | None = arguments.query
    if query is not None and query not in grammar.query:
        known = ", ".join(f"`{name}`" for name in grammar.query)
        refuse(
            "F409",
            f"`{grammar.name}` has no query `{query}`",
            did_you_mean(query, grammar.query) or f"it has {known or 'none'}",
        )
    if arguments.ground or lengths or inputs:
        query = query_of(grammar, arguments)
        return ground(grammar, query=query, lengths=lengths, inputs=inputs)
    if whole:
        return ground(grammar, query=query)
    return grammar if query is None else conjoin(grammar, grammar.query[query])


def with_declarations(grammar: Grammar, arguments: argparse.Namespace) -> Grammar:
    """Return the grammar with factors merged and ranks declared. Raises GrammarError or Usage."""
    from fgg.compiler.passes.cpd import CpdImpossible, declared

    grammar = merged(grammar, arguments)
    ranks = assignments(arguments.rank, "--rank")
    try:
        return declared(grammar, ranks) if ranks else grammar
    except CpdImpossible as error:
        refuse("F440", str(error), error.help)


def merged(grammar: Grammar, arguments: argparse.Namespace) -> Grammar:
    """Return the grammar with factors merged as `--merge` and `--merge-rule` say. Raises Usage."""
    from fgg.compiler.passes.merge import merge

    check_rules(grammar, arguments.merge_rule)
    if not arguments.merge and not arguments.merge_rule:
        return grammar
    return merge(grammar, arguments.merge_rule or None)


def check_rules(grammar: Grammar, names: list[str]) -> None:
    """Raise Usage if the grammar lacks one of the rules."""
    known = [rule.name for rule in grammar.rules]
    for name in names:
        if name not in known:
            raise Usage(f"`{grammar.name}` has no rule `{name}`", did_you_mean(name, known))


def given_weights(arguments: argparse.Namespace) -> Weights:
    """Return the weights of a run and of `--params`; the latter win. Raises GrammarError."""
    weights: Weights = {}
    if is_run(arguments.file):
        from fgg.api.saved import load_model

        weights |= load_model(Path(arguments.file) / MODEL).detached()
    return weights | read_params(arguments.params)


def read_params(path: str | None) -> Weights:
    """Return the weights in a safetensors file, none without a path. Raises GrammarError."""
    if not path:
        return {}
    try:
        check_regular(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    try:
        from safetensors.numpy import load_file

        return dict(load_file(path))
    except Exception:
        refuse("F401", f"`{path}` is not a safetensors file of float32 or float64 numbers")
