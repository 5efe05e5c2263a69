"""One item to infer from: weights, and inputs that are typed or drawn from the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fgg.diagnostics import GrammarError, refuse
from fgg.explore.asked import Answer, Asked
from fgg.explore.start import models_in
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.index import Expr
from fgg.inputs.typed import typed_values

if TYPE_CHECKING:
    from torch import Tensor

    from fgg.runtime.model.saving import SavedModel
    from fgg.runtime.posterior.posterior import Posterior
    from fgg.runtime.program.program import Program

OWN, TRAINED = "own", "trained"
"""Whose weights: the grammar's own, random where it has none; or those of the opened model."""
LENGTH = 6
"""The length of a drawn item, if none is asked for."""
OTHER_LENGTHS = (5, 4, 3, 2, 1, 7, 8)
"""The lengths that are tried next: some grammars have no item of a given length."""
MAX_LENGTH = 200
MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class Item:
    """The inputs of one item, by name, and its lengths; `drawn` from the model, or typed."""

    inputs: Mapping[str, object]
    lengths: Mapping[str, int]
    drawn: bool

    def posterior(
        self, program: Program, weights: Mapping[str, Tensor], saved: SavedModel | None
    ) -> Posterior:
        """The posterior of the item. Raises GrammarError."""
        inputs = {name: [value] for name, value in self.inputs.items()}
        words = None if saved is None else saved.preprocessing.written(inputs)
        if saved is not None:
            inputs = {name: [self.read(program, saved, name)] for name in inputs}
        lengths = {name: [value] for name, value in self.lengths.items()}
        return program.posterior(weights, inputs, lengths or None, words=words)

    def read(self, program: Program, saved: SavedModel, name: str) -> object:
        """An input, its words changed as the model's training data were."""
        value = self.inputs[name]
        grammar = program.grammar
        if name not in saved.preprocessing.fields or name not in grammar.input:
            return value
        return saved.preprocessing.item(grammar, name, value)

    def texts(self, grammar: Grammar) -> Answer:
        """The inputs as they could be typed."""
        return {
            name: _text(value)
            for name, value in self.inputs.items()
            if name in grammar.input or name in grammar.table
        }


def saved_model(asked: Asked) -> SavedModel | None:
    """The trained model whose weights are asked for, or None. Raises GrammarError (F415)."""
    from fgg.api.saved import model_file
    from fgg.runtime.model.saving import read

    known = (OWN, *((TRAINED,) if asked.home.model else ()), *models_in(asked.home))
    name = asked.word("weights", known, TRAINED if asked.home.model else OWN)
    if name == OWN:
        return None
    return read(model_file(asked.home.file("" if name == TRAINED else name)))


def seed_of(asked: Asked) -> int:
    """The seed of whatever is random. Raises GrammarError (F415)."""
    return asked.number("seed", 0, 0, MAX_SEED)


def weights_of(asked: Asked, program: Program, saved: SavedModel | None) -> dict[str, Tensor]:
    """The weights in float64, random ones by seed where nobody gives any. Raises GrammarError."""
    import torch

    given: dict[str, object] = {}
    if saved is not None:
        from fgg.api.saved import load_model

        given |= load_model(saved.path, query=asked.query_name).detached()
    return program.weights(given, seed=seed_of(asked), dtype=torch.float64)


def item_of(asked: Asked, program: Program, weights: Mapping[str, Tensor]) -> Item:
    """The item that is typed, or one that is drawn. Raises GrammarError.

    What cannot be typed, log-potentials, is random.
    """
    grammar = program.grammar
    lengths = asked.numbers("lengths", 1, MAX_LENGTH)
    lengths = {name: lengths[name] for name in length_names(grammar) if name in lengths}
    typed = _typed(asked, grammar)
    if typed and not asked.options.get("draw"):
        lengths = {n: value for n, value in lengths.items() if n not in _lengths_of(grammar)}
        if grammar.input_factors:
            known = _known_lengths(grammar, typed, lengths)
            typed |= {n: x for n, x in _others(asked, grammar, known).items() if n not in typed}
        return Item(typed, lengths, False)
    refused: GrammarError | None = None
    for tried in _tried(grammar, lengths):
        try:
            return _drawn(asked, program, weights, tried)
        except GrammarError as error:
            codes = {diagnostic.code for diagnostic in error.diagnostics}
            if codes == {"F420"}:
                return _any_tokens(asked, grammar, tried)
            if codes != {"F421"}:
                raise
            refused = refused or error
    assert refused is not None
    raise refused


def _typed(asked: Asked, grammar: Grammar) -> dict[str, object]:
    """The inputs that are typed; empty if none is."""
    texts = asked.options.get("inputs") or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        refuse("F415", "`inputs` gives texts by name")
    known = {*grammar.input, *grammar.table}
    typed: dict[str, object] = {}
    for name, text in texts.items():
        if name not in known or not text.strip():
            continue
        values = typed_values(text.strip())
        if values is None:
            refuse("F411", f"`{name}`: this is not a JSON list")
        typed[name] = values
    missing = [name for name in known if name not in typed]
    if typed and missing:
        refuse("F411", f"input `{min(missing)}` is not given", "type it, or draw an item")
    return typed


def _lengths_of(grammar: Grammar) -> set[str]:
    """The lengths that follow from inputs that are typed."""
    return {name for _, shape in _shapes(grammar) for extent in shape for name in extent.names()}


def _shapes(grammar: Grammar) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """What can be typed: the name and the shape of each input and table."""
    yield from ((item.name, item.shape) for item in grammar.inputs)
    yield from ((table.name, table.shape) for table in grammar.tables)


def _known_lengths(
    grammar: Grammar, typed: Mapping[str, object], lengths: Mapping[str, int]
) -> dict[str, int]:
    """The lengths of a typed item, those that are not typed from the controls."""
    known = dict.fromkeys(length_names(grammar), LENGTH) | dict(lengths)
    for name, shape in _shapes(grammar):
        extent: object = typed.get(name)
        for expr in shape:
            names = list(expr.names())
            if isinstance(extent, list) and len(names) == 1 and str(expr) == names[0]:
                known[names[0]] = len(extent)
            extent = extent[0] if isinstance(extent, list) and extent else None
    return known


def _tried(grammar: Grammar, lengths: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The lengths of an item to draw; if none are asked for, several are tried."""
    names = sorted(length_names(grammar))
    if not names or any(name in lengths for name in names):
        yield dict.fromkeys(names, LENGTH) | dict(lengths)
        return
    for length in (LENGTH, *OTHER_LENGTHS):
        yield dict.fromkeys(names, length)


def _others(asked: Asked, grammar: Grammar, lengths: Mapping[str, int]) -> dict[str, object]:
    """Random tables and log-potentials, by seed."""
    import numpy as np

    from fgg.runtime.verify.items import others_of

    if not (grammar.tables or grammar.input_factors):
        return {}
    (drawn,) = others_of(grammar, lengths, 1, np.random.default_rng(seed_of(asked)))
    return {name: array.tolist() for name, array in drawn.items()}


def _drawn(
    asked: Asked, program: Program, weights: Mapping[str, Tensor], lengths: Mapping[str, int]
) -> Item:
    """An item of given lengths, drawn from the model. Raises GrammarError."""
    others = _others(asked, program.grammar, lengths)
    inputs: dict[str, object] = {name: [value] for name, value in others.items()}
    batch = {name: [value] for name, value in lengths.items()}
    post = program.posterior(weights, inputs or None, batch or None)
    ((derivation,),) = post.sample(1, seed=seed_of(asked))
    made = {n: _without_gaps(x) for n, x in derivation.inputs().items()}
    return Item({**others, **{n: made[n] for n in program.grammar.input}}, lengths, True)


def _any_tokens(asked: Asked, grammar: Grammar, lengths: Mapping[str, int]) -> Item:
    """An item of uniformly random tokens, for models that are too large to draw from."""
    import numpy as np

    from fgg.runtime.verify.items import input_extents

    rng = np.random.default_rng(seed_of(asked))
    inputs: dict[str, object] = dict(_others(asked, grammar, lengths))
    for item in grammar.inputs:
        shape = input_extents(grammar, item.shape, lengths)
        inputs[item.name] = rng.integers(domain_size(grammar, item.domain), size=shape).tolist()
    return Item(inputs, lengths, True)


def _without_gaps(value: object) -> object:
    """Tokens that a derivation does not decide become missing ones."""
    if isinstance(value, list | tuple):
        return [_without_gaps(entry) for entry in value]
    return -1 if value is None else value


def _text(value: object) -> str:
    """An input as it could be typed."""
    if isinstance(value, list | tuple) and all(isinstance(x, str | int) for x in value):
        words = [str(word) for word in value]
        if words and all(len(word.split()) == 1 for word in words) and not words[0].startswith("["):
            return " ".join(words)
    return json.dumps(value, ensure_ascii=False)
