"""The options that name a grammar, a form of it, and its weights.

FILE may also be a trained model, the folder of its run or a file, which stands for its grammar, its
weights and the way it reads words.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

from fgg.api.saved import is_model, model_file
from fgg.cli.arguments import Parser, Usage, assignments, read_inputs
from fgg.cli.output import print_diagnostics
from fgg.compiler.resolve.files import MAX_BYTES, decode
from fgg.compiler.resolve.load import Loaded, load_content, load_file
from fgg.diagnostics import GrammarError, did_you_mean, refuse
from fgg.files import check_regular, read_stream, unreadable
from fgg.grammar import Grammar
from fgg.inputs.given import Nest
from fgg.inputs.written import WrittenWords, written_words
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.ground import ground

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from fgg.runtime.model.saving import SavedModel

Weights: TypeAlias = "dict[str, np.ndarray | Tensor]"
"""The weights of factors by name, each with one axis for each node that the factor touches."""


def add_file(parser: Parser, *, optional: bool = False, or_else: str = "") -> None:
    """Add FILE, `--set` and `--json`; `or_else` names what else FILE may be."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?" if optional else None,
        help=f"{or_else}a grammar file, FGG JSON, `-` for standard input, the name of a library "
        "grammar, or a trained model (a file or the folder of its run)",
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
    inputs_help = (
        'give an input: words `w="the dog runs"`, ids `w=0,2,1`, a JSON list (texts are words, '
        "numbers ids), or `w=@file`"
    )
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
    parser.value("--params", "FILE", "weights of factors (.safetensors), or a trained model")
    parser.seed("the random seed: for weights that are not given, and for samples", default=None)


def load_target(arguments: argparse.Namespace) -> Loaded:
    """Load FILE with its sizes set. Raises GrammarError if it cannot be read."""
    sizes = assignments(arguments.set, "--set")
    if arguments.file == "-":
        return load_content(_standard_input(), "<stdin>", sizes=sizes)
    saved = saved_model(arguments.file)
    if saved is not None:
        if sizes:
            refuse("F410", "the sizes of a trained model are fixed")
        return load_content(saved.text, f"{saved.name}.fgg", sizes={})
    return load_file(arguments.file, sizes=sizes)


def _standard_input() -> str:
    problem = "standard input is closed"
    if sys.stdin is not None:
        try:
            return decode(read_stream(sys.stdin.buffer, MAX_BYTES), "standard input")
        except (OSError, ValueError) as error:
            problem = f"standard input cannot be read: {error}"
    refuse("F401", problem)


def saved_model(file: str | None) -> SavedModel | None:
    """Return the trained model that FILE is: the folder of a run or a model's file, or None."""
    if not file or file == "-" or not is_model(file):
        return None
    return _read_model(str(model_file(file)))


@lru_cache(maxsize=1)
def _read_model(path: str) -> SavedModel:
    from fgg.runtime.model.saving import read

    return read(path)


def fields_of(arguments: argparse.Namespace) -> Mapping[str, str]:
    """Return the field of an example that each input of a trained model is."""
    saved = saved_model(arguments.file)
    return {} if saved is None else saved.preprocessing.fields


def given_inputs(grammar: Grammar, arguments: argparse.Namespace) -> dict[str, Nest]:
    """Return the inputs that `--input` gives, for a grammar joined with its query.

    For a trained model their words are changed as those of its training data were. Raises Usage.
    """
    inputs, saved = read_inputs(arguments.input), saved_model(arguments.file)
    if saved is not None:
        for name in saved.preprocessing.fields.keys() & inputs.keys() & grammar.input.keys():
            inputs[name] = cast(Nest, saved.preprocessing.item(grammar, name, inputs[name]))
    return inputs


def given_words(arguments: argparse.Namespace) -> WrittenWords:
    """Return the words that `--input` gives, as they are written. Raises Usage."""
    inputs, saved = read_inputs(arguments.input), saved_model(arguments.file)
    batch = {name: [value] for name, value in inputs.items()}
    return written_words(batch) if saved is None else saved.preprocessing.written(batch)


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
    saved = saved_model(arguments.file)
    if saved is not None:
        return saved.query
    if len(grammar.queries) == 1:
        return grammar.queries[0].name
    names = ", ".join(f"`{name}`" for name in grammar.query)
    raise Usage(f"`{grammar.name}` has several queries", f"choose one with --query: {names}")


def select(grammar: Grammar, arguments: argparse.Namespace, *, whole: bool = False) -> Grammar:
    """Return the grammar, its conjunction with a query, or the ground grammar, as options ask.

    With `whole` the result is always a finite grammar.
    """
    lengths = assignments(arguments.length, "--length")
    query: str | None = arguments.query
    if query is not None and query not in grammar.query:
        known = ", ".join(f"`{name}`" for name in grammar.query)
        refuse(
            "F409",
            f"`{grammar.name}` has no query `{query}`",
            did_you_mean(query, grammar.query) or f"it has {known or 'none'}",
        )
    if arguments.ground or lengths or arguments.input:
        from fgg.api.compile import selected

        query = query_of(grammar, arguments)
        inputs = given_inputs(selected(grammar, query), arguments)
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
    """Return the weights of a trained model and of `--params`; the latter win.

    Raises GrammarError.
    """
    weights: Weights = {}
    if saved_model(arguments.file) is not None:
        weights |= model_weights(arguments.file, getattr(arguments, "query", None))
    return weights | read_params(arguments.params)


def model_weights(path: str, query: str | None = None) -> Weights:
    """Return the weights of a trained model, those that a query needs."""
    from fgg.api.saved import load_model

    weights: Weights = {}
    return weights | load_model(path, query=query).detached()


def read_params(path: str | None) -> Weights:
    """Return the weights in a safetensors file or of a trained model; none without a path.

    Raises GrammarError.
    """
    if not path:
        return {}
    from fgg.runtime.model.saving import describes_model

    if is_model(path) and describes_model(path):
        return model_weights(path)
    try:
        check_regular(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    try:
        from safetensors.numpy import load_file

        return dict(load_file(path))
    except Exception:
        refuse("F401", f"`{path}` is not a safetensors file of float32 or float64 numbers")
